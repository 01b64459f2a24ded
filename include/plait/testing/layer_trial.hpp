// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "plait/backend/host/threads.hpp"
#include "plait/core/bfloat16.hpp"
#include "plait/core/clock.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/core/static_vector.hpp"
#include "plait/run/launch.hpp"
#include "plait/run/stage_executor.hpp"
#include "plait/train/gradients.hpp"
#include "plait/train/state/start_values.hpp"

namespace plait::testing::detail {

using tensors = std::vector<std::vector<double>>;

/// The inputs, parameters, targets and weights of a trial. They are whole tensors, which are equal
/// for every form and number of ranks.
struct trial_setup {
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  std::size_t sequence = 1;
  std::size_t samples = 1;
  std::size_t group = 1;         ///< number of consecutive samples that the layer mixes
  std::size_t first_sample = 0;  ///< number of the first sample in the global batch
  std::size_t missing = 0;       ///< number of places without a sample, at the end of the batch
  std::size_t all_samples = 1;   ///< number of samples in the global batch
  int microbatch = 0;
  bool is_piece = false;  ///< true: runs only one forward and backward, and the finite differences
  tensors parameters;     ///< values of the parameters, including the probe's
  std::vector<char> is_input;        ///< true for each parameter of a probe
  std::int32_t missing_token = 0;    ///< token that `batches` puts in places without a sample
  std::vector<std::int32_t> tokens;  ///< the model's input, or the labels of a loss
  std::vector<double> targets;       ///< targets of a loss that takes real numbers
  std::vector<double> weights;  ///< weights of the outputs, whose weighted sum is differentiated
  double loss_scale = 1;
  std::vector<double> row_weights;  ///< weights of rows, for a loss that takes them; empty: none
  tensors changed_parameters;       ///< values of the parameters if one sample is changed
  std::vector<std::int32_t> changed_tokens;
  struct place {
    std::size_t parameter = 0, element = 0;
  };
  std::vector<place> differences;  ///< elements for which finite differences are computed
  static constexpr double step_length = 1e-5;

  [[nodiscard]] std::size_t rows() const { return sequence * samples; }
};

/// The results of a forward and its backward: outputs (or the loss) and the reduced gradients, in
/// the rank's arena.
struct pass {
  std::vector<double> output;
  std::vector<double> gradients;
  double loss = 0;  ///< value of a loss, or of a layer's term in it
};

/// The results of one rank.
struct rank_record {
  pass once, twice, changed;
  double scaled_loss = 0;  ///< the loss with twice the scale
  pass unweighted;         ///< for a loss that takes weights: the results without weights
  double unit_loss = 0;    ///< for a loss that takes weights: the loss with weights of 1
  std::vector<double> differences;
  struct bytes {
    std::string group;
    std::int64_t planned, counted;
  };
  std::vector<bytes> moved;
};

/// The results of all ranks, and the places of the parameters in their arenas.
struct trial {
  std::vector<rank_record> ranks;
  lean_vector<parameter_block> parameters;
  std::vector<parameter_entry> entries;  ///< one for each parameter
};

/// Converts numbers to another type; a conversion from double to bfloat16 rounds to float first.
template <class To, class From>
std::vector<To> converted(From const& from) {
  std::vector<To> out;
  out.reserve(from.size());
  for (auto const value : from) {
    if constexpr (std::is_same_v<To, bfloat16>) out.push_back(To(static_cast<float>(value)));
    else out.push_back(static_cast<To>(value));
  }
  return out;
}

/// The data of a plan that the class `bench` needs to run a model on one rank. The type is the same
/// for all plans.
struct bench_plan {
  static_view<planning::parameter_entry> entries;
  lean_vector<parameter_block> parameters;
  std::size_t kept_count = 0;  ///< number of elements in the arena of the parameters
  stage_arena arena{};
  std::size_t input_width = 1;
  int tensor_ranks = 1;
  int loss_terms = 1;  ///< number of terms of the loss; 1 if there are none
  bool has_loss = false;
  bool has_term = false;  ///< the layer is a loss, or adds a term to the loss
  bool from_tokens = false, to_reals = false;
};

template <class Plan>
bench_plan bench_plan_of(workload const& load, int tensor_rank, mesh const& grid) {
  auto const& leaves = Plan::tree.leaves;
  auto const& last = leaves[Plan::leaf_count - 1];
  return {.entries = Plan::entries.view(),
          .parameters = Plan::blocks(0, tensor_rank, grid),
          .kept_count = Plan::parameter_layout_for(0, grid).kept_count(),
          .arena = Plan::arena_for(0, load),
          .input_width = leaves[0].input().width,
          .tensor_ranks = Plan::tensor_ranks,
          .loss_terms = Plan::loss_terms(),
          .has_loss = Plan::code.has_loss,
          .has_term = planning::count_terms(Plan::tree) > 0,
          .from_tokens = leaves[0].input().kind == value_kind::tokens,
          .to_reals = Plan::code.has_loss && last.inputs[1].kind == value_kind::reals};
}

/// Runs a model on one rank, repeatedly, without a trainer. This base class has the code that does
/// not depend on the model, so that it is compiled once for the many jobs of a layer's check.
template <class T, class Gradient>
class bench {
 public:
  using rank_type = threads::rank_type;

  bench(rank_type& rank, trial_setup const& setup, workload const& load, bench_plan plan)
      : setup_(setup),
        plan_(std::move(plan)),
        loss_scale_(setup.loss_scale),
        sums_(static_cast<std::size_t>(plan_.loss_terms)),
        scales_(sums_),
        row_weights_(setup.row_weights.empty() ? nullptr : setup.row_weights.data()),
        rank_(rank),
        load_(load),
        activations_(rank.device().allocate(plan_.arena.total_bytes + 2 * guard_bytes)),
        parameters_(plan_.kept_count),
        gradients_(parameters_.size()),
        zeros_(setup.rows() * plan_.input_width),
        targets_(converted<accumulate_t<T>>(setup.targets)),
        output_(plan_.has_loss ? 1 : setup.weights.size()) {
    std::memset(activations_.data(), 0xff, plan_.arena.total_bytes + 2 * guard_bytes);
    std::fill(arena() + plan_.arena.zeros_offset, arena() + plan_.arena.total_bytes, std::byte{0});
  }

  rank_record run() {
    rank_record out;
    use(setup_.parameters, setup_.tokens);
    out.once = run_passes(1, &out.moved);
    for (auto const& at : setup_.differences) out.differences.push_back(difference(at));
    if (setup_.is_piece) return out;
    out.twice = run_passes(2);
    if (plan_.has_term) {
      loss_scale_ = 2 * setup_.loss_scale;
      forward();
      out.scaled_loss = loss_;
      loss_scale_ = setup_.loss_scale;
    }
    if (!setup_.row_weights.empty()) {
      std::vector<double> const ones(setup_.rows(), 1.0);
      row_weights_ = ones.data();
      forward();
      out.unit_loss = output_[0];
      row_weights_ = nullptr;
      out.unweighted = run_passes(1);
      row_weights_ = setup_.row_weights.data();
    }
    use(setup_.changed_parameters, setup_.changed_tokens);
    out.changed = run_passes(1);
    return out;
  }

 protected:
  ~bench() = default;

  /// Fills the context that layers receive: the step, the place of the samples in the batch, and
  /// the tensor rank.
  void fill(layer_context& context) const {
    context.seed = setup_.seed;
    context.step = &setup_.step;
    context.microbatch = setup_.microbatch;
    context.batch = setup_.samples;
    context.first_sample = setup_.first_sample;
    context.missing = setup_.missing;
    context.all_samples = setup_.all_samples;
    context.sequence = setup_.sequence;
    context.tensor_rank = rank_.tensor_rank();
    context.tensor_ranks = plan_.tensor_ranks;
  }

  /// Returns the activations, which are between guards: a layer that reads slightly outside of them
  /// reads NaN.
  [[nodiscard]] std::byte* arena() { return activations_.data() + guard_bytes; }

 private:
  static constexpr std::size_t guard_bytes = 1024;

  virtual std::byte const* run_forward(std::byte* input, void const* targets,
                                       loss_sum const& loss) = 0;
  virtual void run_backward(std::byte* input, std::byte* gradient, bool is_first) = 0;
  virtual void reduce() = 0;
  [[nodiscard]] virtual std::int64_t planned_bytes(axis_set over) const = 0;

  void use(tensors const& values, std::vector<std::int32_t> const& tokens) {
    tokens_ = &tokens;
    for (std::size_t i = 0; i < plan_.parameters.size(); ++i) set(i, values[i]);
  }
  void set(std::size_t parameter, std::vector<double> const& values) {
    auto const& where = plan_.parameters[parameter];
    auto const here = converted<T>(values);
    take_block<T>(where.in_block(), plan_.entries[where.entry].info.columns, here,
                  std::span(parameters_).subspan(where.offset, where.count));
  }

  std::byte* input() {
    void const* const data =
        plan_.from_tokens ? static_cast<void const*>(tokens_->data()) : zeros_.data();
    return const_cast<std::byte*>(static_cast<std::byte const*>(data));
  }

  /// Fills a part of the arena with NaN, to find a layer that reads values that were not written.
  /// The zeros at the end of the arena stay.
  void spoil(std::size_t begin) {
    std::memset(arena() + begin, 0xff, plan_.arena.zeros_offset - begin);
  }

  void forward() {
    spoil(0);
    std::ranges::fill(sums_, 0.0);
    std::ranges::fill(scales_, loss_scale_);
    std::byte const* const made = run_forward(
        input(), plan_.to_reals ? static_cast<void const*>(targets_.data()) : tokens_->data(),
        {.data = sums_.data(),
         .scale = scales_.data(),
         .weights = row_weights_,
         .samples = setup_.missing > 0 ? setup_.samples : 0,
         .present = setup_.samples - setup_.missing});
    loss_ = std::accumulate(sums_.begin(), sums_.end(), 0.0);
    if (plan_.has_loss) output_[0] = loss_;
    else output_ = converted<double>(std::span(reinterpret_cast<T const*>(made), output_.size()));
  }

  /// Runs a backward. The first of several overwrites the gradients, the others add to them.
  void backward(bool is_first) {
    // Overwrites with NaN the memory whose values the backward must not read.
    spoil(plan_.arena.edges_offset);
    auto weights = converted<T>(setup_.weights);
    run_backward(input(), reinterpret_cast<std::byte*>(weights.data()), is_first);
  }

  pass run_passes(int count, std::vector<rank_record::bytes>* moved = nullptr) {
    std::fill(gradients_.begin(), gradients_.end(), static_cast<Gradient>(1e3));
    for (auto const over : rank_.groups().sets()) rank_.group(over).reset_counted();
    for (int i = 0; i < count; ++i) {
      forward();
      backward(i == 0);
    }
    reduce();
    if (moved != nullptr)
      for (auto const over : {axis_set(axis::tensor), axis::data | axis::tensor})
        if (rank_.groups().index_of(over) >= 0) moved->push_back(compare_bytes(over));
    return {output_, converted<double>(gradients_), loss_};
  }

  rank_record::bytes compare_bytes(axis_set over) {
    return {to_string(over), planned_bytes(over),
            static_cast<std::int64_t>(rank_.group(over).counted().total_bytes())};
  }

  /// Returns the central difference. It is computed output by output before summing, so that
  /// outputs that do not change contribute no rounding error.
  double difference(trial_setup::place at) {
    auto values = setup_.parameters[at.parameter];
    double const centre = values[at.element];
    double of_loss = 0;
    auto const output_at = [&](double value) {
      values[at.element] = value;
      set(at.parameter, values);
      forward();
      of_loss = loss_ - of_loss;
      return output_;
    };
    auto const below = output_at(centre - setup_.step_length);
    auto const above = output_at(centre + setup_.step_length);
    values[at.element] = centre;
    set(at.parameter, values);
    double sum = plan_.has_loss ? 0.0 : of_loss;
    for (std::size_t i = 0; i < above.size(); ++i)
      sum += (plan_.has_loss ? 1.0 : setup_.weights[i]) * (above[i] - below[i]);
    return sum / (2 * setup_.step_length);
  }

  trial_setup const& setup_;
  bench_plan plan_;
  double loss_scale_;
  double loss_ = 0;
  std::vector<double> sums_, scales_;  // for each term of the loss
  double const* row_weights_;

 protected:
  rank_type& rank_;
  workload load_;
  rank_type::device_type::arena activations_;
  std::vector<T> parameters_;
  std::vector<Gradient> gradients_;

 private:
  std::vector<T> zeros_;
  std::vector<accumulate_t<T>> targets_;
  std::vector<double> output_;
  std::vector<std::int32_t> const* tokens_ = nullptr;
};

/// Runs the model of a job on one rank; see the base class `bench`.
template <class Job>
class layer_bench final : public bench<typename Job::element, typename Job::gradient_element> {
  using base = bench<typename Job::element, typename Job::gradient_element>;
  using plan = typename Job::plan_type;
  using stage_type = stage_items<Job, threads::rank_type>;

 public:
  layer_bench(threads::rank_type& rank, trial_setup const& setup, workload const& load)
      : base(rank, setup, load, bench_plan_of<plan>(load, rank.tensor_rank(), rank.grid())),
        stage_(rank, load, {this->arena(), this->parameters_.data(), this->gradients_.data()}) {
    this->fill(context_);
    if constexpr (plan::sums_over_samples) {
      context_.sample_axes = plan::samples.axes_with(shard<dim::batch>);
      context_.samples_on_all_ranks = setup.all_samples;
    }
  }

 private:
  std::byte const* run_forward(std::byte* input, void const* targets,
                               loss_sum const& loss) override {
    targets_ = targets;
    loss_ = loss;
    auto pass = pass_on(input);
    return stage_.forward(pass);
  }
  void run_backward(std::byte* input, std::byte* gradient, bool is_first) override {
    auto pass = pass_on(input);
    pass.begins_gradients = is_first;
    stage_.backward(pass, gradient);
  }
  void reduce() override {
    reduce_gradients<Job>(this->rank_, gradients<Job, partial>{this->gradients_.data()});
  }
  [[nodiscard]] std::int64_t planned_bytes(axis_set over) const override {
    return plan::bytes_sent(over, 0, this->load_).total();
  }

  typename stage_type::pass_type pass_on(std::byte* input) {
    auto pass = stage_.pass_of(context_);
    pass.input = input;
    pass.loss = loss_;
    pass.buffers.targets = targets_;
    return pass;
  }

  stage_type stage_;
  layer_context context_{};
  void const* targets_ = nullptr;
  loss_sum loss_{};
};

template <class Job>
rank_record run_bench(threads::rank_type& rank, trial_setup const& setup) {
  return layer_bench<Job>(rank, setup, {.rows = setup.rows()}).run();
}

/// The program that each rank of a trial runs, as one type for all jobs.
struct trial_program {
  trial_setup const& setup;
  rank_record (*run)(threads::rank_type&, trial_setup const&);
  std::vector<rank_record>& records;

  void operator()(threads::rank_type& rank) const {
    records[static_cast<std::size_t>(rank.tensor_rank())] = run(rank, setup);
  }
};

/// Runs `program(records)` on the ranks of `Job`, with one record for each rank.
template <class Job, class Program>
trial run_job(std::size_t ranks, Program program) {
  using plan = typename Job::plan_type;
  static_assert(plan::stages == 1);
  trial out;
  out.parameters = plan::blocks(0, 0, plan::grid);
  for (auto const& parameter : out.parameters)
    out.entries.push_back(plan::entries[parameter.entry]);
  out.ranks.resize(ranks);
  threads backend;
  backend.options.timeout = std::chrono::seconds{30};
  launch<Job>(backend, program(out.ranks));
  return out;
}
/// Runs `Job` on its tensor ranks, all with the same setup.
template <class Job>
trial run_trial(trial_setup const& setup) {
  return run_job<Job>(std::size_t(Job::plan_type::tensor_ranks), [&](auto& records) {
    return trial_program{setup, &run_bench<Job>, records};
  });
}
/// Runs `Job` on data ranks, each with its own setup.
template <class Job>
trial run_data_ranks(std::vector<trial_setup> const& setups) {
  return run_job<Job>(setups.size(), [&](auto& records) {
    return [&](threads::rank_type& rank) {
      auto const r = static_cast<std::size_t>(rank.world_rank());
      records[r] = run_bench<Job>(rank, setups[r]);
    };
  });
}

/// Returns true if the output of a trial's first pass is finite.
bool is_finite(trial const& of);

/// Returns one parameter's gradient of a pass, joined from the ranks' parts. `disagree` is set to
/// true if ranks that hold the same element have different bits.
std::vector<double> assemble(trial const& of, pass rank_record::* which, std::size_t parameter,
                             bool& disagree);

}  // namespace plait::testing::detail

#if PLAIT_HEADER_ONLY
#include "plait/testing/layer_trial.ipp"
#endif
