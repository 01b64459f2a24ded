// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "plait/core/lean_vector.hpp"
#include "plait/core/macros.hpp"
#include "plait/core/number_range.hpp"
#include "plait/mesh/blocks.hpp"
#include "plait/mesh/stream.hpp"
#include "plait/plan/memory.hpp"
#include "plait/plan/schedule/step_program.hpp"
#include "plait/run/block_exchange.hpp"
#include "plait/run/context.hpp"
#include "plait/run/slice_sums.hpp"
#include "plait/run/step_executor.hpp"
#include "plait/run/transfer_runner.hpp"
#include "plait/tensor/batch.hpp"
#include "plait/train/gradients.hpp"
#include "plait/train/measures/loss_terms.hpp"
#include "plait/train/measures/summed_numbers.hpp"
#include "plait/train/options/optimizer.hpp"
#include "plait/train/options/parameter_groups.hpp"
#include "plait/train/options/rates.hpp"
#include "plait/train/options/trainer_options.hpp"
#include "plait/train/state/parameter_store.hpp"
#include "plait/train/state/state_ages.hpp"
#include "plait/train/state/state_element.hpp"
#include "plait/train/state/step_memory.hpp"
#include "plait/train/trainer_passes.hpp"

namespace plait::execution {

/// Runs the programs of a trainer, such as a step, and owns the buffers on which their operations
/// work: the numbers of the step, the sums of losses and slices, and, in `passes`, the arena of
/// activations and the staging buffers. The arenas of parameters and gradients are in the trainer's
/// parameter_store, because a later generation of an elastic job takes them over.
///
/// A program is a list of operations. Some operations compute, such as `clip` or `update`. The
/// others carry out one transfer (row) of the plan's list of transfers, such as the all_reduce of a
/// bucket. A program contains no addresses. This class therefore decides which work an operation
/// enqueues (compute()) and which buffer a transfer moves (transfer()). It leaves passes to the
/// stage_executor. For example, `square` computes the sums of squares of this rank, the transfer
/// `norm_partials` adds these sums over all ranks, and `clip` computes the norm from the result.
///
/// `Hooks`: the step_hooks of the trainer.
///
/// Threads: used by the one thread that runs the rank.
template <class Job, class Rank, class Optimizer, class Hooks>
class trainer_executor {
  using plan = typename Job::plan_type;
  using device_type = typename Rank::device_type;
  using elements = element_types<typename Job::element, typename Job::parameter_element,
                                 typename Job::gradient_element,
                                 state_element_of<Optimizer, typename Job::parameter_element>>;
  using store_type = parameter_store<elements, Rank>;

 public:
  using terms = loss_terms<plan, typename Job::element>;
  using numbers_type = step_scalars<Optimizer, terms::count>;
  using passes_type = stage_executor<Job, Rank>;
  using frame_type = typename passes_type::frame_type;
  using batch_type = device_batch<typename device_type::memory>;

  /// The arguments outlive this object.
  [[gnu::cold]] trainer_executor(Rank& on, Optimizer const& rule, trainer_options const& options,
                                 store_type& store, Hooks const& hooks)
      : rank_(on),
        rule_(rule),
        options_(options),
        store_(store),
        hooks_(hooks),
        scratch_(store.allocate(scratch_needed(on, rule))),
        memory_(on.device(), lay_out_numbers<plan>(on.stage(), on.grid()),
                squares_ranges<plan>(store.local(), store.owned(), on.coordinates()),
                plan::norm_partial_count()),
        sums_(memory_.numbers(), memory_.of_slices(),
              block_of(plan::samples, on.grid(), on.coordinates())),
        slices_(on, ir_of<plan>, store.layout(), store.gradients_layout(), store.gradients()),
        exchange_(on, store.gradients_layout(), store.gradients()),
        passes(on, store,
               {.clips = needs_norm(options),
                .checks_loss = checks_loss(options),
                .masks_loss = hooks.gives_votes() && plan::local_steps == 0}) {}
  trainer_executor(trainer_executor const&) = delete;
  trainer_executor& operator=(trainer_executor const&) = delete;
  [[gnu::cold]] ~trainer_executor() = default;

  /// Returns the memory of the numbers of a step and of their tables.
  [[nodiscard]] auto const& memory() const { return memory_; }
  /// Returns the number of bytes of this memory, and of the tables of state_rounding.
  [[nodiscard]] std::size_t numbers_bytes() const { return memory_.bytes() + rounding_.bytes(); }
  /// Returns the number of bytes of the memory in which a matrix_optimizer updates a matrix.
  [[nodiscard]] std::size_t scratch_bytes() const { return scratch_.size(); }
  /// Returns the arena on which the transfers `gradients`, the norm and the update work: the
  /// pending gradients if updates are delayed, otherwise the gradients of the step.
  [[nodiscard]] auto* applied_gradients() const {
    if constexpr (plan::delays) return store_.pending();
    else return store_.gradients();
  }

  /// Cuts the blocks that the optimizer updates into blocks whose states have the same age, and for
  /// a matrix_optimizer into whole matrices and the blocks between them.
  [[gnu::cold]] void lay_out_updates(state_ages const& ages) {
    rank_.device().synchronize();  // earlier steps no longer read the tables
    updated_.clear();
    younger_.clear();
    lean_vector<lean_vector<update_range>> ranges;
    for (auto const& block : store_.owned())
      for (auto part : blocks_of_one_age(plan::entries.view(), store_.local(), block, ages)) {
        if (part.younger_by > 0) {
          while (part.age < younger_.size() && younger_[part.age] != part.younger_by) ++part.age;
          if (part.age == younger_.size()) younger_.push_back(part.younger_by);
          ++part.age;
        }
        if constexpr (matrix_optimizer<Optimizer>)
          Optimizer::whole_matrices::template cut<plan>(store_.local(), part, rule_, updated_);
        else updated_.push_back(part);
      }
    for (auto const& part : updated_)
      ranges.push_back(
          update_ranges<plan>(store_.local(), part.block, rule_.decays, options_.groups));
    memory_.lay_out_updates(rank_.device(), ranges, 1 + younger_.size());
    if constexpr (state_bytes_of<Optimizer>() > 0)
      rounding_.template lay_out<plan>(rank_, store_.local(), updated_);
    passes.forget_recorded();
  }

  /// Uploads the numbers of the next step, with the label counts of the batch. `step`: the number
  /// of the step; `skipped`: the number of steps whose update was left out; `oldest`: the oldest
  /// age of the optimizer's states.
  void upload(batch_type const& batch, std::int64_t step, std::uint32_t skipped,
              std::int64_t oldest) {
    numbers_type now;
    now.skipped = skipped;
    now.step = static_cast<std::uint32_t>(step);
    now.optimizer = rule_.numbers_of(oldest, rate_at(options_, step));
    now.stop = hooks_.votes();
    sums_.upload(rank_, batch, now);
    if (!younger_.empty()) upload_of_younger(step, oldest);
  }
  /// Downloads the numbers of the last program. The result is valid until the next call.
  numbers_type& read_numbers() {
    rank_.device().download(memory_.numbers(), &last_read_, sizeof last_read_);
    rank_.device().synchronize();  // the host reads the numbers
    return last_read_;
  }
  /// Uploads the numbers of an update without a batch, with the learning rate of the step before
  /// `step`, which has computed the gradients. The arguments are the arguments of upload().
  [[gnu::cold]] void upload_of_update(std::int64_t step, std::uint32_t skipped,
                                      std::int64_t oldest) {
    numbers_type now;
    now.skipped = skipped;
    now.step = static_cast<std::uint32_t>(step);
    now.optimizer = rule_.numbers_of(oldest, rate_at(options_, step - 1));
    rank_.device().upload(&now, memory_.numbers(), sizeof now);
    if (!younger_.empty()) upload_of_younger(step - 1, oldest);
    rank_.device().synchronize();  // `now` is a local variable
  }
  /// Runs a program without passes that reduces or applies pending gradients.
  [[gnu::cold]] void run_pending(step_executor<Rank>& program) {
    for (auto const& reached : program) {
      auto const& now = reached.now;
      if constexpr (plan::grid.world_size() != 1) {
        auto const& transfers = program.transfers();
        if (now.row >= 0 && transfers.row(now.row).what.place == transfer_place::norm_partials)
          transfers.sum(now.row, memory_.norm_partials().data());
        else if (now.row >= 0) sum(transfers, now, applied_gradients());
      }
      if (now.what == operation_kind::square)
        square_gradients(rank_, reduced(), memory_.squared(), memory_.norm_partials());
      else if (now.what == operation_kind::clip) clip();
      else if (now.what == operation_kind::update) update();
    }
    rank_.device().synchronize();  // the next program assumes that no stream is working
  }
  /// Updates the parameters of this rank in a step that other ranks have already completed. This
  /// rank has the reduced gradients of the step in its arena, and `last` contains the numbers of
  /// the step.
  [[gnu::cold]] void catch_up(numbers_type const& last, std::int64_t step, std::int64_t oldest) {
    rank_.device().upload(&last, memory_.numbers(), sizeof last);
    if (!younger_.empty()) upload_of_younger(step, oldest);
    update();
    rank_.device().synchronize();  // this rank may next send the state to other ranks
  }

  /// The state of a program that runs on one batch.
  struct program_frame {
    passes_type& passes;
    frame_type frame;
    bool updates = false;  ///< true for a step that updates the parameters
  };
  /// Returns the frame of a program on a batch. `ready`: the passes for the shape of the batch.
  [[nodiscard]] program_frame frame_of(passes_type& ready, batch_type const& batch,
                                       layer_context const& context, bool updates = false) const {
    loss_sum const loss{.data = sums_.loss(), .scale = memory_.numbers()->loss_scale.data()};
    return {ready, ready.frame_of(batch, context, loss, sums_.loss_stride), updates};
  }

  /// Runs all operations of a program.
  void run(step_executor<Rank>& program, program_frame& with) {
    for (auto const& reached : program) {
      auto const& now = reached.now;
      if (now.row >= 0) {
        transfer(program.transfers(), now, with);
      } else if (!is_pass(now.what)) {
        compute(now, with);
      } else if (!is_backward(now.what)) {
        with.passes.run(now, with.frame);
      } else {
        with.frame.gradients = slices_.place_of(now.microbatch);
        with.passes.run(now, with.frame);
        if (now.what != operation_kind::backward_input && with.passes.ends_pass(now))
          slices_.add(rank_, now.chunk, now.microbatch);
      }
    }
  }

  /// Carries out an operation of the program that computes. Passes are excluded, because run()
  /// carries them out.
  void compute(program_operation const& now, program_frame const& with) const {
    switch (now.what) {
      case operation_kind::scale: return scale();
      case operation_kind::copy_block: return with.passes.staging().copy_block(now);
      case operation_kind::accumulate: return with.passes.staging().accumulate(now);
      case operation_kind::mask: return mask_loss();
      case operation_kind::add: return add(now, with);
      case operation_kind::square:
        return square_gradients(rank_, reduced(), memory_.squared(), memory_.norm_partials());
      case operation_kind::clip: return clip();
      case operation_kind::update: return update();
      case operation_kind::hand_over: return hand_over();
      case operation_kind::clear: return slices_.clear(rank_);
      case operation_kind::total: return sums_.total_loss(queue());
      case operation_kind::send:
      case operation_kind::read: return;  // the host does this work; nothing is computed
      case operation_kind::row:
      case operation_kind::forward:  // passes run in run(), not here
      case operation_kind::recompute:
      case operation_kind::backward:
      case operation_kind::backward_input:
      case operation_kind::backward_parameters:
      case operation_kind::measure:
      case operation_kind::take: planning::refuse_operation(now.what, "a step");
    }
  }

  void transfer(transfer_runner<Rank> const& transfers, program_operation const& now,
                program_frame const& with) const {
    if constexpr (plan::grid.world_size() != 1) {
      auto const& row = transfers.row(now.row);
      switch (row.what.place) {
        case transfer_place::labels: return transfers.sum(now.row, sums_.label_count());
        case transfer_place::loss:
          if (with.updates && !needs_norm(options_)) hooks_.before_last_transfer();
          return transfers.sum(now.row, sums_.loss());
        case transfer_place::norm_partials:
          hooks_.before_last_transfer();
          return transfers.sum(now.row, memory_.norm_partials().data());
        case transfer_place::parameters:
          return transfers.run(now, with.passes.staging().parameters(now));
        case transfer_place::microbatch_gradients:
          return sum(transfers, now, with.passes.staging().gradients(now));
        case transfer_place::gather_parameters:
          return transfers.run(now, store_.compute_parameters());
        case transfer_place::activation_edge:
        case transfer_place::gradient_edge:
          return transfers.run(now, with.passes.edge(row.what, now), now.microbatch);
        case transfer_place::slices:
          if (row.moves == collective::all_to_all) return slices_.exchange(transfers, now);
          return transfers.run(now, store_.gradients());
        case transfer_place::ties: return transfers.run(now, store_.gradients());
        case transfer_place::gradients: return sum(transfers, now, applied_gradients());
        case transfer_place::consistency:
        case transfer_place::forward:  // these transfers run within the layers of a pass
        case transfer_place::recompute:
        case transfer_place::backward:
        case transfer_place::measures:
        case transfer_place::output:
        case transfer_place::rank_outputs:
        case transfer_place::outputs:
        case transfer_place::blocks:
        case transfer_place::parameter:
        case transfer_place::state:
        case transfer_place::replica_numbers:
        case transfer_place::differences: planning::refuse_row(row.what.place, "a step");
      }
    }
  }

  /// Carries out a row that sums gradients over ranks, or differences of replicas. `data`: the
  /// arena to which the row's offset refers.
  void sum(transfer_runner<Rank> const& transfers, program_operation const& now,
           typename Job::gradient_element* data) const {
    if constexpr (plan::rules.rounds())
      if (transfers.row(now.row).what.element == transfer_element::word)
        return exchange_.run(transfers, now, data);
    transfers.run(now, data);
  }

  /// Updates all blocks that this rank owns. The update reads the numbers of the step from the
  /// device's memory.
  void update() const {
    auto* const now = memory_.numbers();
    for (std::size_t i = 0; i < updated_.size(); ++i) {
      auto const& [block, younger_by, age, rows, columns] = updated_[i];
      auto const ranges = memory_.updated(i);
      if (ranges.empty()) continue;  // the block is padding
      optimizer_arena<typename Job::parameter_element, typename Job::gradient_element,
                      typename Job::element, typename elements::state_element> const arena{
          store_.parameters_of(block),
          nullptr,
          store_.state_of(block),
          store_.copies_of(block),
          block.elements.count,
          store_.owned_count(),
          ranges.data(),
          static_cast<int>(ranges.size()),
          &now->gradient_scale,
          rows,
          columns,
          scratch_.data()};
      auto const* const numbers = memory_.numbers_of_age(age);
      if constexpr (state_bytes_of<Optimizer>() > 0)
        update_parameters(rank_, rule_, reduced(), block,
                          rounding_.arena(arena, i, options_.seed, &now->step), numbers);
      else update_parameters(rank_, rule_, reduced(), block, arena, numbers);
      hooks_.after_update(block, &now->gradient_scale);
    }
  }

 private:
  [[gnu::cold]] static std::size_t scratch_needed(Rank& on, Optimizer const& rule) {
    if constexpr (matrix_optimizer<Optimizer>)
      return Optimizer::whole_matrices::template scratch_bytes<Job>(on.grid(), rule);
    else return 0;
  }
  /// Uploads the optimizer's numbers for states that are younger than the oldest states.
  [[gnu::cold]] void upload_of_younger(std::int64_t step, std::int64_t oldest) {
    lean_vector<typename Optimizer::numbers> all;
    for (auto const by : younger_)
      all.push_back(rule_.numbers_of(oldest - by, rate_at(options_, step)));
    rank_.device().upload(all.data(), memory_.numbers_of_age(1), all.size() * sizeof all[0]);
  }

  [[nodiscard]] auto queue() const { return rank_.device().on(stream::compute); }
  [[nodiscard]] gradients<Job, partial> summands() const { return {store_.gradients()}; }
  [[nodiscard]] gradients<Job, reduced_placement<Job>> reduced() const {
    return {applied_gradients()};
  }

  /// Returns true if a step checks its own loss before the update. If updates are delayed, the loss
  /// of a step says nothing about the gradients that the step applies. A job that ends at a loss
  /// that is not finite still checks the loss, because it ends with the parameters of that step.
  static bool checks_loss(trainer_options const& of) {
    using enum trainer_options::not_finite;
    return plan::delays ? of.on_not_finite == stop : of.on_not_finite != train_on;
  }

  /// If updates are delayed, copies the gradients of this step to the arena of pending gradients. A
  /// copy keeps all addresses as they are, so that a device can replay a recorded step.
  void hand_over() const {
    if constexpr (plan::delays)
      queue().copy_bytes(store_.gradients(), store_.pending(),
                         store_.pending_count() * sizeof(typename Job::gradient_element));
  }

  /// Computes, for each term of the loss, loss_scale = weight of the term / count of the term in
  /// the global batch.
  void scale() const {
    auto* const now = memory_.numbers();
    sums_.total_counted(queue());
    for (std::size_t i = 0; i < terms::weights.size(); ++i)
      queue().divide(terms::weights[i], &now->label_count[i], &now->loss_scale[i]);
  }

  /// Sets the loss of this rank to 0 if an earlier rank has computed the same loss. If ranks vote,
  /// the loss is summed over all ranks together with the votes, and without this mask two tensor
  /// ranks, for example, would count the loss twice.
  void mask_loss() const {
    if (!holds_the_one_copy(plan::samples.on_stage(0), rank_.coordinates()))
      queue().fill(0.0, sums_.loss(), sums_.losses);
  }

  /// Adds the gradients of tied uses to a bucket, and sets the gradients of the bucket's padding to
  /// 0. If the ranks reduce the bucket after each microbatch, as under `zero<2>`, the bucket is in
  /// a staging buffer that several buckets share. The gaps between the parameters of the bucket
  /// then contain numbers of other buckets. The gradients of tied uses are added only after the
  /// last microbatch.
  void add(program_operation const& now, program_frame const& with) const {
    auto const& layout = store_.layout();
    auto const& whole = layout.buckets[std::size_t(now.bucket)];
    bool const is_in_room =
        plan::rules.sums_blocks() && whole.region == parameter_layout::over_batch;
    auto* const begin =
        is_in_room ? with.passes.staging().gradients(now)
                   : store_.gradients() + layout.gradients_at.base[std::size_t(now.bucket)];
    if (!now.begins) add_tied_gradients<Job>(rank_, summands(), layout, now.bucket, begin);
    clear_padding(rank_, store_.local(), plan::entries.view(), whole, begin, is_in_room);
  }

  void clip() const {
    auto* const now = memory_.numbers();
    auto const squares = memory_.norm_partials();
    if (needs_norm(options_))
      queue().clip(squares.data(), squares.size(),
                   options_.clip > 0 ? options_.clip : number_ranges::infinite, &now->gradient_norm,
                   &now->gradient_scale);
    if (checks_loss(options_))
      for (auto const& term : now->loss)
        queue().check_finite(&term, &now->gradient_norm, &now->gradient_scale);
    hooks_.before_update(&now->stop);
  }

  Rank& rank_;
  Optimizer const& rule_;
  trainer_options const& options_;
  store_type& store_;
  Hooks const& hooks_;
  typename device_type::arena scratch_;  // memory of a matrix_optimizer for its updates
  step_memory<device_type, Optimizer, terms::count> memory_;
  state_rounding<device_type, Optimizer> rounding_{};
  summed_numbers<plan, terms, numbers_type> sums_;
  slice_sums<typename Job::gradient_element, Rank, (plan::slices > 0)> slices_;
  // Exchanges rounded gradients; does nothing if the plan does not round them.
  std::conditional_t<plan::rules.rounds(),
                     block_exchange<typename Job::gradient_element, plan::rules.sent, Rank>,
                     no_exchange>
      exchange_;
  lean_vector<aged_block> updated_{};    // the blocks that the optimizer updates
  lean_vector<std::int64_t> younger_{};  // differences between the oldest age and other ages
  numbers_type last_read_{};             // numbers that read_numbers() has downloaded

 public:
  /// The passes and programs, with the arena of activations.
  trainer_passes<Job, Rank, typename elements::state_element> passes;
};

}  // namespace plait::execution
