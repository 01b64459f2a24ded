// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "plait/core/error.hpp"
#include "plait/mesh/blocks.hpp"
#include "plait/plan/memory.hpp"
#include "plait/plan/report/memory_text.hpp"
#include "plait/plan/schedule/step_program.hpp"
#include "plait/plan/schedule/transfers.hpp"
#include "plait/run/move.hpp"
#include "plait/run/run_rows.hpp"
#include "plait/run/stage_executor.hpp"
#include "plait/run/step_executor.hpp"
#include "plait/run/transfer_runner.hpp"

namespace plait::execution {

/// Copies the outputs of the model to the host. Depending on the call, each rank gets the outputs
/// of all samples, or only of the samples of its data rank. In an evaluation, this class passes the
/// outputs of each microbatch to the measures.
///
/// Threads: used by the one thread that runs the rank.
template <class Job, class Rank>
class prediction {
  using plan = typename Job::plan_type;
  using T = typename Job::element;
  using arena = typename Rank::device_type::arena;
  using passes_type = stage_executor<Job, Rank>;
  using batch_type = typename passes_type::batch_type;
  static constexpr value output =
      plan::code.values[plan::code.items[plan::code.items.size() - 1].in];
  static constexpr std::size_t width = output.info.width;

 public:
  /// Returns the number of bytes that the outputs use on the device.
  [[nodiscard]] std::size_t bytes() const { return room_.size(); }

  /// Runs the program of a prediction and returns the outputs. The returned span is valid until the
  /// next call.
  ///
  /// Shapes: (samples, sequence, width), in the order of the samples; empty sample slots are left
  ///         out.
  /// Moves:  the rows that the plan lists for a prediction.
  [[gnu::cold]] std::span<T const> run(Rank& rank, step_executor<Rank>& program,
                                       passes_type& passes, typename passes_type::frame_type& frame,
                                       predicted which) {
    batch_type const& batch = frame.batch;
    workload load = passes.load();
    load.prediction = which;
    bool const all = which == predicted::of_all;
    auto const [mine, ranks] = block_of(plan::samples, rank.grid(), rank.coordinates());
    int const first = all ? 0 : mine, end = all ? ranks : mine + 1;
    if constexpr (plan::slicing.is_given())
      if (all && !plan::slicing.is_equal(ranks))
        throw input_error(
            {"predict: ",
             (plan::slicing.has_shares()
                  ? concat({"the data ranks have different shares of a batch, ",
                            text_of_shares(plan::slicing.shares)})
                  : concat({batch.slices, " slices cannot be divided equally among ", ranks,
                            " data ranks"})),
             ", so that their outputs cannot be gathered; ask for predicted::of_data_rank"});
    auto const where = reserve(rank, load, job_part::prediction);
    std::size_t const count = where.elements,
                      of_rank = count / static_cast<std::size_t>(end - first);
    std::size_t const each = of_rank / static_cast<std::size_t>(load.microbatches);
    received_.resize(count);
    values_.resize(count);
    std::size_t const begin = of_rank * static_cast<std::size_t>(mine - first);
    outputs_work const work{*this, rank, passes, where, begin, each};
    for (auto const& reached : program)
      if (is_pass(reached.now.what)) passes.run(reached.now, frame);
      else if (reached.now.row < 0) work.compute(reached.now);
      else work.transfer(program.transfers(), reached.now);
    rank.device().synchronize();  // the host reads the outputs

    T* out = values_.data();
    T const* from = received_.data();
    for (int of = first; of < end; ++of)
      for (int m = 0; m < batch.microbatches; ++m, from += each) {
        int const microbatch = batch.slices > 0 ? (of - mine) * batch.microbatches + m : m;
        std::size_t const samples = batch.samples_in(microbatch, of, ranks);
        for (std::size_t sample = 0; sample < samples; ++sample)
          for (std::size_t position = 0; position < batch.sequence; ++position)
            out = std::copy_n(from + (position * batch.samples + sample) * width, width, out);
      }
    return {values_.data(), static_cast<std::size_t>(out - values_.data())};
  }

  /// The operations of an evaluation that pass outputs to the measures. For each row that has a
  /// sample they call each(index of the row in the batch, outputs of the row as double). If several
  /// ranks have the same outputs, only the first of these ranks makes the calls.
  template <class Each>
  struct measured_outputs {
    prediction& of;
    Rank& rank;
    passes_type& passes;
    batch_type const& batch;
    output_room where;
    Each each;

    /// Gathers the whole outputs of a microbatch on each rank.
    void gather_output() const { of.gather_output(rank, passes, of.outputs(), where); }
    /// Copies the outputs of a microbatch to the host and passes them to the measures.
    [[gnu::cold]] void measure(int microbatch) {
      of.received_.resize(where.elements);
      rank.device().download(of.outputs(), of.received_.data(), where.elements * sizeof(T));
      rank.device().synchronize();  // the host reads the outputs; this wait is on all ranks,
                                    // because the program relies on it
      if (!holds_the_one_copy(plan::samples.on_stage(0), rank.coordinates())) return;
      auto const mine = block_of(plan::samples, rank.grid(), rank.coordinates());
      std::size_t const rows = batch.rows(),
                        samples = batch.samples_in(microbatch, mine.number, mine.blocks);
      std::vector<double> row(width);
      for (std::size_t r = 0; r < rows; ++r) {
        if (r % batch.samples >= samples) continue;
        for (std::size_t c = 0; c < width; ++c)
          row[c] = static_cast<double>(of.received_[r * width + c]);
        each(static_cast<std::size_t>(microbatch) * rows + r, std::span<double const>(row));
      }
    }
  };
  template <class Each>
  [[nodiscard]] [[gnu::cold]] measured_outputs<Each> measured(Rank& rank, passes_type& passes,
                                                              batch_type const& batch,
                                                              workload const& load, Each each) {
    return {*this, rank, passes, batch, reserve(rank, load, job_part::evaluation), each};
  }

  /// Sums the numbers of the measures over all ranks, with the all_reduce that the plan's list of
  /// transfers contains for them.
  [[gnu::cold]] void sum(Rank& rank, workload const& load, std::span<double> numbers) {
    auto const where = lay_out_outputs<plan>(rank.stage(), load, job_part::evaluation);
    auto* const room = reinterpret_cast<double*>(room_.data() + where.numbers_at);
    sum_numbers(rank, transfers_on<plan>(rank, load, job_part::evaluation),
                transfer_place::measures, numbers, room);
  }

 private:
  struct outputs_work {
    prediction& of;
    Rank& rank;
    passes_type& passes;
    output_room where;
    std::size_t begin;  // index of this rank's outputs among the gathered outputs
    std::size_t each;   // number of outputs of a microbatch

    [[nodiscard]] T* own() const { return of.outputs() + begin; }
    void gather_output(program_operation const& now) const {
      of.gather_output(rank, passes, own() + each * static_cast<std::size_t>(now.microbatch),
                       where);
    }
    void compute(program_operation const& now) const {
      switch (now.what) {
        case operation_kind::copy_block: return passes.staging().copy_block(now);
        case operation_kind::take: return gather_output(now);
        case operation_kind::read:
          return rank.device().download(of.outputs(), of.received_.data(),
                                        of.received_.size() * sizeof(T));
        case operation_kind::row:
        case operation_kind::send:
        case operation_kind::scale:
        case operation_kind::clear:
        case operation_kind::forward:  // a pass, which run() has started
        case operation_kind::recompute:
        case operation_kind::backward:
        case operation_kind::backward_input:
        case operation_kind::backward_parameters:
        case operation_kind::measure:
        case operation_kind::mask:
        case operation_kind::add:
        case operation_kind::accumulate:
        case operation_kind::total:
        case operation_kind::square:
        case operation_kind::clip:
        case operation_kind::update:
        case operation_kind::hand_over: planning::refuse_operation(now.what, "a prediction");
      }
    }
    void transfer(transfer_runner<Rank> const& transfers, program_operation const& now) const {
      auto const& what = transfers.row(now.row).what;
      switch (what.place) {
        case transfer_place::output: return gather_output(now);
        case transfer_place::parameters:
          return transfers.run(now, passes.staging().parameters(now));
        case transfer_place::rank_outputs: return transfers.run(now, own());
        case transfer_place::outputs:
          return transfers.run(now, of.outputs() + begin / what.count * what.count);
        case transfer_place::activation_edge:
          return transfers.run(now, passes.edge(what, now), now.microbatch);
        case transfer_place::consistency:
        case transfer_place::labels:
        case transfer_place::gather_parameters:
        case transfer_place::forward:  // within the layers of a pass
        case transfer_place::recompute:
        case transfer_place::backward:
        case transfer_place::gradient_edge:
        case transfer_place::microbatch_gradients:
        case transfer_place::slices:
        case transfer_place::ties:
        case transfer_place::gradients:
        case transfer_place::loss:
        case transfer_place::norm_partials:
        case transfer_place::measures:
        case transfer_place::blocks:
        case transfer_place::parameter:
        case transfer_place::state:
        case transfer_place::replica_numbers:
        case transfer_place::differences: planning::refuse_row(what.place, "a prediction");
      }
    }
  };

  [[nodiscard]] T* outputs() const { return reinterpret_cast<T*>(room_.data()); }

  /// Writes the whole output of the last forward to `to`, gathered over the tensor ranks if they
  /// have blocks of it.
  void gather_output(Rank& rank, passes_type& passes, T* to, output_room const& where) const {
    constexpr auto moves = transition_between(output.at, invariant).moves;
    move_value<output.at, invariant>(
        rank.device().on(communicates(moves) ? within_layers : stream::compute),
        rank.tensor_group(), whole_shape{passes.load().rows, width}, passes.model_output(), to,
        reinterpret_cast<T*>(room_.data() + where.staging_at));
  }

  /// Allocates the memory that the plan needs for outputs, unless it is allocated already.
  output_room reserve(Rank& rank, workload const& load, job_part part) {
    auto const where = lay_out_outputs<plan>(rank.stage(), load, part);
    if (room_.size() < where.total)
      plait::detail::allocate_for_plan(rank, plan::memory(rank.stage(), load), [&]() -> auto& {
        room_ = {};
        return room_ = rank.device().allocate(where.total);
      });
    return where;
  }

  std::vector<T> received_, values_;
  arena room_{};
};

}  // namespace plait::execution
