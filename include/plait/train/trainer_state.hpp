// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "plait/core/concat.hpp"
#include "plait/core/function_reference.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/mesh/blocks.hpp"
#include "plait/plan/sharding/parameter_blocks.hpp"
#include "plait/train/checks/consistency_check.hpp"
#include "plait/train/checks/require_same.hpp"
#include "plait/train/options/optimizer.hpp"
#include "plait/train/state/imported_values.hpp"
#include "plait/train/state/saved_state.hpp"
#include "plait/train/training_settings.hpp"

namespace plait::execution {

/// Returns the tensors of all parameters of a model.
template <class Plan>
[[nodiscard]] [[gnu::cold]] std::vector<saved_tensor> tensors_of(mesh const& grid) {
  std::vector<saved_tensor> out;
  for (auto const& parameter : Plan::blocks_of_model(grid))
    out.push_back({parameter.name, Plan::entries[parameter.entry].info.unpadded()});
  return out;
}

/// The saved_state of a trainer on one rank. A rank saves the elements that its optimizer owns. If
/// several ranks own the same elements, as data ranks without `zero` do, they divide these
/// elements: each of 4 data ranks saves a quarter. A saved state may come from another plan, so a
/// rank reads its elements as rectangles of whole tensors, which it requests by name.
///
/// `Parts`: the trainer_parts, which outlive this object.
template <class Parts>
class trainer_state final : public saved_state {
  using plan = typename Parts::job_type::plan_type;
  using element = typename Parts::job_type::parameter_element;
  using state_element = typename Parts::elements::state_element;
  using gradient_element = typename Parts::elements::gradient_element;
  using rule_type = decltype(Parts::rule);

 public:
  explicit trainer_state(Parts& of) : of_(of) {
    share_out();
    kinds_.push_back("");
    for (auto& name : state_names_of<decltype(of.rule)>()) kinds_.push_back(concat({".", name}));
    // The options decide whether there are averages, because they are the same on all ranks. The
    // memory for averages is not the same on all ranks: a rank whose stage trains nothing has no
    // such memory.
    if (of.options.average > 0) kinds_.push_back(".average");
    if constexpr (plan::delays) kinds_.push_back(".pending_gradient");
    if constexpr (plan::local_steps > 0) kinds_.push_back(".outer_momentum");
    matrix_kinds_ = kinds_;
    if constexpr (matrix_optimizer<rule_type>)
      rule_type::whole_matrices::template name_states<rule_type>(matrix_kinds_);
    if constexpr (plan::local_steps > 0) {
      of_all_replicas_[0] = kinds_;
      of_all_replicas_[1] = matrix_kinds_;
      for (auto* const suffixes : {&kinds_, &matrix_kinds_})
        for (std::size_t kind = 1; kind <= states; ++kind)
          (*suffixes)[kind] = in_replica(replica(), (*suffixes)[kind]);
    }
  }

  [[nodiscard]] int rank() const override { return of_.rank.world_rank(); }
  [[nodiscard]] int world_size() const override { return of_.rank.world_size(); }
  [[nodiscard]] std::int64_t step() const override { return of_.held.step; }
  [[gnu::cold]] void go_on_at(run_origin const& from) override {
    of_.held.origin = from;
    of_.held.step = from.step;
    of_.held.last = {};
    of_.forget_local_steps();
    of_.set_ages([&](auto const&) { return from.step; });
  }
  [[nodiscard]] run_origin origin() const override { return of_.held.origin; }
  [[nodiscard]] bool is_held() const override { return of_.is_held(); }
  [[nodiscard]] job_generation generation() const override {
    auto* const now = of_.rank.generation();
    return now == nullptr ? job_generation{} : job_generation{now->job_id(), now->number()};
  }
  void refuse_joining_ranks(function_reference<std::string(int, int)> wrong) const override {
    plait::execution::refuse_joining_ranks(of_.rank.generation(), wrong);
  }
  [[nodiscard]] std::size_t element_bytes(std::size_t kind) const override {
    if (is_pending(kind)) return sizeof(gradient_element);
    return is_state(kind) ? sizeof(state_element) : sizeof(element);
  }
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> settings() const override {
    auto out = settings_of<plan>(of_.rule, of_.options, of_.rank.grid());
    out.emplace_back(kind_setting, of_.rank.device().kind());
    return out;
  }

  [[nodiscard]] [[gnu::cold]] std::vector<tensor_of_state> tensors() const override {
    std::vector<tensor_of_state> out;
    for (auto const& parameter : plan::blocks_of_model(of_.rank.grid())) {
      auto const& entry = plan::entries[parameter.entry];
      auto const& kinds = kinds_of(parameter);
      auto const add = [&](std::string const& suffix, std::size_t kind) {
        out.push_back({parameter.name + suffix, entry.info.unpadded(), kind});
      };
      for (std::size_t kind = 0; kind < (entry.has_gradient() ? kinds.size() : 1); ++kind) {
        if (kind > 0 && (kinds[kind].empty() || (is_pending(kind) && !contains(kind)))) continue;
        if (plan::local_steps == 0 || !is_state(kind)) add(kinds[kind], kind);
        else
          for (int r = 0; r < of_.rank.grid().size(plan::rules.local_axes); ++r)
            add(in_replica(r, of_all_replicas_[is_matrix(parameter) ? 1 : 0][kind]), kind);
      }
    }
    return out;
  }
  [[nodiscard]] [[gnu::cold]] std::vector<saved_tensor> parameters() const override {
    return tensors_of<plan>(of_.rank.grid());
  }

  [[nodiscard]] [[gnu::cold]] std::vector<std::vector<std::uint64_t>> of_all_ranks(
      std::vector<std::uint64_t> numbers) const override {
    static_assert(most_numbers == planning::compared_fields);
    auto const calls = of_.messages();
    auto const all = of_.gather_numbers().of_all(numbers);
    std::vector<std::vector<std::uint64_t>> out;
    for (std::size_t of = 0; of < all.size(); ++of)
      out.emplace_back(all[of], all[of] + numbers.size());
    return out;
  }

  [[nodiscard]] int steps_between_saves() const override {
    return plan::local_steps > 0 ? plan::local_steps : 1;
  }
  [[gnu::cold]] void complete() override {
    of_.require_common("saving a checkpoint");
    if constexpr (plan::delays) {
      auto const mine = of_.calls();
      of_.reduce_pending();
    }
  }
  [[nodiscard]] bool contains(std::size_t kind) const override {
    if (is_pending(kind)) return of_.has_pending();
    return plan::local_steps == 0 || is_state(kind) || replica() == 0;
  }
  [[nodiscard]] std::vector<std::string> const& kinds() const override { return kinds_; }
  [[nodiscard]] std::vector<std::string> const& matrix_kinds() const override {
    return matrix_kinds_;
  }
  [[nodiscard]] std::size_t count() const override {
    std::size_t count = 0;
    for (auto const& share : shares_) count += share.elements.count;
    return count;
  }

  [[nodiscard]] [[gnu::cold]] std::vector<saved_rectangle> rectangles() const override {
    std::vector<saved_rectangle> out;
    for (auto const& parameter : of_.store.local()) {
      auto const& entry = plan::entries[parameter.entry];
      if (!is_saved_here(entry)) continue;
      lean_vector<parameter_rectangle> mine;
      for (auto const& share : shares_) {
        std::size_t const before = mine.size();
        for (auto const& each : parameter.rectangles)
          planning::add_common(each, share.elements, mine);
        for (auto i = before; i < mine.size(); ++i)
          mine[i].place = mine[i].place - share.elements.offset + share.state_offset;
      }
      for (auto const& each : mine)
        out.push_back({parameter.name, entry.info.unpadded(), each, !entry.has_gradient(),
                       is_matrix(parameter)});
    }
    return out;
  }

  [[gnu::cold]] void copy(std::size_t kind, void* all) const override {
    std::size_t const each = element_bytes(kind);
    auto& device = of_.rank.device();
    device.synchronize();
    for (auto const& share : shares_) {
      auto* const out = static_cast<std::byte*>(all) + share.state_offset * each;
      std::size_t const count = share.elements.count;
      if (share.elements.offset >= of_.store.layout().count()) {
        if (kind == 0)
          of_.store.download_frozen(share.elements, {reinterpret_cast<element*>(out), count});
        else std::fill_n(out, count * each, std::byte{0});
        continue;
      }
      for (auto const& block : of_.store.owned())
        if (auto const common = overlap(block.elements, share.elements); common.count > 0)
          device.download(data_of(kind, block) + (common.offset - block.elements.offset) * each,
                          out + (common.offset - share.elements.offset) * each,
                          common.count * each);
    }
    device.synchronize();
  }

  [[gnu::cold]] void restore(std::size_t kind, state_source& from) override {
    of_.rank.device().synchronize();
    if (kind == 0) restore_parameters(from);
    else restore_owned(kind, from);
    if (kind == 0) of_.store.keep_common();
    if (is_pending(kind)) of_.set_pending_sums(has_pending(from));
    of_.rank.device().synchronize();
  }
  [[gnu::cold]] void import_parameters(state_source& from) override {
    of_.take_parameters([&] { return of_.store.import_blocks(from); }, imported_values::blocks);
  }
  [[gnu::cold]] void restore_ages(state_source const& from) override {
    of_.set_ages([&](parameter_block const& parameter) {
      return has_states(from, parameter) ? from.age(parameter.name).value_or(step()) : 0;
    });
  }
  [[nodiscard]] [[gnu::cold]] std::vector<std::pair<std::string, std::int64_t>> ages()
      const override {
    std::vector<std::pair<std::string, std::int64_t>> out;
    if (of_.held.ages.are_equal() && of_.held.ages.oldest() == step()) return out;
    for (auto const& parameter : plan::blocks_of_model(of_.rank.grid()))
      if (auto const age = of_.held.ages.of(parameter.number);
          plan::entries[parameter.entry].has_gradient() && age != step())
        out.emplace_back(parameter.name, age);
    return out;
  }

 private:
  static constexpr auto states = std::size_t(rule_type::states);

  /// Returns the number of this rank's replica; 0 in a plan without replicas.
  [[nodiscard]] int replica() const {
    return of_.rank.grid().place_in_group(of_.rank.coordinates(), plan::rules.local_axes);
  }
  /// Returns the suffix of an optimizer's state in a replica, such as ".replica1.exp_avg"; "" if
  /// `suffix` is empty.
  static std::string in_replica(int number, std::string const& suffix) {
    return suffix.empty() ? suffix : concat({".replica", number, suffix});
  }

  /// Stores in `shares_` the ranges of the arena that this rank saves, with their offsets in the
  /// copy that copy() makes. A rank saves the elements that it owns; if several ranks of the batch
  /// axes own the same elements, it saves its share of these elements.
  [[gnu::cold]] void share_out() {
    auto const& layout = of_.store.layout();
    auto const add = [&](element_range const& range) {
      if (range.count > 0) shares_.push_back({range, count()});
    };
    // The placement `cut` represents the cuts of all forms here, because each parameter may be cut
    // in a different way. For a single parameter, is_saved_here() decides.
    constexpr auto cut = shard<dim::features>;
    auto const saved = saved_placements(cut);
    auto const& place = of_.rank.coordinates();
    if (holds_the_one_copy(saved, place))
      for (auto const& block : saved_blocks(saved.axes_with(shard<dim::elements>)))
        add(block.elements);
    if (holds_the_one_copy(saved_as(plan::rules.kept, cut), place)) {
      if (layout.frozen_buckets.empty()) add({layout.count(), layout.frozen_count});
      of_.store.for_each_kept_block([&](element_range const& block, std::size_t) {
        if (block.offset >= layout.count()) add(block);
      });
    }
  }
  /// Returns the blocks that this rank owns, or this rank's share of the regions if several ranks
  /// of the batch axes own the same elements.
  [[nodiscard]] lean_vector<owned_block> saved_blocks(axis_set cut) const {
    if (plan::cuts_arenas) return of_.store.owned();
    auto const& [first, second] = of_.store.layout().regions;
    return blocks_of_buckets({{0, {}, first}, {1, {}, second}}, cut, of_.rank.grid(),
                             of_.rank.coordinates());
  }
  /// Returns the placements of a parameter under a rule such as plan::rules.owned. `form`: the
  /// placement that the layer's form gives to the parameter.
  static placements saved_as(placements const& rule, placement form) {
    return rule.with(plan::rules.model_axis, form).on_stage(0);
  }
  /// Returns the placements in which a parameter is saved: the placements in which optimizers own
  /// the parameter or, if several ranks of the batch axes own the same elements, a cut along these
  /// axes. Each replica saves all elements, because its states are its own.
  static placements saved_placements(placement form) {
    auto const owned = saved_as(plan::rules.owned, form);
    return plan::rules.cut_axes().empty()
               ? owned.with(batch_axes, shard<dim::elements>).with(plan::rules.local_axes, varying)
               : owned;
  }
  [[nodiscard]] bool is_saved_here(planning::parameter_entry const& entry) const {
    return holds_the_one_copy(saved_placements(entry.stored), of_.rank.coordinates());
  }

  /// Returns true if the optimizer updates a parameter as a whole matrix.
  [[nodiscard]] bool is_matrix(parameter_block const& parameter) const {
    if constexpr (matrix_optimizer<rule_type>)
      return rule_type::whole_matrices::is_whole_matrix(plan::entries[parameter.entry], parameter,
                                                        of_.rule);
    else return false;
  }
  /// Returns the suffixes of a parameter's tensors, by kind: "" for the parameter itself and, for
  /// example, ".exp_avg" for a state of AdamW.
  [[nodiscard]] std::vector<std::string> const& kinds_of(parameter_block const& parameter) const {
    return is_matrix(parameter) ? matrix_kinds_ : kinds_;
  }
  static bool is_state(std::size_t kind) { return kind > 0 && kind <= states; }
  [[nodiscard]] bool is_pending(std::size_t kind) const {
    return plan::delays && kind + 1 == kinds_.size();
  }
  [[nodiscard]] bool is_outer_momentum(std::size_t kind) const {
    return plan::local_steps > 0 && kind + 1 == kinds_.size();
  }
  /// Returns the address, on the device, of a block's elements of a kind.
  [[nodiscard]] std::byte* data_of(std::size_t kind, owned_block const& block) const {
    if (is_state(kind))
      return reinterpret_cast<std::byte*>(of_.store.state_of(block) +
                                          (kind - 1) * of_.store.owned_count());
    if (is_pending(kind))
      return reinterpret_cast<std::byte*>(of_.store.pending() + block.gradients_at);
    if (is_outer_momentum(kind))
      return reinterpret_cast<std::byte*>(of_.store.outer_momentum_of(block));
    return reinterpret_cast<std::byte*>(kind == 0 ? of_.store.parameters_of(block)
                                                  : of_.averaged.data_of(block));
  }

  void restore_parameters(state_source& from) {
    std::vector<element> block;
    for (auto const& parameter : of_.store.local()) {
      of_.store.read_block(from, parameter, block);
      of_.store.set(parameter, block);
    }
  }
  /// Returns true if a source has all optimizer states of a parameter; with replicas, the states of
  /// all replicas, so that the states have the same age in each of them.
  [[nodiscard]] bool has_states(state_source const& from, parameter_block const& of) const {
    auto const& kinds =
        plan::local_steps == 0 ? kinds_of(of) : of_all_replicas_[is_matrix(of) ? 1 : 0];
    auto const has = [&](std::string const& suffix) { return from.contains(of.name + suffix); };
    for (std::size_t kind = 1; kind <= states; ++kind) {
      if (kinds[kind].empty()) continue;
      if (plan::local_steps == 0 && !has(kinds[kind])) return false;
      for (int r = 0; plan::local_steps > 0 && r < of_.rank.grid().size(plan::rules.local_axes);
           ++r)
        if (!has(in_replica(r, kinds[kind]))) return false;
    }
    return true;
  }
  /// Uploads the values of a block of a kind, in the kind's type on the device.
  void upload(std::size_t kind, std::vector<element> const& values, owned_block const& block) {
    auto* const to = data_of(kind, block);
    if (is_state(kind)) upload_as<state_element>(values, to);
    else if (is_pending(kind)) upload_as<gradient_element>(values, to);
    else upload_as<element>(values, to);
  }
  template <class Element>
  void upload_as(std::vector<element> const& values, std::byte* to) {
    auto& device = of_.rank.device();
    if constexpr (std::is_same_v<element, Element>) {
      device.upload(values.data(), to, values.size() * sizeof(element));
    } else {
      lean_vector<Element> converted(values.size());
      for (std::size_t i = 0; i < values.size(); ++i)
        converted[i] = static_cast<Element>(values[i]);
      device.upload(converted.data(), to, converted.size() * sizeof(Element));
      device.synchronize();  // `converted` is a local variable
    }
  }
  /// Returns true if a source has the pending gradients of all parameters.
  [[nodiscard]] bool has_pending(state_source const& from) const {
    for (auto const& parameter : plan::blocks_of_model(of_.rank.grid()))
      if (plan::entries[parameter.entry].has_gradient() &&
          !from.contains(parameter.name + kinds_.back()))
        return false;
    return true;
  }
  void restore_owned(std::size_t kind, state_source& from) {
    auto const is_there = [&](parameter_block const& of) {
      return kind <= states ? has_states(from, of) && !kinds_of(of)[kind].empty()
                            : from.contains(of.name + kinds_[kind]);
    };
    std::vector<element> values;
    lean_vector<parameter_rectangle> mine;
    for (auto const& block : of_.store.owned()) {
      values.assign(block.elements.count, element{0});
      for (auto const& parameter : of_.store.local()) {
        auto const& entry = plan::entries[parameter.entry];
        if (!entry.has_gradient() || !is_there(parameter)) continue;
        mine.clear();
        for (auto const& each : parameter.rectangles)
          planning::add_common(each, block.elements, mine);
        for (auto const& each : mine)
          of_.store.read_rectangle(from, parameter.name + kinds_of(parameter)[kind],
                                   entry.info.unpadded(), each, values, block.elements.offset);
      }
      upload(kind, values, block);
      of_.rank.device().synchronize();
      // Averages that the source lacks are set to the parameters.
      if (kind > states && !is_pending(kind) && !is_outer_momentum(kind))
        for (auto const& parameter : of_.store.local())
          if (auto const common = overlap(block.elements, parameter);
              common.count > 0 &&
              !(plan::entries[parameter.entry].has_gradient() && is_there(parameter)))
            of_.averaged.copy(block, common.offset - block.elements.offset, common.count);
    }
  }

  Parts& of_;
  lean_vector<owned_block> shares_;
  std::vector<std::string> kinds_{}, matrix_kinds_{};
  // In a plan with replicas, kinds_ and matrix_kinds_ without the number of this rank's replica.
  std::array<std::vector<std::string>, 2> of_all_replicas_{};
};

}  // namespace plait::execution
