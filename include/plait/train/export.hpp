// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "plait/core/static_vector.hpp"
#include "plait/plan/exchanges.hpp"
#include "plait/plan/parameter_blocks.hpp"
#include "plait/plan/step_program.hpp"
#include "plait/run/exchange_runner.hpp"
#include "plait/run/move.hpp"
#include "plait/run/step_runner.hpp"

namespace plait::execution {

/// A stored parameter in the words of activations, as `move_value` takes it: a matrix that is cut
/// by rows is one long row that is cut by features, so that `parts` mean the same for both.
constexpr placement as_value_placement(parameter_entry const& entry) {
  return is_shard(entry.stored)
             ? placement{placement_kind::shard, dim::features, entry.stored.parts}
             : entry.stored;
}
/// The shape of the whole parameter in the same words.
constexpr whole_shape as_value_shape(parameter_entry const& entry) {
  bool const cut_rows = is_shard(entry.stored) && entry.info.rank == 2 && entry.stored.index == 0;
  return cut_rows ? whole_shape{1, entry.info.count()}
                  : whole_shape{entry.info.rows, entry.info.columns};
}

/// The placements in which a plan stores parameters, each once.
template <class Plan>
inline constexpr auto stored_placements = [] {
  static_vector<placement, Plan::entries.capacity> out;
  for (auto const& entry : Plan::entries)
    if (std::find(out.begin(), out.end(), as_value_placement(entry)) == out.end())
      out.push_back(as_value_placement(entry));
  return out;
}();

/// Calls body.operator()<placement>() for the one in which `entry` is stored.
template <class Plan, class Body>
void with_stored_placement(parameter_entry const& entry, Body body) {
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    constexpr auto& all = stored_placements<Plan>;
    ((all[int(I)] == as_value_placement(entry) ? body.template operator()<all[int(I)]>() : void()),
     ...);
  }(std::make_index_sequence<std::size_t(stored_placements<Plan>.size())>{});
}

/// What the operations of an export do. `T`: the type of the arena and of what `sink` is given.
template <class Job, class Rank, class T, class Sink>
class export_work {
  using plan = typename Job::plan_type;
  using element = typename Job::element;
  using arena = typename Rank::device_type::arena;

 public:
  /// `room` and `staging`: as long as the longest tensor.
  [[gnu::cold]] export_work(Rank& rank, T* trained, element const* seen, arena const& room,
                            arena const& staging, Sink& sink)
      : rank_(rank),
        trained_(trained),
        seen_(seen),
        room_(room.data()),
        staging_(staging.data()),
        sink_(sink) {
    for (int stage = 0; stage < plan::stages; ++stage)
      for (auto& parameter : plan::blocks(stage, 0, rank.grid()))
        tensors_.push_back(std::move(parameter));
  }

  void compute(program_operation const& now) {
    // The arenas rest: averages may have changed places with parameters just before.
    if (now.what == operation_kind::send) rank_.device().synchronize();
    if (now.what == operation_kind::take) take(now);
    if (now.what == operation_kind::read) read(now);
  }
  void run(exchange_runner<Rank> const& exchanges, program_operation const& now) {
    auto const& row = exchanges.row(now.row);
    if (row.what.place == exchange_place::blocks) return exchanges.run(now, trained_);
    if (row.moves != collective::send) return take(now);
    with_arena(now, [&]<class From>(From const*) {
      exchanges.run(now, reinterpret_cast<From*>(room_), tensor_of(now).number);
    });
  }

 private:
  [[nodiscard]] [[gnu::cold]] parameter_block const& tensor_of(program_operation const& now) const {
    int const first = plan::code.items[plan::entries[now.entry].item].first_unit;
    return *std::ranges::find_if(tensors_, [&](parameter_block const& one) {
      return one.entry == now.entry && one.copy == now.units.begin - first;
    });
  }
  /// Calls body(arena) with the one in which a tensor is: what is frozen is held as layers see it.
  template <class Body>
  void with_arena(program_operation const& now, Body body) const {
    if constexpr (plan::has_frozen)
      if (plan::entries[now.entry].is_frozen) return body(seen_);
    body(static_cast<T const*>(trained_));
  }

  /// The tensor, whole, into the room.
  [[gnu::cold]] void take(program_operation const& now) const {
    auto const& entry = plan::entries[now.entry];
    with_arena(now, [&]<class From>(From const* held) {
      // No `if constexpr` around what is captured here: cicc of CUDA 13.0 crashes on it.
      with_stored_placement<plan>(entry, [&]<placement Stored>() {
        constexpr bool moves = communicates(transition_between(Stored, invariant).moves);
        move_value<Stored, invariant>(rank_.device().on(moves ? within_layers : stream::compute),
                                      rank_.tensor_group(), as_value_shape(entry),
                                      held + tensor_of(now).offset, reinterpret_cast<From*>(room_),
                                      reinterpret_cast<From*>(staging_));
      });
    });
  }

  [[gnu::cold]] void read(program_operation const& now) {
    auto& device = rank_.device();
    // The host reads the tensor, and the program counts on it that all ranks of the stage wait.
    if (!rank_.is_root()) return device.synchronize();
    auto const& tensor = tensor_of(now);
    auto const& info = plan::entries[now.entry].info;
    values_.resize(info.count());
    with_arena(now, [&]<class From>(From const*) {
      if constexpr (std::is_same_v<From, T>) {
        device.download(room_, values_.data(), info.count() * sizeof(T));
        device.synchronize();
      } else {
        std::vector<From> rounded(info.count());
        device.download(room_, rounded.data(), info.count() * sizeof(From));
        device.synchronize();
        for (std::size_t i = 0; i < rounded.size(); ++i) values_[i] = static_cast<T>(rounded[i]);
      }
    });
    auto const unpadded = info.unpadded();
    sink_(tensor.name, unpadded, std::span<T const>(values_).first(unpadded.count()));
  }

  Rank& rank_;
  T* trained_;
  element const* seen_;
  std::byte *room_, *staging_;
  Sink& sink_;
  std::vector<parameter_block> tensors_{};  // of the model
  std::vector<T> values_{};
};

/// Gathers a tensor of each parameter (its value or its gradient) to the root rank and calls
/// sink(name, parameter_info, whole values) there, without padding, in the order of the layers.
/// Collective. `part` is the one that exports parameters, or gradients, which what is frozen does
/// not have. `seen` are the parameters as layers see them: frozen ones are held there alone.
///
/// Moves: what the plan's list has for the part: the blocks of an arena of which each rank has one
///        (it is changed to have them all), each cut parameter shard -> invariant over the tensor
///        axis, each parameter of another stage only<stage> -> only<0> over the stage axis.
template <class Job, class Rank, class T, class Sink>
[[gnu::cold]] void export_tensors(Rank& rank, job_part part, T* arena,
                                  typename Job::element const* seen, Sink sink) {
  using plan = typename Job::plan_type;
  static_assert(sizeof(T) >= sizeof(typename Job::element));
  std::size_t const longest =
      greatest_at(exchanges_on<plan>(rank, {}, part, true), exchange_place::parameter);
  auto const room = rank.device().allocate(longest * sizeof(T));
  auto const staging = rank.device().allocate(longest * sizeof(T));
  auto const list = exchanges_on<plan>(rank, {}, part);
  step_runner<Rank> program(rank, list, program_of<plan>(rank.grid(), list, rank.stage(), part));
  export_work<Job, Rank, T, Sink> work(rank, arena, seen, room, staging, sink);
  program.run(work);
  rank.device().synchronize();  // the room is given back
}

}  // namespace plait::execution
