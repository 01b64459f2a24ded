// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "plait/core/error.hpp"
#include "plait/core/finite.hpp"
#include "plait/core/function_reference.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/plan/memory.hpp"
#include "plait/plan/plan_facts.hpp"
#include "plait/plan/report/memory_text.hpp"
#include "plait/plan/schedule/transfers.hpp"
#include "plait/plan/sharding/arena_layout.hpp"
#include "plait/run/staging_buffers.hpp"
#include "plait/train/state/imported_values.hpp"
#include "plait/train/state/saved_state.hpp"
#include "plait/train/state/start_values.hpp"

namespace plait::execution {

/// The memory of what one rank trains: parameters, what layers see of them if that is of another
/// type, gradients, the states of the optimizer one behind the other, averages.
template <class Rank>
struct training_arenas {
  typename Rank::device_type::arena parameters{}, copies{}, gradients{}, state{}, averages{};
};

/// The types of a job's activations, of its parameters in the optimizer's hands, and of their
/// gradients; see parallel.
template <class Element, class ParameterElement, class GradientElement>
struct element_types {
  using element = Element;
  using parameter_element = ParameterElement;
  using gradient_element = GradientElement;
};

/// Places of the parameters of a rank: the layout of its stage, the blocks that it has, and the
/// accumulators in which it adds up gradients slice by slice.
struct placed_parameters {
  parameter_layout layout;
  lean_vector<parameter_block> local;
  slice_arena slices;
};
template <class Plan, class Rank>
[[nodiscard]] [[gnu::cold]] placed_parameters parameters_on(Rank const& rank) {
  auto layout = Plan::parameter_layout_for(rank.stage(), rank.grid());
  auto const slices = Plan::slice_arena_for(layout, rank.grid());
  return {std::move(layout), Plan::blocks(rank.stage(), rank.tensor_rank(), rank.grid()), slices};
}

/// The parameters of one rank's stage, their gradients and the optimizer's state, in flat arenas:
/// each as the plan says that it is kept, summed and owned. The arenas outlive it.
///
/// `Elements`: element_types of the job.
/// Errors:  out_of_memory says what the plan needs the memory for.
/// Threads: used by the one thread that runs the rank.
template <class Elements, class Rank>
class parameter_store {
  using T = typename Elements::element;
  using parameter_element = typename Elements::parameter_element;
  using gradient_element = typename Elements::gradient_element;
  using arena = typename Rank::device_type::arena;

 public:
  using element = T;

  /// Makes the arenas; start() or take() fills them. `plan`: the facts of the job's plan; `placed`:
  /// the result of parameters_on. `has_averages`: whether messages count memory of averages.
  [[gnu::cold]] parameter_store(Rank& rank, plan_facts const& plan, placed_parameters placed,
                                training_arenas<Rank>& arenas, int states, bool has_averages);

  /// Starts from the weights of `seed`: the same under every plan.
  [[gnu::cold]] void start(std::uint64_t seed);

  /// Takes over what `held` has of the same parameters, which lay elsewhere there, as `local` says:
  /// everything but the averages.
  [[gnu::cold]] void take(training_arenas<Rank> const& held,
                          lean_vector<parameter_block> const& local, std::size_t owned_count);
  /// The same of the averages.
  [[gnu::cold]] void take_averages(training_arenas<Rank> const& held,
                                   lean_vector<parameter_block> const& local);

  [[nodiscard]] auto const& layout() const { return layout_; }
  /// Where in the gradients' arena slices are added up.
  [[nodiscard]] slice_arena const& slices() const { return slices_; }
  [[nodiscard]] lean_vector<parameter_block> const& local() const { return local_; }
  /// What this rank's optimizer updates.
  [[nodiscard]] auto const& owned() const { return owned_; }
  /// Elements of one state of the optimizer.
  [[nodiscard]] std::size_t owned_count() const { return owned_count_; }

  /// The parameters in the type that layers see.
  [[nodiscard]] T* compute_parameters() const {
    return reinterpret_cast<T*>((has_copies ? arenas_.copies : arenas_.parameters).data());
  }
  /// The parameters that optimizers update.
  [[nodiscard]] parameter_element* parameters() const {
    return reinterpret_cast<parameter_element*>(arenas_.parameters.data());
  }
  [[nodiscard]] gradient_element* gradients() const {
    return reinterpret_cast<gradient_element*>(arenas_.gradients.data());
  }
  /// What the optimizer of this rank updates of `block`, its state, and the copies of it, if any.
  [[nodiscard]] parameter_element* parameters_of(owned_block const& block) const {
    return parameters() + place_of(block);
  }
  [[nodiscard]] parameter_element* state_of(owned_block const& block) const {
    return state() + block.state_offset;
  }
  [[nodiscard]] T* copies_of(owned_block const& block) const {
    return has_copies ? copies() + block.parameters_at : nullptr;
  }

  /// Calls source(name, parameter_info, whole values to fill), without padding, for each parameter
  /// and keeps this rank's block. A source that returns false has left the parameter as it is.
  /// Returns what ranks compare of that.
  ///
  /// Errors: input_error, naming the first, if a parameter has a value that is not finite.
  template <class Source>
  [[gnu::cold]] lean_vector<imported_values> import_from(Source source);

  /// The same of this rank's block of each parameter, which is all that is asked of the source.
  [[gnu::cold]] lean_vector<imported_values> import_blocks(state_source& source);

  /// Fills `block` with this rank's elements of a parameter, and with zeros where it is padded.
  [[gnu::cold]] void read_block(state_source& source, parameter_block const& parameter,
                                std::vector<parameter_element>& block);
  /// One rectangle, row by row, to where it lies behind `base`; straight there if its rows stand
  /// one behind the other.
  [[gnu::cold]] void read_rectangle(state_source& source, std::string const& name,
                                    parameter_info const& info, parameter_rectangle const& each,
                                    std::span<parameter_element> out, std::size_t base);

  /// This rank's block of a bucket, as it is kept.
  [[nodiscard]] block_of_bucket kept_block(int bucket) const {
    return block_in(layout_, layout_.parameters_at, bucket,
                    number_of_block(rules().kept, rank_.grid(), rank_.place()));
  }
  /// Calls action(elements, where they begin in the arena of what layers see) for what this rank
  /// keeps of each bucket that is not kept whole.
  [[gnu::cold]] void for_each_kept_block(
      function_reference<void(element_range const&, std::size_t)> action) const;
  /// Where this rank has its block of a bucket that is exported, and where it lies in the bucket.
  [[nodiscard]] [[gnu::cold]] block_of_bucket exported_block(int bucket, bool of_gradients) const;

  /// What layers see of frozen parameters, in the type of the others.
  [[gnu::cold]] void download_frozen(element_range const& range,
                                     std::span<parameter_element> to) const;

  /// Puts a parameter's block where it is kept and where it is owned.
  [[gnu::cold]] void set(parameter_block const& parameter,
                         std::vector<parameter_element> const& values);

  /// Memory for what does not depend on the batch.
  [[gnu::cold]] arena allocate(std::size_t bytes);

  /// Bytes of the arenas, and of the room that the rank's sums have taken.
  [[nodiscard]] memory_need allocated() const;

 private:
  /// Layers may see copies, of another type; then the parameters themselves are held as they are
  /// owned; of what is frozen there are the copies alone.
  static constexpr bool has_copies = !std::is_same_v<T, parameter_element>;

  [[nodiscard]] parameter_rules const& rules() const { return plan_.numbers.rules; }
  [[nodiscard]] parameter_entry const& entry_of(parameter_block const& parameter) const {
    return plan_.numbers.entries[parameter.entry];
  }
  [[nodiscard]] std::size_t stored_count() const {
    return has_copies ? owned_count_ : layout_.parameters_at.count;
  }
  static std::size_t place_of(owned_block const& block) {
    return has_copies ? block.state_offset : block.parameters_at;
  }
  /// Whether this rank's elements of a parameter are all of it, and no padding.
  [[nodiscard]] bool is_whole(parameter_block const& parameter);
  [[nodiscard]] bool is_kept_whole(parameter_block const& parameter) const {
    return !rules().keeps_blocks() ||
           overlap(layout_.regions[parameter_layout::over_tensor], parameter).count > 0;
  }
  /// Puts a parameter's block where layers see it, or what this rank keeps of it.
  [[gnu::cold]] void set_kept(parameter_block const& parameter, std::vector<T> const& values);
  /// Uploads the elements of a parameter that `block` has, which begins at `to`.
  template <class Element>
  [[gnu::cold]] void upload(parameter_block const& parameter, std::vector<Element> const& values,
                            element_range const& block, Element* to);

  [[nodiscard]] T* copies() const { return reinterpret_cast<T*>(arenas_.copies.data()); }
  [[nodiscard]] parameter_element* state() const {
    return reinterpret_cast<parameter_element*>(arenas_.state.data());
  }

  /// A parameter's elements from one arena to where they lie in another of this rank.
  template <class Element>
  void copy(arena const& held, std::size_t from, arena const& to, parameter_block const& where,
            std::size_t behind = 0) const;

  /// Zeros everywhere, also in what is padding.
  [[gnu::cold]] void clear();

  Rank& rank_;
  plan_facts const& plan_;
  training_arenas<Rank>& arenas_;
  int states_;
  bool has_averages_;
  parameter_layout layout_;
  lean_vector<parameter_block> local_;
  lean_vector<owned_block> owned_;
  std::size_t owned_count_;
  slice_arena slices_;
};

template <class Elements, class Rank>
parameter_store<Elements, Rank>::parameter_store(Rank& rank, plan_facts const& plan,
                                                 placed_parameters placed,
                                                 training_arenas<Rank>& arenas, int states,
                                                 bool has_averages)
    : rank_(rank),
      plan_(plan),
      arenas_(arenas),
      states_(states),
      has_averages_(has_averages),
      layout_(std::move(placed.layout)),
      local_(std::move(placed.local)),
      owned_(owned_blocks(layout_, rules(), rank.grid(), rank.place())),
      owned_count_(owned_.empty() ? 0 : owned_.back().state_offset + owned_.back().elements.count),
      slices_(placed.slices) {
  arenas_.parameters = allocate(stored_count() * sizeof(parameter_element));
  arenas_.copies = allocate(has_copies ? layout_.parameters_at.count * sizeof(T) : 0);
  arenas_.gradients = allocate(slices_.total * sizeof(gradient_element));
  arenas_.state = allocate(owned_count_ * sizeof(parameter_element) * std::size_t(states));
}

template <class Elements, class Rank>
void parameter_store<Elements, Rank>::start(std::uint64_t seed) {
  clear();
  // Processors that no rank has, if all ranks of the job run on this machine.
  std::size_t const threads =
      std::max(1u, std::thread::hardware_concurrency() / static_cast<unsigned>(rank_.world_size()));
  std::vector<parameter_element> block;
  for (auto const& parameter : local_) {
    block.resize(parameter.count);
    initial_values<parameter_element>(entry_of(parameter).info, parameter.number, seed,
                                      parameter.in_block(), block, threads);
    set(parameter, block);
  }
}

template <class Elements, class Rank>
void parameter_store<Elements, Rank>::take(training_arenas<Rank> const& held,
                                           lean_vector<parameter_block> const& local,
                                           std::size_t owned_count) {
  clear();
  for (std::size_t i = 0; i < local_.size(); ++i) {
    auto const &from = local[i], &to = local_[i];
    bool const is_frozen = entry_of(to).is_frozen;
    if (!is_frozen || !has_copies)
      copy<parameter_element>(held.parameters, from.offset, arenas_.parameters, to);
    if constexpr (has_copies) copy<T>(held.copies, from.offset, arenas_.copies, to);
    if (is_frozen) continue;
    copy<gradient_element>(held.gradients, from.offset, arenas_.gradients, to);
    for (std::size_t k = 0; k < std::size_t(states_); ++k)
      copy<parameter_element>(held.state, k * owned_count + from.offset, arenas_.state, to,
                              k * owned_count_);
  }
}

template <class Elements, class Rank>
void parameter_store<Elements, Rank>::take_averages(training_arenas<Rank> const& held,
                                                    lean_vector<parameter_block> const& local) {
  for (std::size_t i = 0; i < local_.size(); ++i)
    if (!entry_of(local_[i]).is_frozen)
      copy<parameter_element>(held.averages, local[i].offset, arenas_.averages, local_[i]);
}

template <class Elements, class Rank>
template <class Source>
auto parameter_store<Elements, Rank>::import_from(Source source) -> lean_vector<imported_values> {
  lean_vector<imported_values> out;
  std::vector<parameter_element> values, block;
  for (auto const& parameter : local_) {
    out.push_back({.name = parameter.name});
    auto const& info = entry_of(parameter).info;
    values.resize(info.unpadded().count());
    std::span<parameter_element> const whole(values);
    if constexpr (std::is_void_v<decltype(source(parameter.name, info.unpadded(), whole))>)
      source(parameter.name, info.unpadded(), whole);
    else if (!source(parameter.name, info.unpadded(), whole)) continue;
    if (auto const problem = not_finite<parameter_element>(parameter.name, values);
        !problem.empty())
      throw input_error({"import_parameters: ", problem, "; nothing can be trained from there"});
    if (is_whole(parameter)) {
      set(parameter, values);
    } else {
      block.resize(parameter.count);
      take_block<parameter_element>(parameter.in_block(), info.columns, values, block);
      set(parameter, block);
    }
    out.back().read(values);
  }
  return out;
}

template <class Elements, class Rank>
auto parameter_store<Elements, Rank>::import_blocks(state_source& source)
    -> lean_vector<imported_values> {
  lean_vector<imported_values> out;
  std::vector<parameter_element> block;
  for (auto const& parameter : local_) {
    out.push_back({.name = parameter.name});
    if (!source.contains(parameter.name)) continue;
    read_block(source, parameter, block);
    if (auto const problem = not_finite<parameter_element>(parameter.name, block); !problem.empty())
      throw input_error({"import_parameters: ", problem,
                         " in this rank's block; nothing can be trained from there"});
    set(parameter, block);
    out.back().read(block);
  }
  return out;
}

template <class Elements, class Rank>
void parameter_store<Elements, Rank>::read_block(state_source& source,
                                                 parameter_block const& parameter,
                                                 std::vector<parameter_element>& block) {
  block.assign(parameter.count, parameter_element{0});
  for (auto const& each : parameter.rectangles)
    read_rectangle(source, parameter.name, entry_of(parameter).info.unpadded(), each, block,
                   parameter.offset);
}

template <class Elements, class Rank>
void parameter_store<Elements, Rank>::read_rectangle(state_source& source, std::string const& name,
                                                     parameter_info const& info,
                                                     parameter_rectangle const& each,
                                                     std::span<parameter_element> out,
                                                     std::size_t base) {
  auto const to = out.subspan(each.place - base);
  if (each.rows == 1 || each.columns == each.stride)
    return source.read(name, info, each, to.data());
  std::vector<parameter_element> rows(each.count());
  source.read(name, info, each, rows.data());
  for (std::size_t i = 0; i < each.rows; ++i)
    std::copy_n(rows.begin() + static_cast<std::ptrdiff_t>(i * each.columns), each.columns,
                to.begin() + static_cast<std::ptrdiff_t>(i * each.stride));
}

template <class Elements, class Rank>
void parameter_store<Elements, Rank>::for_each_kept_block(
    function_reference<void(element_range const&, std::size_t)> action) const {
  if (!rules().keeps_blocks()) return;
  std::size_t const count = layout_.buckets.size() + layout_.frozen_buckets.size();
  for (std::size_t b = 0; b < count; ++b) {
    auto const& whole = layout_.bucket_at(b);
    if (whole.region == parameter_layout::over_tensor) continue;
    auto const block = kept_block(int(b));
    action(element_range{whole.elements.offset + block.behind, block.held.count},
           block.held.offset);
  }
}

template <class Elements, class Rank>
auto parameter_store<Elements, Rank>::exported_block(int bucket, bool of_gradients) const
    -> block_of_bucket {
  bool const is_frozen = std::size_t(bucket) >= layout_.buckets.size();
  if (is_frozen || !(of_gradients || has_copies)) return kept_block(bucket);
  auto const& whole = layout_.bucket_at(std::size_t(bucket)).elements;
  for (auto const& block : owned_)
    if (auto const common = overlap(block.elements, whole); common.count > 0)
      return {{(of_gradients ? block.gradients_at : place_of(block)) +
                   (common.offset - block.elements.offset),
               common.count},
              common.offset - whole.offset};
  return {};
}

template <class Elements, class Rank>
void parameter_store<Elements, Rank>::download_frozen(element_range const& range,
                                                      std::span<parameter_element> to) const {
  std::vector<T> here(range.count);
  std::size_t begin = layout_.place_in(layout_.parameters_at, range.offset);
  for_each_kept_block([&](element_range const& block, std::size_t at) {
    if (overlap(block, range).count > 0) begin = at + (range.offset - block.offset);
  });
  rank_.device().download(compute_parameters() + begin, here.data(), here.size() * sizeof(T));
  rank_.device().synchronize();
  for (std::size_t i = 0; i < here.size(); ++i) to[i] = static_cast<parameter_element>(here[i]);
}

template <class Elements, class Rank>
void parameter_store<Elements, Rank>::set(parameter_block const& parameter,
                                          std::vector<parameter_element> const& values) {
  if constexpr (has_copies)
    for (auto const& block : owned_)
      upload(parameter, values, block.elements, parameters() + block.state_offset);
  if constexpr (std::is_same_v<T, parameter_element>) {
    set_kept(parameter, values);
  } else {
    std::vector<T> rounded(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) rounded[i] = static_cast<T>(values[i]);
    set_kept(parameter, rounded);
  }
}

template <class Elements, class Rank>
auto parameter_store<Elements, Rank>::allocate(std::size_t bytes) -> arena {
  auto need =
      plan_.memory(rank_.stage(), {.data_ranks = plan_.numbers.grid.ranks_at_launch(rank_.grid()),
                                   .optimizer_states = states_,
                                   .averages = has_averages_});
  need.activations = need.batches = 0;
  return detail::allocate_for_plan(rank_, need, [&] { return rank_.device().allocate(bytes); });
}

template <class Elements, class Rank>
auto parameter_store<Elements, Rank>::allocated() const -> memory_need {
  return {.parameters = arenas_.parameters.size() + arenas_.copies.size(),
          .gradients = arenas_.gradients.size(),
          .optimizer = arenas_.state.size(),
          .sums = rank_.room_of_sums_bytes()};
}

template <class Elements, class Rank>
bool parameter_store<Elements, Rank>::is_whole(parameter_block const& parameter) {
  std::size_t const all = entry_of(parameter).info.unpadded().count();
  return parameter.count == all && parameter.rectangles.size() == 1 &&
         parameter.rectangles[0].count() == all;
}

template <class Elements, class Rank>
void parameter_store<Elements, Rank>::set_kept(parameter_block const& parameter,
                                               std::vector<T> const& values) {
  for_each_kept_block([&](element_range const& block, std::size_t at) {
    upload(parameter, values, block, compute_parameters() + at);
  });
  if (is_kept_whole(parameter))
    rank_.device().upload(
        values.data(),
        compute_parameters() + layout_.place_in(layout_.parameters_at, parameter.offset),
        values.size() * sizeof(T));
}

template <class Elements, class Rank>
template <class Element>
void parameter_store<Elements, Rank>::upload(parameter_block const& parameter,
                                             std::vector<Element> const& values,
                                             element_range const& block, Element* to) {
  auto const common = overlap(block, parameter);
  if (common.count > 0)
    rank_.device().upload(values.data() + (common.offset - parameter.offset),
                          to + (common.offset - block.offset), common.count * sizeof(Element));
}

template <class Elements, class Rank>
template <class Element>
void parameter_store<Elements, Rank>::copy(arena const& held, std::size_t from, arena const& to,
                                           parameter_block const& where, std::size_t behind) const {
  rank_.device()
      .on(stream::compute)
      .copy_bytes(reinterpret_cast<Element const*>(held.data()) + from,
                  reinterpret_cast<Element*>(to.data()) + behind + where.offset,
                  where.count * sizeof(Element));
}

template <class Elements, class Rank>
void parameter_store<Elements, Rank>::clear() {
  auto const queue = rank_.device().on(stream::compute);
  queue.fill(parameter_element{0}, state(), owned_count_ * std::size_t(states_));
  queue.fill(parameter_element{0}, parameters(), stored_count());
  queue.fill(gradient_element{0}, gradients(), slices_.total);
  if constexpr (has_copies) queue.fill(T{0}, copies(), layout_.parameters_at.count);
}

}  // namespace plait::execution
