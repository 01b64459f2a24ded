// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "plait/core/random.hpp"
#include "plait/testing/layer_probe.hpp"
#include "plait/testing/layer_report.hpp"
#include "plait/testing/layer_trial.hpp"

namespace plait::testing {

/// The numbers that `check_layer` runs with; the defaults serve most layers.
struct layer_options {
  /// Of inputs, parameters and random layers.
  std::uint64_t seed = 1;
  std::uint32_t step = 0;
  /// Tokens of a layer that takes them, or labels of a loss, one for each of `checked_rows<L>`;
  /// empty: random ones in [0, token_count).
  std::vector<std::int32_t> tokens{};
  /// 0: the rows of the layer's first matrix, or the width of a loss's input.
  std::int32_t token_count = 0;
  /// Elements of the input and of each parameter that are compared with finite differences.
  std::size_t differences = 24;
};

namespace detail {

template <class L>
inline constexpr bool is_leaf = std::is_same_v<leaves_of<L>, std::tuple<L>>;

template <class L>
inline constexpr std::size_t sequence_for = [] {
  for (auto const& leaf : make_outline<L>().leaves)
    if (leaf.sequence != 0) return leaf.sequence;
  return std::size_t{12};  // 2, 3 and 4 ranks divide it
}();

inline constexpr std::size_t samples_for_check = 3;

template <class L>
inline constexpr leaf_info first_leaf = make_outline<L>().leaves[0];

/// A form of a layer to be checked; for a combination of layers, what the planner chooses.
struct form_choice {
  name pin{};
  bool sharded = false;

  [[nodiscard]] std::string text() const {
    if (!pin.empty()) return "form " + pin.text();
    return sharded ? "chosen forms with sequence shards" : "chosen forms";
  }
};

template <class L>
inline constexpr auto form_choices = [] {
  if constexpr (is_leaf<L>) {
    std::array<form_choice, static_cast<std::size_t>(leaf_of<L>.form_count)> out{};
    auto const cut = [](placement at) { return is_shard(at) && at.index == dim::sequence; };
    for (std::size_t i = 0; i < out.size(); ++i) {
      auto const& form = leaf_of<L>.forms[i];
      out[i] = {form.label, cut(form.input) || cut(form.output)};
    }
    return out;
  } else {
    return std::array{form_choice{}, form_choice{{}, true}};
  }
}();

/// The layer between what makes its input and what takes its output.
template <class L, name Form>
constexpr auto model_around() {
  constexpr auto first = first_leaf<L>;
  constexpr std::size_t sequence = sequence_for<L>;
  using layer_type = named<"layer", pinned<Form, L>>;
  using source = named<"input", probe<sequence, samples_for_check, first.input().width>>;
  if constexpr (std::is_same_v<typename L::output, loss_value>)
    return std::type_identity<objective<source, layer_type>>{};
  else if constexpr (first.input().kind == value_kind::tokens)
    return std::type_identity<sequential<layer_type, relay<sequence, L::output::info.width>>>{};
  else
    return std::type_identity<
        one_item<sequential<source, layer_type, relay<sequence, L::output::info.width>>>>{};
}

template <class L, name Form, int Ranks, bool Sharded>
struct layer_job
    : parallel<typename decltype(model_around<L, Form>())::type,
               tensor_parallel<Ranks, Sharded ? sequence::sharded : sequence::unsharded>, double> {};

enum class fit : int { divides, does_not_divide, no_chain, left_out };

/// True if all ranks do the same in this form: then two of them show as much as four.
constexpr bool repeats_work(form_info const& form) {
  bool all = form.input == invariant && form.output == invariant;
  for (auto const used : form.uses) all = all && used == invariant;
  return all;
}

template <class L, name Form, int Ranks, bool Sharded>
constexpr fit fit_of() {
  if (Sharded && sequence_for<L> % Ranks != 0) return fit::does_not_divide;
  if constexpr (is_leaf<L>)
    for (int i = 0; i < leaf_of<L>.form_count; ++i) {
      auto const& form = leaf_of<L>.forms[static_cast<std::size_t>(i)];
      if (form.label != Form) continue;
      if (plait::detail::indivisible_length(leaf_of<L>, form, Ranks) != 0)
        return fit::does_not_divide;
      if (Ranks > 2 && repeats_work(form)) return fit::left_out;
    }
  using model = typename decltype(model_around<L, Form>())::type;
  auto const error = choose_forms(make_outline<model>(), Ranks, Sharded).error;
  if (error == planning_error::none) return fit::divides;
  return error == planning_error::no_chain ? fit::no_chain : fit::does_not_divide;
}

// --- the numbers ---------------------------------------------------------------------------------

inline std::vector<double> random_numbers(random_key key, std::size_t count, double mean,
                                          double deviation) {
  std::vector<double> out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = mean + deviation * random_normal(key, i);
  return out;
}

/// The name of a parameter of the layer, "" for the probe's.
inline std::string name_within(std::string const& full) {
  if (full.find("input.values") != std::string::npos) return "";
  std::string const mark = "layer.";
  return full.substr(full.find(mark) + mark.size());
}

inline compared_tensor tensor_of(trial const& of, std::size_t parameter) {
  auto const& info = of.entries[parameter].info;
  auto const name = name_within(of.parameters[parameter].name);
  return {name.empty() ? "gradient of the input" : "gradient of " + name, info.columns,
          info.count()};
}

template <class L>
trial_setup make_setup(layer_options const& options) {
  auto constexpr choice = form_choices<L>[0];
  using plan = typename layer_job<L, choice.pin, 1, choice.sharded>::plan_type;
  constexpr auto first = first_leaf<L>;
  constexpr bool is_loss = std::is_same_v<typename L::output, loss_value>;
  trial_setup out;
  out.seed = options.seed;
  out.step = options.step;
  out.sequence = sequence_for<L>;
  out.samples = samples_for_check;
  std::uint32_t site = 1000;
  auto const key = [&] { return random_key{options.seed, ++site, 0}; };
  std::size_t const rows = out.rows(), changed = out.samples / 2;

  auto const owned = parameters_of_stage<plan>(0);
  for (auto const& parameter : owned) {
    auto const& info = plan::entries[parameter.entry].info;
    bool const is_input = name_within(parameter.name).empty();
    bool const is_constant = info.initial.how == initializer::kind::constant;
    out.parameters.push_back(random_numbers(key(), info.count(),
                                            is_constant ? info.initial.number() : 0.0,
                                            is_input ? 1.0 : 0.5));
    out.changed_parameters.push_back(out.parameters.back());
    if (is_input)
      for (std::size_t i = 0; i < info.count(); ++i)
        if (i / info.columns % out.samples == changed) out.changed_parameters.back()[i] += 1.5;
    std::size_t const picked = std::min(options.differences, info.count());
    auto const pick = key();
    for (std::size_t i = 0; i < picked; ++i)
      out.differences.push_back(
          {out.parameters.size() - 1,
           picked == info.count() ? i : std::size_t{random_word(pick, i)} % info.count()});
  }

  std::int32_t limit = options.token_count;
  if (limit == 0) {
    limit = 2;
    if (is_loss)
      limit = static_cast<std::int32_t>(first.input().width);
    else
      for (auto const& parameter : first.parameters)
        if (parameter.rank == 2 && limit == 2) limit = static_cast<std::int32_t>(parameter.rows);
  }
  out.tokens = options.tokens;
  auto const token_key = key();
  for (std::size_t r = out.tokens.size(); r < rows; ++r)
    out.tokens.push_back(static_cast<std::int32_t>(random_word(token_key, r) %
                                                   static_cast<std::uint32_t>(limit)));
  out.changed_tokens = out.tokens;
  if constexpr (first.input().kind == value_kind::tokens)
    for (std::size_t r = changed; r < rows; r += out.samples)
      out.changed_tokens[r] = (out.tokens[r] + 1) % limit;
  if constexpr (is_loss) {
    out.loss_scale = 0.25;  // a layer that forgets the factor is found out
    out.targets = random_numbers(key(), rows * first.inputs[1].width, 0, 1);
  } else {
    out.weights = random_numbers(key(), rows * L::output::info.width, 0, 1);
  }
  return out;
}

// --- the laws ------------------------------------------------------------------------------------

/// Sums of up to some thousand terms, made in another order, differ by less than 1e-10 of the largest
/// element in double.
inline double rounding_bound(std::vector<double> const& expected) {
  return 1e-10 * std::max(1.0, largest(expected));
}

/// Outputs and all gradients of two trials, and the sameness of what several ranks have.
inline void compare_trials(layer_report& report, std::string const& where, trial const& expected,
                           trial const& got, compared_tensor const& output,
                           std::string const& law) {
  auto const& first = got.ranks[0].once.output;
  compare(report, where, output, expected.ranks[0].once.output, first, rounding_bound(first), law);
  for (std::size_t r = 1; r < got.ranks.size(); ++r)
    compare(report, where, output, first, got.ranks[r].once.output, 0,
            "rank 0 (expected) and rank " + std::to_string(r) + " (got) must have the same bits");
  for (std::size_t i = 0; i < got.parameters.size(); ++i) {
    bool disagree = false, ignored = false;
    auto const right = assemble(expected, &rank_record::once, i, ignored);
    auto const mine = assemble(got, &rank_record::once, i, disagree);
    compare(report, where, tensor_of(got, i), right, mine, rounding_bound(right), law);
    if (disagree)
      report.failures.push_back(where + ": " + tensor_of(got, i).name +
                                ": ranks that keep the same elements have different bits");
  }
}

inline void check_accumulation(layer_report& report, std::string const& where, trial const& got) {
  for (std::size_t i = 0; i < got.parameters.size(); ++i) {
    bool ignored = false;
    auto expected = assemble(got, &rank_record::once, i, ignored);
    for (double& value : expected) value *= 2;
    compare(report, where, tensor_of(got, i), expected,
            assemble(got, &rank_record::twice, i, ignored), rounding_bound(expected),
            "two backwards must add up to twice the gradient (dp += ..., not dp = ...)");
  }
}

inline void check_differences(layer_report& report, std::string const& where,
                              trial_setup const& setup, trial const& got) {
  for (std::size_t i = 0; i < got.parameters.size(); ++i) {
    bool ignored = false;
    auto const gradient = assemble(got, &rank_record::once, i, ignored);
    auto expected = gradient;
    for (std::size_t k = 0; k < setup.differences.size(); ++k)
      if (setup.differences[k].parameter == i)
        expected[setup.differences[k].element] = got.ranks[0].differences[k];
    // A third derivative of 1 and the rounding of outputs of 1 give 2e-11 each.
    compare(report, where, tensor_of(got, i), expected, gradient,
            1e-6 * std::max(1.0, largest(gradient)),
            "must be the central finite difference of the outputs (step 1e-5)");
  }
}

inline void check_independence(layer_report& report, std::string const& where,
                               trial_setup const& setup, trial const& got,
                               compared_tensor const& output, bool is_loss) {
  // What belongs to the changed sample is taken to be as expected.
  auto const others = [&](std::vector<double> const& now, std::vector<double> expected,
                          std::size_t columns) {
    for (std::size_t i = 0; i < expected.size(); ++i)
      if (i / columns % setup.samples == setup.samples / 2) expected[i] = now[i];
    return expected;
  };
  std::string const law =
      "must not change when another sample of the batch changes (sample " +
      std::to_string(setup.samples / 2) + "; row = position * " + std::to_string(setup.samples) +
      " + sample)";
  auto const& first = got.ranks[0];
  if (!is_loss)
    compare(report, where, output, others(first.changed.output, first.once.output, output.columns),
            first.changed.output, 0, law);
  for (std::size_t i = 0; i < got.parameters.size(); ++i) {
    if (!name_within(got.parameters[i].name).empty()) continue;
    bool ignored = false;
    auto const now = assemble(got, &rank_record::changed, i, ignored);
    auto const what = tensor_of(got, i);
    compare(report, where, what,
            others(now, assemble(got, &rank_record::once, i, ignored), what.columns), now, 0, law);
  }
}

inline void check_bytes(layer_report& report, std::string const& where, trial const& got) {
  for (std::size_t r = 0; r < got.ranks.size(); ++r)
    for (auto const& moved : got.ranks[r].moved)
      if (moved.planned != moved.counted)
        report.failures.push_back(
            where + ": rank " + std::to_string(r) + " moved " + std::to_string(moved.counted) +
            " bytes over the " + moved.group + " group, the plan says " +
            std::to_string(moved.planned) + "; list every ops.move of the body in the form as "
            "inner<From, To, Width>");
}

/// Runs one job; an exception is a failure.
template <class Job>
bool run_checked(layer_report& report, std::string const& where, trial_setup const& setup,
                 trial& out) {
  report.checked.push_back(where);
  try {
    out = run_trial<Job>(setup);
    return true;
  } catch (std::exception const& failure) {
    report.failures.push_back(where + ": " + failure.what());
    return false;
  }
}

template <class L>
class layer_checker {
  static constexpr bool is_loss = std::is_same_v<typename L::output, loss_value>;
  static constexpr bool aliases = [] {
    if constexpr (is_leaf<L>)
      return leaf_of<L>.may_alias.forward || leaf_of<L>.may_alias.backward;
    else
      return false;
  }();
  template <bool Aliasing>
  using variant = std::conditional_t<aliases && !Aliasing, without_aliasing<L>, L>;

 public:
  explicit layer_checker(layer_options const& options) : setup_(make_setup<L>(options)) {
    std::size_t const rows = setup_.rows();
    if (!options.tokens.empty() && options.tokens.size() != rows) {
      report_.failures.push_back("check_layer: options.tokens has " +
                                 std::to_string(options.tokens.size()) + " elements, needed are " +
                                 std::to_string(rows));
      return;
    }
    output_ = is_loss ? compared_tensor{"loss", 1, 1}
                      : compared_tensor{"output", L::output::info.width, setup_.weights.size()};
    constexpr auto choice = form_choices<L>[reference];
    if (!run_checked<layer_job<variant<false>, choice.pin, 1, choice.sharded>>(
            report_, choice.text() + " on one rank, no buffer shared", setup_, reference_))
      return;
    check_alone(report_.checked.back(), reference_);
    [&]<std::size_t... Index>(std::index_sequence<Index...>) {
      (check_form<Index>(), ...);
    }(std::make_index_sequence<form_choices<L>.size()>{});
  }

  [[nodiscard]] layer_report const& report() const { return report_; }

 private:
  /// The form that the others are compared with.
  static constexpr std::size_t reference = [] {
    for (std::size_t i = 0; i < form_choices<L>.size(); ++i)
      if (form_choices<L>[i].pin == name("whole")) return i;
    return std::size_t{0};
  }();

  void check_alone(std::string const& where, trial const& got) {
    check_differences(report_, where, setup_, got);
    check_accumulation(report_, where, got);
    check_independence(report_, where, setup_, got, output_, is_loss);
    check_bytes(report_, where, got);
    if constexpr (is_loss)
      compare(report_, where, output_, {2 * got.ranks[0].once.output[0]}, {got.ranks[0].scaled_loss},
              rounding_bound(got.ranks[0].once.output),
              "must be twice as large when context.loss_scale is");
  }

  template <std::size_t Index>
  void check_form() {
    constexpr auto choice = form_choices<L>[Index];
    check_one_rank<choice.pin, choice.sharded>();
    bool const divided = (check_ranks<choice.pin, choice.sharded, 2>() |
                          check_ranks<choice.pin, choice.sharded, 3>()) |
                         check_ranks<choice.pin, choice.sharded, 4>();
    if (!divided)
      report_.failures.push_back(choice.text() + ": none of 2, 3 and 4 ranks divides what it cuts, "
                                 "so it was not checked; check the layer with widths (and heads, "
                                 "and sequence) that are multiples of 12");
  }

  /// On one rank each form is compared with itself without shared buffers, so that a difference is
  /// the fault of `may_alias`, and then with the reference.
  template <name Form, bool Sharded>
  void check_one_rank() {
    if constexpr (fit_of<L, Form, 1, Sharded>() == fit::divides) {
      auto const where = form_choice{Form, Sharded}.text() + " on 1 tensor rank";
      trial got, alone;
      if (!run_checked<layer_job<L, Form, 1, Sharded>>(report_, where, setup_, got)) return;
      compare_trials(report_, where, reference_, got, output_, law);
      check_alone(where, got);
      if constexpr (aliases)
        if (run_checked<layer_job<variant<false>, Form, 1, Sharded>>(
                report_, where + ", no buffer shared", setup_, alone))
          compare_trials(report_, where, alone, got, output_,
                         "must not change when buffers are shared: may_alias says what is not true");
    }
  }

  template <name Form, bool Sharded, int Ranks>
  bool check_ranks() {
    constexpr fit how = fit_of<L, Form, Ranks, Sharded>();
    auto const where =
        form_choice{Form, Sharded}.text() + " on " + std::to_string(Ranks) + " tensor ranks";
    if constexpr (how == fit::no_chain)
      report_.failures.push_back(where + ": no chain of transitions leads from a whole input to this "
                                 "form and back to a whole output");
    if constexpr (how != fit::divides) return how == fit::no_chain;
    else {
      trial got;
      if (!run_checked<layer_job<L, Form, Ranks, Sharded>>(report_, where, setup_, got)) return true;
      compare_trials(report_, where, reference_, got, output_, law);
      check_alone(where, got);
      return true;
    }
  }

  static constexpr char const* law = "must be that of the whole form on one rank";

  layer_report report_;
  trial_setup setup_;
  trial reference_;
  compared_tensor output_;
};

}  // namespace detail

/// The rows that `check_layer` runs a layer with: 3 samples of the layer's sequence length, or of 12
/// positions; row = position * 3 + sample.
template <class L>
inline constexpr std::size_t checked_rows = detail::sequence_for<L> * detail::samples_for_check;

/// Runs a layer, a loss layer or a combination of layers in each of its forms on 1, 2, 3 and 4 tensor
/// ranks (those that divide; 1 and 2 where all ranks do the same), in double on the threads backend,
/// and reports what does not hold:
///
/// - output, input gradient and parameter gradients are those of the `whole` form on one rank, up to
///   1e-10 of the largest element, and the same bits on all ranks that have them;
/// - the gradients are the central finite differences of the output by inputs and parameters, up to
///   1e-6 of the largest element;
/// - a loss is proportional to `context.loss_scale`;
/// - no sample's output or input gradient depends on another sample of the batch;
/// - parameter gradients are added to what is there;
/// - `may_alias` is true: shared buffers change nothing;
/// - nothing is read that was not written: unused memory is filled with NaN;
/// - the communicators count the bytes that the plan says.
///
/// Of a combination the planner's choice is run, without and with sequence shards.
/// Random layers are fine: they draw the same numbers each time.
/// Cost:   one instantiation of the run half for each form and number of ranks, about 0.6 s each.
template <class L>
layer_report check_layer(layer_options const& options = {}) {
  static_assert(layer<L>,
                "check_layer<L>: L is not a layer; it needs `using concept_tag = plait::layer_tag;`, "
                "`using input = ...;` and `using output = ...;`");
  return detail::layer_checker<L>(options).report();
}

}  // namespace plait::testing
