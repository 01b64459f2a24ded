// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plait/core/static_vector.hpp"
#include "plait/plan/parameter_blocks.hpp"
#include "plait/train/averages.hpp"
#include "plait/train/optimizer.hpp"
#include "plait/train/parameter_store.hpp"

namespace plait::execution {

/// A rectangle of a parameter that a rank saves; its place is in the rank's copy.
struct saved_rectangle {
  std::string name;  ///< of the parameter
  parameter_info info{};
  parameter_rectangle where{};
  bool is_frozen = false;
};

/// What a rank saves of its trainer, and how it takes it back: the parameters as the optimizer has
/// them and, for each trained one, the optimizer's states and the averages, if there are any. Each
/// of these is a kind, named by what follows the parameter's name: "" is the parameter itself.
///
/// All ranks of a job together have each element of each kind once: ranks that hold the same share
/// it out. What they take back may have been saved under any other plan.
template <class Job, class Rank>
class trainer_state {
  using plan = typename Job::plan_type;
  using store_type = parameter_store<Job, Rank>;
  using averages_type = averages<Job, Rank>;

 public:
  using element = typename Job::parameter_element;

  trainer_state(Rank& rank, store_type& store, averages_type& averages,
                std::vector<std::string> states)
      : rank_(rank), store_(store), averages_(averages), shares_(shares_of(rank, store)) {
    kinds_.push_back("");
    for (auto& name : states) kinds_.push_back("." + std::move(name));
    if (averages_.bytes() > 0) kinds_.push_back(".average");
    states_ = kinds_.size() - 1 - (averages_.bytes() > 0 ? 1 : 0);
  }

  [[nodiscard]] std::vector<std::string> const& kinds() const { return kinds_; }
  /// Elements of this rank's copy of one kind.
  [[nodiscard]] std::size_t count() const {
    std::size_t count = 0;
    for (auto const& share : shares_) count += share.elements.count;
    return count;
  }

  /// The rectangles of all parameters that this rank saves, in the order of the layers.
  [[nodiscard]] [[gnu::cold]] std::vector<saved_rectangle> rectangles() const {
    std::vector<saved_rectangle> out;
    for (auto const& parameter : store_.local()) {
      auto const& entry = plan::entries[parameter.entry];
      if (!is_saved_here(entry)) continue;
      std::vector<parameter_rectangle> mine;
      for (auto const& share : shares_) {
        std::size_t const before = mine.size();
        for (auto const& each : parameter.rectangles)
          planning::add_common(each, share.elements, mine);
        for (auto i = before; i < mine.size(); ++i)
          mine[i].place = mine[i].place - share.elements.offset + share.state_offset;
      }
      for (auto const& each : mine)
        out.push_back({parameter.name, entry.info.unpadded(), each, entry.is_frozen});
    }
    return out;
  }

  /// Copies this rank's elements of a kind to the host; of what is frozen there is the parameter
  /// alone.
  [[gnu::cold]] void copy(std::size_t kind, std::span<element> to) const {
    auto& device = rank_.device();
    device.synchronize();
    for (auto const& share : shares_) {
      auto const out = to.subspan(share.state_offset, share.elements.count);
      if (share.elements.offset >= store_.layout().count()) {
        if (kind == 0) store_.download_frozen(share.elements, out);
        else std::ranges::fill(out, element{0});
        continue;
      }
      for (auto const& block : store_.owned())
        if (auto const common = overlap(block.elements, share.elements); common.count > 0)
          device.download(data_of(kind, block) + (common.offset - block.elements.offset),
                          out.data() + (common.offset - share.elements.offset),
                          common.count * sizeof(element));
    }
    device.synchronize();
  }

  /// Takes a kind back: calls read(name of the tensor, parameter_info, rectangle, elements to fill,
  /// row by row) for what this rank needs.
  ///
  /// Errors: what `read` throws; the trainer is then of no more use.
  template <class Read>
  [[gnu::cold]] void restore(std::size_t kind, Read read) {
    rank_.device().synchronize();
    if (kind == 0) restore_parameters(read);
    else restore_owned(kind, read);
    rank_.device().synchronize();
  }

 private:
  using blocks = static_vector<owned_block, 3>;

  static constexpr element_range overlap(element_range const& a, element_range const& b) {
    std::size_t const begin = std::max(a.offset, b.offset), end = std::min(a.end(), b.end());
    return {begin, begin < end ? end - begin : 0};
  }

  /// What of the arena a rank saves and where it lies in its copy: what it owns, or a share of what
  /// all batch ranks have.
  [[gnu::cold]] static blocks shares_of(Rank const& rank, store_type const& store) {
    blocks out;
    auto const& layout = store.layout();
    std::size_t next = 0;
    bool const is_first = rank.grid().place_in_group(rank.place(), batch_axes) == 0;
    auto const add = [&](element_range const& range) {
      if (range.count == 0) return;
      out.push_back({range, next});
      next += range.count;
    };
    if constexpr (plan::cuts_arenas) {
      if (is_first_beside_cut(rank))
        for (auto const& block : store.owned()) add(block.elements);
    } else {
      for (auto const& block : owned_blocks(layout.regions, batch_axes, rank.grid(), rank.place()))
        add(block.elements);
    }
    if (is_first) add({layout.count(), layout.frozen_count});
    return out;
  }
  /// Whether this is the first of the ranks that own the same.
  static bool is_first_beside_cut(Rank const& rank) {
    for (axis const which : all_axes)
      if (batch_axes.contains(which) && !plan::rules.cut_axes().contains(which) &&
          rank.place().along(which) != 0)
        return false;
    return true;
  }
  /// Of what all tensor ranks have the first saves it.
  [[nodiscard]] bool is_saved_here(planning::parameter_entry const& entry) const {
    return is_shard(entry.stored) || rank_.tensor_rank() == 0;
  }

  [[nodiscard]] element* data_of(std::size_t kind, owned_block const& block) const {
    if (kind == 0) return store_.parameters_of(block);
    if (kind <= states_) return store_.state_of(block) + (kind - 1) * store_.owned_count();
    return averages_.data_of(block);
  }

  /// One rectangle, row by row, to where it lies behind `base`.
  template <class Read>
  void read_to(Read& read, std::string const& name, parameter_info const& info,
               parameter_rectangle const& each, std::span<element> out, std::size_t base) {
    rows_.resize(each.count());
    read(name, info, each, std::span<element>(rows_));
    for (std::size_t i = 0; i < each.rows; ++i)
      std::copy_n(rows_.begin() + static_cast<std::ptrdiff_t>(i * each.columns), each.columns,
                  out.begin() + static_cast<std::ptrdiff_t>(each.place + i * each.stride - base));
  }

  template <class Read>
  void restore_parameters(Read& read) {
    std::vector<element> block;
    for (auto const& parameter : store_.local()) {
      auto const info = plan::entries[parameter.entry].info.unpadded();
      block.assign(parameter.count, element{0});
      for (auto const& each : parameter.rectangles)
        read_to(read, parameter.name, info, each, block, parameter.offset);
      store_.set(parameter, block);
    }
  }
  template <class Read>
  void restore_owned(std::size_t kind, Read& read) {
    std::vector<element> values;
    std::vector<parameter_rectangle> mine;
    for (auto const& block : store_.owned()) {
      values.assign(block.elements.count, element{0});
      for (auto const& parameter : store_.local()) {
        auto const& entry = plan::entries[parameter.entry];
        if (entry.is_frozen) continue;
        mine.clear();
        for (auto const& each : parameter.rectangles)
          planning::add_common(each, block.elements, mine);
        for (auto const& each : mine)
          read_to(read, parameter.name + kinds_[kind], entry.info.unpadded(), each, values,
                  block.elements.offset);
      }
      rank_.device().upload(values.data(), data_of(kind, block), values.size() * sizeof(element));
      rank_.device().synchronize();
    }
  }

  Rank& rank_;
  store_type& store_;
  averages_type& averages_;
  blocks shares_;
  std::vector<std::string> kinds_{};
  std::size_t states_ = 0;
  std::vector<element> rows_{};
};

}  // namespace plait::execution
