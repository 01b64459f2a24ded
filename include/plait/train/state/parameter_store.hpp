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

/// The memory of the state that one rank trains: the parameters, copies of the parameters if layers
/// compute in another type, the gradients, the gradients of the step before if updates are delayed,
/// the states of the optimizer one after the other, the averages, and the common parameters of
/// replicas with their outer momentum, see local_steps.
template <class Rank>
struct training_arenas {
  typename Rank::device_type::arena parameters{}, copies{}, gradients{}, pending{}, state{},
      averages{}, common{};
};

/// The element types of a job: the type of activations, the type of the parameters that the
/// optimizer updates, and the type of the gradients, see `parallel`; and the type of the
/// optimizer's states.
template <class Element, class ParameterElement, class GradientElement,
          class StateElement = ParameterElement>
struct element_types {
  using element = Element;
  using parameter_element = ParameterElement;
  using gradient_element = GradientElement;
  using state_element = StateElement;
};

/// The layout of a rank's parameters: the layout of its pipeline stage, the blocks of parameters
/// that the rank has, and the accumulators in which it adds up gradients slice by slice.
struct placed_parameters {
  parameter_layout layout;
  lean_vector<parameter_block> local;
  gradient_arena gradients;
};
template <class Plan, class Rank>
[[nodiscard]] [[gnu::cold]] placed_parameters parameters_on(Rank const& rank) {
  auto layout = Plan::parameter_layout_for(rank.stage(), rank.grid());
  auto const gradients = Plan::gradient_arena_for(layout, rank.grid());
  return {std::move(layout), Plan::blocks(rank.stage(), rank.tensor_rank(), rank.grid()),
          gradients};
}

/// Holds the parameters of one rank's stage, their gradients and the optimizer's states in flat
/// arenas. Each parameter has one offset in the layout of the stage, and three placements of the
/// plan decide which of its elements the rank has in which arena: the kept placement for
/// parameters, the summed placement for gradients and the owned placement for states. On 4 data
/// ranks without `zero`, each rank has all elements in all arenas. Under `zero<1>` a rank has only
/// a quarter of the states, under `zero<2>` also only a quarter of the gradients, and under
/// `zero<3>` also only a quarter of the parameters. With `precision<bfloat16, float>` layers see
/// copies of the parameters, which have their own arena. The arenas outlive the store.
///
/// `Elements`: element_types of the job.
/// Errors:  out_of_memory with the memory that the plan needs.
/// Threads: used by the one thread that runs the rank.
template <class Elements, class Rank>
class parameter_store {
  using T = typename Elements::element;
  using parameter_element = typename Elements::parameter_element;
  using gradient_element = typename Elements::gradient_element;
  using state_element = typename Elements::state_element;
  using arena = typename Rank::device_type::arena;

 public:
  using element = T;

  /// Allocates the arenas; start() or take() fills them. `plan`: the facts of the job's plan;
  /// `placed`: the result of parameters_on. `has_averages`: true if out_of_memory messages include
  /// the memory of averages.
  [[gnu::cold]] parameter_store(Rank& rank, plan_facts const& plan, placed_parameters placed,
                                training_arenas<Rank>& arenas, int states, bool has_averages);

  /// Fills the arenas with the start weights, which depend on `seed` but not on the plan.
  [[gnu::cold]] void start(std::uint64_t seed);

  /// Takes over parameters, gradients and states, but not averages, from the arenas `held` of an
  /// earlier generation of an elastic job. `local`: the blocks of the same parameters in these
  /// arenas; `owned_count`: the number of elements of each state of the optimizer in these arenas.
  [[gnu::cold]] void take(training_arenas<Rank> const& held,
                          lean_vector<parameter_block> const& local, std::size_t owned_count);
  /// Takes over the averages from the arenas `held`; `local` has the same meaning as in take().
  [[gnu::cold]] void take_averages(training_arenas<Rank> const& held,
                                   lean_vector<parameter_block> const& local);

  [[nodiscard]] auto const& layout() const { return layout_; }
  /// Returns the layout of the arena of gradients.
  [[nodiscard]] gradient_arena const& gradients_layout() const { return gradients_layout_; }
  [[nodiscard]] lean_vector<parameter_block> const& local() const { return local_; }
  /// Returns the blocks that this rank's optimizer updates.
  [[nodiscard]] auto const& owned() const { return owned_; }
  /// Returns the number of elements of one state of the optimizer.
  [[nodiscard]] std::size_t owned_count() const { return owned_count_; }

  /// Returns the parameters in the type that layers see.
  [[nodiscard]] T* compute_parameters() const {
    return reinterpret_cast<T*>((has_copies ? arenas_.copies : arenas_.parameters).data());
  }
  /// Returns the parameters that the optimizer updates.
  [[nodiscard]] parameter_element* parameters() const {
    return reinterpret_cast<parameter_element*>(arenas_.parameters.data());
  }
  [[nodiscard]] gradient_element* gradients() const {
    return reinterpret_cast<gradient_element*>(arenas_.gradients.data());
  }
  /// Returns the pending gradients: the gradients of the step before, if updates are delayed. The
  /// arena has the buckets at the same offsets as the arena of gradients, and nothing after them.
  [[nodiscard]] gradient_element* pending() const {
    return reinterpret_cast<gradient_element*>(arenas_.pending.data());
  }
  /// Returns the number of elements of the pending gradients; 0 if updates are not delayed.
  [[nodiscard]] std::size_t pending_count() const {
    return plan_.numbers.delays ? layout_.gradients_at.after_buckets : 0;
  }
  /// Returns the common parameters of `block`, and their outer momentum, in a plan with replicas.
  [[nodiscard]] parameter_element* common_of(owned_block const& block) const {
    return reinterpret_cast<parameter_element*>(arenas_.common.data()) + block.state_offset;
  }
  [[nodiscard]] parameter_element* outer_momentum_of(owned_block const& block) const {
    return common_of(block) + owned_count_;
  }
  /// In a plan with replicas, enqueues a copy of the parameters to the common parameters, because
  /// all replicas have got the same parameters.
  [[gnu::cold]] void keep_common() const;

  /// Returns the parameters of `block` that the optimizer updates. The next two functions return
  /// the states of these parameters, and the copies of these parameters that layers see (null if
  /// there are no copies).
  [[nodiscard]] parameter_element* parameters_of(owned_block const& block) const {
    return parameters() + place_of(block);
  }
  [[nodiscard]] state_element* state_of(owned_block const& block) const {
    return state() + block.state_offset;
  }
  [[nodiscard]] T* copies_of(owned_block const& block) const {
    return has_copies ? copies() + block.parameters_at : nullptr;
  }

  /// Calls source(name, parameter_info, span to fill) for each parameter and keeps this rank's
  /// block. The span has room for the whole parameter without padding. If the source returns false,
  /// the parameter stays as it is. Returns the hashes that ranks compare.
  ///
  /// Errors: input_error that names the first parameter with a value that is not finite.
  template <class Source>
  [[gnu::cold]] lean_vector<imported_values> import_from(Source source);

  /// Imports this rank's block of each parameter, and reads only these blocks from the source.
  /// Returns the hashes that ranks compare.
  [[gnu::cold]] lean_vector<imported_values> import_blocks(state_source& source);

  /// Fills `block` with this rank's elements of a parameter, and the padding of the block with
  /// zeros.
  [[gnu::cold]] void read_block(state_source& source, parameter_block const& parameter,
                                std::vector<parameter_element>& block);
  /// Reads one rectangle of a parameter into `out`, whose first element has the index `base` in the
  /// rank's block. If the rows of the rectangle are contiguous in `out`, the source writes to `out`
  /// directly.
  [[gnu::cold]] void read_rectangle(state_source& source, std::string const& name,
                                    parameter_info const& info, parameter_rectangle const& each,
                                    std::span<parameter_element> out, std::size_t base);

  /// Returns this rank's block of a bucket under the kept placement.
  [[nodiscard]] block_of_bucket kept_block(int bucket) const {
    return block_in(layout_, layout_.parameters_at, bucket,
                    number_of_block(rules().kept, rank_.grid(), rank_.coordinates()));
  }
  /// Calls action(elements, offset) for this rank's block of each bucket of which the rank keeps
  /// only a block. `elements`: the range of the block in the layout. `offset`: the offset of the
  /// block in the arena that layers see.
  [[gnu::cold]] void for_each_kept_block(
      function_reference<void(element_range const&, std::size_t)> action) const;
  /// Returns the range of this rank's block of an exported bucket in the arena, and the block's
  /// offset in the bucket.
  [[nodiscard]] [[gnu::cold]] block_of_bucket exported_block(int bucket, bool of_gradients) const;

  /// Downloads frozen parameters from the arena that layers see, and converts them to the type of
  /// the other parameters.
  [[gnu::cold]] void download_frozen(element_range const& range,
                                     std::span<parameter_element> to) const;

  /// Uploads a parameter's block to the arena of owned parameters and to the arena that layers see.
  [[gnu::cold]] void set(parameter_block const& parameter,
                         std::vector<parameter_element> const& values);

  /// Allocates memory whose size does not depend on the batch.
  [[gnu::cold]] arena allocate(std::size_t bytes);

  /// Returns the number of bytes of the arenas, and of the memory that the rank has allocated for
  /// sums.
  [[nodiscard]] memory_need allocated() const;

 private:
  /// True if layers see copies of the parameters, in another type. Then the arena of parameters has
  /// only the elements that the rank owns, and frozen parameters exist only as copies.
  static constexpr bool has_copies = !std::is_same_v<T, parameter_element>;
  static constexpr std::size_t state_bytes =
      std::is_same_v<state_element, parameter_element> ? 0 : sizeof(state_element);

  [[nodiscard]] parameter_rules const& rules() const { return plan_.numbers.rules; }
  [[nodiscard]] bool has_replicas() const { return !rules().local_axes.empty(); }
  [[nodiscard]] parameter_entry const& entry_of(parameter_block const& parameter) const {
    return plan_.numbers.entries[parameter.entry];
  }
  [[nodiscard]] std::size_t stored_count() const {
    return has_copies ? owned_count_ : layout_.parameters_at.count;
  }
  static std::size_t place_of(owned_block const& block) {
    return has_copies ? block.state_offset : block.parameters_at;
  }
  /// Returns true if this rank has all elements of a parameter, and no padding.
  [[nodiscard]] bool is_whole(parameter_block const& parameter);
  [[nodiscard]] bool is_kept_whole(parameter_block const& parameter) const {
    return !rules().keeps_blocks() ||
           overlap(layout_.regions[parameter_layout::over_tensor], parameter).count > 0;
  }
  /// Uploads a parameter's block, or the part of the block that this rank keeps, to the arena that
  /// layers see.
  [[gnu::cold]] void set_kept(parameter_block const& parameter, std::vector<T> const& values);
  /// Uploads the elements of a parameter that are in `block`. `to`: the address of the block.
  template <class Element>
  [[gnu::cold]] void upload(parameter_block const& parameter, std::vector<Element> const& values,
                            element_range const& block, Element* to);

  [[nodiscard]] T* copies() const { return reinterpret_cast<T*>(arenas_.copies.data()); }
  [[nodiscard]] state_element* state() const {
    return reinterpret_cast<state_element*>(arenas_.state.data());
  }

  /// Copies the elements of the parameter `where` from offset `from` of the arena `held` to the
  /// arena `to`. The offset in `to` is the offset in the layout plus `distance` elements.
  template <class Element>
  void copy(arena const& held, std::size_t from, arena const& to, parameter_block const& where,
            std::size_t distance = 0) const;

  /// Fills the arenas, including padding, with zeros.
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
  gradient_arena gradients_layout_;
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
      owned_(owned_blocks(layout_, rules(), rank.grid(), rank.coordinates())),
      owned_count_(owned_.empty() ? 0 : owned_.back().state_offset + owned_.back().elements.count),
      gradients_layout_(placed.gradients) {
  arenas_.parameters = allocate(stored_count() * sizeof(parameter_element));
  arenas_.copies = allocate(has_copies ? layout_.parameters_at.count * sizeof(T) : 0);
  arenas_.gradients = allocate(gradients_layout_.total * sizeof(gradient_element));
  arenas_.pending = allocate(pending_count() * sizeof(gradient_element));
  arenas_.state = allocate(owned_count_ * sizeof(state_element) * std::size_t(states));
  arenas_.common = allocate(has_replicas() ? 2 * owned_count_ * sizeof(parameter_element) : 0);
}

template <class Elements, class Rank>
void parameter_store<Elements, Rank>::start(std::uint64_t seed) {
  clear();
  // The number of threads for each rank: the processors of this machine are divided among all ranks
  // of the job, because all of them may run on this machine.
  std::size_t const threads =
      std::max(1u, std::thread::hardware_concurrency() / static_cast<unsigned>(rank_.world_size()));
  std::vector<parameter_element> block;
  for (auto const& parameter : local_) {
    block.resize(parameter.count);
    initial_values<parameter_element>(entry_of(parameter).info, parameter.number, seed,
                                      parameter.in_block(), block, threads);
    set(parameter, block);
  }
  keep_common();
}

template <class Elements, class Rank>
void parameter_store<Elements, Rank>::keep_common() const {
  if (!has_replicas()) return;
  auto const queue = rank_.device().on(stream::compute);
  for (auto const& block : owned_)
    queue.copy_bytes(parameters_of(block), common_of(block),
                     block.elements.count * sizeof(parameter_element));
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
      copy<state_element>(held.state, k * owned_count + from.offset, arenas_.state, to,
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
      throw input_error({"import_parameters: ", problem,
                         "; correct the function or file that the values come from"});
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
      throw input_error(
          {"import_parameters: ", problem,
           " in this rank's block; correct the function or file that the values come from"});
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
    action(element_range{whole.elements.offset + block.in_bucket, block.held.count},
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
                                   .state_bytes = state_bytes,
                                   .averages = has_averages_});
  need.activations = need.batches = 0;
  return detail::allocate_for_plan(rank_, need, [&] { return rank_.device().allocate(bytes); });
}

template <class Elements, class Rank>
auto parameter_store<Elements, Rank>::allocated() const -> memory_need {
  return {.parameters = arenas_.parameters.size() + arenas_.copies.size(),
          .gradients = arenas_.gradients.size(),
          .pending = arenas_.pending.size(),
          .optimizer = arenas_.state.size() + arenas_.common.size(),
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
                                           parameter_block const& where,
                                           std::size_t distance) const {
  rank_.device()
      .on(stream::compute)
      .copy_bytes(reinterpret_cast<Element const*>(held.data()) + from,
                  reinterpret_cast<Element*>(to.data()) + distance + where.offset,
                  where.count * sizeof(Element));
}

template <class Elements, class Rank>
void parameter_store<Elements, Rank>::clear() {
  auto const queue = rank_.device().on(stream::compute);
  queue.fill(state_element{}, state(), owned_count_ * std::size_t(states_));
  queue.fill(parameter_element{0}, parameters(), stored_count());
  queue.fill(gradient_element{0}, gradients(), gradients_layout_.total);
  if (pending_count() > 0) queue.fill(gradient_element{0}, pending(), pending_count());
  if (has_replicas())
    for (auto const& block : owned_)
      queue.fill(parameter_element{0}, outer_momentum_of(block), block.elements.count);
  if constexpr (has_copies) queue.fill(T{0}, copies(), layout_.parameters_at.count);
}

}  // namespace plait::execution
