// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plait/core/bfloat16.hpp"
#include "plait/train/trainer_state.hpp"

// The state of a job as whole tensors in memory, saved and restored through the interface that
// checkpoints use.
namespace whole_states {

/// Whole tensors by the name of the parameter and the kind.
struct states {
  std::map<std::string, std::vector<double>> tensors;
  std::map<std::string, std::int64_t, std::less<>> ages;
  std::int64_t step = 0;
};

/// Returns elements of `bytes` bytes as doubles.
inline std::vector<double> widened(std::vector<std::byte> const& from, std::size_t bytes) {
  std::vector<double> out(from.size() / bytes);
  for (std::size_t i = 0; i < out.size(); ++i) {
    auto const read = [&](auto value) {
      std::memcpy(static_cast<void*>(&value), from.data() + i * bytes, bytes);
      return static_cast<double>(value);
    };
    out[i] = bytes == 8 ? read(0.0) : bytes == 4 ? read(0.0f) : read(plait::bfloat16{});
  }
  return out;
}

/// Adds the part of the state that a rank saves; the ranks of a job share `to` and `lock`.
inline void save(plait::saved_state const& state, states& to, std::mutex& lock) {
  for (std::size_t kind = 0; kind < state.kinds().size(); ++kind) {
    if (!state.contains(kind)) continue;
    std::vector<std::byte> bytes(state.count() * state.element_bytes(kind));
    state.copy(kind, bytes.data());
    auto const copy = widened(bytes, state.element_bytes(kind));
    std::lock_guard const alone(lock);
    for (auto const& [name, info, where, is_alone, is_matrix] : state.rectangles()) {
      auto const& suffix = (is_matrix ? state.matrix_kinds() : state.kinds())[kind];
      if (kind > 0 && (is_alone || suffix.empty())) continue;
      auto& tensor = to.tensors[name + suffix];
      tensor.resize(info.count());
      for (std::size_t i = 0; i < where.rows; ++i)
        for (std::size_t j = 0; j < where.columns; ++j)
          tensor[(where.row + i) * info.columns + where.column + j] =
              copy[where.place + i * where.stride + j];
    }
  }
  std::lock_guard const alone(lock);
  for (auto const& [name, age] : state.ages()) to.ages[name] = age;
  to.step = state.step();
}

/// A source of the elements of whole tensors; `Parameter`: the type of the trainer's parameters.
template <class Parameter>
class from_memory final : public plait::ext::state_source {
 public:
  explicit from_memory(states const& all) : all_(all) {}
  [[nodiscard]] bool contains(std::string_view name) const override {
    return all_.tensors.contains(std::string(name));
  }
  [[nodiscard]] std::optional<std::int64_t> age(std::string_view name) const override {
    auto const found = all_.ages.find(name);
    return found == all_.ages.end() ? std::nullopt : std::optional(found->second);
  }
  void read(std::string const& name, plait::ext::parameter_info const& info,
            plait::ext::parameter_rectangle const& where, void* out) override {
    auto const& tensor = all_.tensors.at(name);
    for (std::size_t i = 0; i < where.count(); ++i)
      static_cast<Parameter*>(out)[i] =
          static_cast<Parameter>(tensor[(where.row + i / where.columns) * info.columns +
                                        where.column + i % where.columns]);
  }

 private:
  states const& all_;
};

/// Restores the part of the state that a rank has.
template <class Parameter>
void load(plait::saved_state& state, states const& from) {
  from_memory<Parameter> source(from);
  for (std::size_t kind = 0; kind < state.kinds().size(); ++kind) state.restore(kind, source);
  state.go_on_at({from.step, static_cast<std::uint64_t>(from.step)});
  state.restore_ages(source);
}

}  // namespace whole_states
