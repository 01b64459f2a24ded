// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "plait/core/concat.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/number_range.hpp"
#include "plait/testing/layer_data_ranks.hpp"
#include "plait/testing/layer_forms.hpp"
#include "plait/testing/layer_laws.hpp"
#include "plait/testing/layer_options.hpp"
#include "plait/testing/layer_pieces.hpp"
#include "plait/testing/layer_probe.hpp"
#include "plait/testing/layer_trial.hpp"
#include "plait/testing/loss_laws.hpp"
#include "plait/testing/report.hpp"

namespace plait::testing::detail {

std::vector<double> random_numbers(random_key key, std::size_t count, double mean,
                                   double deviation);
/// Changes the sign of every third number.
inline void mix_signs(std::vector<double>& values) {
  for (std::size_t i = 1; i < values.size(); i += 3) values[i] = -values[i];
}

/// The number of integers per row: tokens, or integer targets of a loss.
template <class L>
inline constexpr std::size_t integers_per_row =
    std::is_same_v<typename L::output, loss_value> &&
            first_leaf<L>.inputs[1].kind == value_kind::tokens
        ? first_leaf<L>.inputs[1].width
        : 1;

/// Chooses the inputs, parameters, targets and weights of a trial. `both_signs`: parameters with a
/// constant initializer other than 0 get numbers of both signs.
template <class L>
trial_setup make_setup(layer_options const& options, bool both_signs = true) {
  auto constexpr choice = form_choices<L>[0];
  using plan = typename layer_job<L, choice.pin, 1, choice.sharded>::plan_type;
  constexpr auto first = first_leaf<L>;
  constexpr bool is_loss = std::is_same_v<typename L::output, loss_value>;
  trial_setup out;
  out.seed = options.seed;
  out.step = options.step;
  out.sequence = sequence_for<L>;
  out.samples = out.all_samples = samples_for<L>;
  out.group = group_for<L>;
  std::uint32_t site = 1000;
  auto const key = [&] { return random_key{options.seed, ++site, 0}; };
  std::size_t const rows = out.rows(), changed = out.samples / 2;

  auto const owned = plan::blocks(0, 0, plan::grid);
  for (auto const& parameter : owned) {
    auto const& info = plan::entries[parameter.entry].info;
    bool const from_probe = input_number(parameter.name) > 0;
    bool const is_constant = info.initial.how == initializer::kind::constant;
    double const mean = is_constant ? info.initial.number() : 0.0;
    out.parameters.push_back(random_numbers(key(), info.count(), mean, from_probe ? 1.0 : 0.5));
    if (both_signs && mean != 0 && !info.is_buffer()) mix_signs(out.parameters.back());
    out.is_input.push_back(from_probe);
    out.changed_parameters.push_back(out.parameters.back());
    if (from_probe)
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
    if (is_loss) {
      limit = static_cast<std::int32_t>(first.input().width);
      for (std::size_t const classes : losses_of<L>().classes)
        if (classes > 0) limit = std::min(limit, static_cast<std::int32_t>(classes));
    } else
      for (auto const& parameter : first.parameters) {
        // Each token must be less than the number of rows of the token table. If the layer also has
        // other inputs, its first matrix may not be this table, so the matrix with the fewest rows
        // limits the tokens.
        auto const length = static_cast<std::int32_t>(parameter.rows);
        bool const is_smaller = first.flowing_inputs() > 1 && length < limit;
        if (parameter.rank == 2 && (limit == 2 || is_smaller)) limit = length;
      }
  }
  out.tokens = options.tokens;
  auto const token_key = key();
  for (std::size_t r = out.tokens.size(); r < rows * integers_per_row<L>; ++r)
    out.tokens.push_back(
        static_cast<std::int32_t>(random_word(token_key, r) % static_cast<std::uint32_t>(limit)));
  out.changed_tokens = out.tokens;
  if constexpr (takes_tokens<L>)
    for (std::size_t r = changed; r < rows; r += out.samples)
      out.changed_tokens[r] = (out.tokens[r] + 1) % limit;
  if constexpr (is_loss) {
    out.missing_token = ext::ignored_target;
    // Not 1, so that the check finds a layer that does not multiply by the scale.
    out.loss_scale = 0.25;
    out.targets = random_numbers(key(), rows * first.inputs[1].width, 0, 1);
    if (first.takes_weights) {
      out.row_weights = random_numbers(key(), rows, 1, 0.5);
      out.row_weights[rows / 2] = 0;
    }
  } else {
    if (first.adds_to_loss) out.loss_scale = 0.25;
    out.weights = random_numbers(key(), rows * L::output::info.width, 0, 1);
  }
  return out;
}

/// Runs one job by calling `run`, an instance of run_trial, and stores its results in `out`. An
/// exception counts as a failure.
bool run_checked(check_report& report, std::string const& where, trial (*run)(trial_setup const&),
                 trial_setup const& setup, trial& out);

/// The tolerance, relative to the largest element, for a type other than double, in which the
/// result of each operation is rounded.
template <class T>
inline constexpr double rounding_of = std::is_same_v<T, float> ? 1e-5 : 0.03;

/// Rounds the numbers of a trial to type T, so that a trial in T and a trial in double compute with
/// equal numbers.
template <class T>
trial_setup rounded(trial_setup setup) {
  auto const round = [](std::vector<double>& values) {
    values = converted<double>(converted<T>(values));
  };
  for (auto& values : setup.parameters) round(values);
  for (auto& values : setup.changed_parameters) round(values);
  round(setup.targets);
  round(setup.weights);
  setup.differences.clear();
  return setup;
}

/// The inputs with which a layer is checked, and the properties of the layer that the checks need,
/// as one type for all layers.
struct checked_layer {
  trial_setup setup{};
  compared_tensor output{};
  loss_counts losses{};    ///< empty if the layer is not a loss
  std::int32_t width = 1;  ///< width of the layer's first input
  bool sums_samples = false;
  double rounding = double_rounding;

  [[nodiscard]] bool is_loss() const { return output.name == "loss"; }
};

template <class L>
checked_layer make_checked(trial_setup setup, double rounding = double_rounding) {
  checked_layer out{.setup = std::move(setup),
                    .width = static_cast<std::int32_t>(first_leaf<L>.input().width),
                    .sums_samples = sums_samples<L>,
                    .rounding = rounding};
  if constexpr (std::is_same_v<typename L::output, loss_value>) {
    out.output = {"loss", 1, 1};
    out.losses = losses_of<L>();
    use_targets_that_count(out.setup, out.losses);
  } else {
    out.output = {"output", L::output::info.width, out.setup.weights.size()};
  }
  return out;
}

/// Checks the laws that concern a single job. `got`: the results of the job; `setup`: its inputs,
/// parameters and targets.
void check_alone(check_report& report, std::string const& where, checked_layer const& layer,
                 trial_setup const& setup, trial const& got, trial (*run)(trial_setup const&));

/// Checks a loss with targets that do not count, and with labels that are not the number of a
/// column.
void check_targets(check_report& report, std::string const& of_all, checked_layer const& layer,
                   trial const& usual, trial (*run)(trial_setup const&));

/// Compares the results of a job with `expected` and checks all laws of a single job. `law`: the
/// sentence for the report that states why both must be equal.
void check_job(check_report& report, std::string const& where, checked_layer const& layer,
               trial const& expected, trial const& got, trial (*run)(trial_setup const&),
               std::string const& law);

/// Runs the reference job, with whose results other jobs are compared. If these results are not
/// finite, a parameter may have to be positive. In that case the job also runs with the layer that
/// `make_positive` returns; if the results are finite now, this layer replaces `layer`.
inline bool run_reference(check_report& report, std::string const& where,
                          trial (*run)(trial_setup const&), checked_layer& layer, trial& reference,
                          auto make_positive) {
  if (!run_checked(report, where, run, layer.setup, reference)) return false;
  if (is_finite(reference)) return true;
  auto positive = make_positive();
  trial got;
  if (run_quietly(report, where, run, positive.setup, got) && is_finite(got))
    layer = std::move(positive), reference = std::move(got);
  return true;
}

/// Compares a layer in another element type with the same layer in double.
template <class L, class Element>
class precision_checker {
  using compute = typename plait::ext::precision_of<Element>::compute;

 public:
  explicit precision_checker(layer_options const& options) : layer_(make_layer(options, true)) {
    constexpr auto choice = form_choices<L>[0];
    if (!run_reference(report_, ext::concat({choice.text(), " on one rank, in double"}),
                       run_trial<layer_job<L, choice.pin, 1, choice.sharded>>, layer_, reference_,
                       [&] { return make_layer(options, false); }))
      return;
    [&]<std::size_t... Index>(std::index_sequence<Index...>) {
      (check_form<form_choices<L>[Index].pin, form_choices<L>[Index].sharded>(), ...);
    }(std::make_index_sequence<form_choices<L>.size()>{});
  }

  [[nodiscard]] check_report const& report() const { return report_; }

 private:
  static checked_layer make_layer(layer_options const& options, bool both_signs) {
    return make_checked<L>(rounded<compute>(make_setup<L>(options, both_signs)),
                           rounding_of<compute>);
  }

  template <name Form, bool Sharded>
  void check_form() {
    constexpr int least = least_ranks<L, Form, Sharded>();
    constexpr int ranks = least > 0 ? least : 1;
    if constexpr (fit_of<L, Form, ranks, Sharded>() == fit::divides) {
      auto const where =
          ext::concat({form_choice{Form, Sharded}.text(), " on ", ranks, " tensor ranks, in ",
                       (std::is_same_v<compute, float> ? "float" : "bfloat16")});
      auto* const run = run_trial<layer_job<L, Form, ranks, Sharded, Element>>;
      trial got;
      if (run_checked(report_, where, run, layer_.setup, got))
        check_job(report_, where, layer_, reference_, got, run,
                  "must be near the result in double");
    }
  }

  check_report report_;
  checked_layer layer_;
  trial reference_;
};

template <class L>
class layer_checker {
  static constexpr bool aliases = [] {
    if constexpr (is_leaf<L>) return leaf_of<L>.may_alias.forward || leaf_of<L>.may_alias.backward;
    else return false;
  }();
  static constexpr bool is_joint = [] {
    if constexpr (is_leaf<L> && !std::is_final_v<L>) return leaf_of<L>.joins_backward;
    else return false;
  }();
  template <bool Aliasing>
  using variant = std::conditional_t<aliases && !Aliasing, without_aliasing<L>, L>;

 public:
  explicit layer_checker(layer_options const& options)
      : layer_(make_checked<L>(make_setup<L>(options))) {
    std::size_t const needed = layer_.setup.rows() * integers_per_row<L>;
    if (!options.tokens.empty() && options.tokens.size() != needed) {
      report_.failures.push_back(
          ext::concat({"check_layer: options.tokens has ", options.tokens.size(),
                       " elements; the number needed is ", needed}));
      return;
    }
    check_counts(report_, layer_.losses, layer_.setup);
    constexpr auto choice = form_choices<L>[reference];
    auto* const run = run_trial<layer_job<variant<false>, choice.pin, 1, choice.sharded>>;
    auto const where = ext::concat({choice.text(), " on one rank, no buffer shared"});
    if (!run_reference(report_, where, run, layer_, reference_,
                       [&] { return make_checked<L>(make_setup<L>(options, false)); }))
      return;
    check_alone(report_, where, layer_, layer_.setup, reference_, run);
    check_targets(report_, where, layer_, reference_, run);
    [&]<std::size_t... Index>(std::index_sequence<Index...>) {
      (check_form<Index>(), ...);
    }(std::make_index_sequence<form_choices<L>.size()>{});
    if constexpr (sums_samples<L>)
      check_data_ranks(report_, ext::concat({choice.text(), " on 2 data ranks"}), layer_.setup,
                       layer_.output, run_data_ranks<data_ranks_job<L, choice.pin>>,
                       run_trial<double_batch_job<L, choice.pin>>);
  }

  [[nodiscard]] check_report const& report() const { return report_; }

 private:
  /// The index of the reference form, with whose results the results of other forms are compared.
  static constexpr std::size_t reference = [] {
    for (std::size_t i = 0; i < form_choices<L>.size(); ++i)
      if (form_choices<L>[i].pin == name("whole")) return i;
    return std::size_t{0};
  }();

  template <std::size_t Index>
  void check_form() {
    constexpr auto choice = form_choices<L>[Index];
    check_one_rank<choice.pin, choice.sharded>();
    // Each number of ranks is tried, even if an earlier one fails.
    bool const on_two = check_ranks<choice.pin, choice.sharded, 2>();
    bool const on_three = check_ranks<choice.pin, choice.sharded, 3>();
    bool const on_four = check_ranks<choice.pin, choice.sharded, 4>();
    bool on_more = false;
    if constexpr (constexpr int least = least_ranks<L, choice.pin, choice.sharded>(); least > 4)
      on_more = check_ranks<choice.pin, choice.sharded, least>();
    if (!on_two && !on_three && !on_four && !on_more)
      report_.failures.push_back(
          ext::concat({choice.text(),
                       ": the dimensions that this form cuts cannot be divided by 2, 3 or 4 ranks, "
                       "so the form was not checked; check the layer with widths (and heads, and "
                       "sequence) that are multiples of 12"}));
  }

  /// Runs a form on one rank and compares its results with the reference form. Also compares them
  /// with a run in which no buffers are shared, so that a fault of `may_alias` is found.
  template <name Form, bool Sharded>
  void check_one_rank() {
    if constexpr (fit_of<L, Form, 1, Sharded>() == fit::divides) {
      auto const where = ext::concat({form_choice{Form, Sharded}.text(), " on 1 tensor rank"});
      auto* const run = run_trial<layer_job<L, Form, 1, Sharded>>;
      trial got, alone;
      if (!run_checked(report_, where, run, layer_.setup, got)) return;
      check_job(report_, where, layer_, reference_, got, run, law);
      if constexpr (aliases)
        if (run_checked(report_, ext::concat({where, ", no buffer shared"}),
                        run_trial<layer_job<variant<false>, Form, 1, Sharded>>, layer_.setup,
                        alone))
          compare_trials(report_, where, alone, got, layer_.output,
                         "must not change when buffers are shared: may_alias is wrong");
      if constexpr (is_joint)
        if (run_checked(report_, ext::concat({where, ", in halves"}),
                        run_trial<layer_job<in_halves<L>, Form, 1, Sharded>>, layer_.setup, alone))
          compare_trials(report_, report_.checked.back(), got, alone, layer_.output,
                         "must equal the result of `backward` with both l.dx and l.dp");
    }
  }

  template <name Form, bool Sharded, int Ranks>
  bool check_ranks() {
    constexpr fit how = fit_of<L, Form, Ranks, Sharded>();
    auto const where =
        ext::concat({form_choice{Form, Sharded}.text(), " on ", Ranks, " tensor ranks"});
    if constexpr (how == fit::no_chain)
      report_.failures.push_back(
          ext::concat({where,
                       ": no chain of transitions leads from a whole input to this "
                       "form and back to a whole output"}));
    if constexpr (how != fit::divides) return how == fit::no_chain;
    else {
      auto* const run = run_trial<layer_job<L, Form, Ranks, Sharded>>;
      trial got;
      if (run_checked(report_, where, run, layer_.setup, got))
        check_job(report_, where, layer_, reference_, got, run, law);
      return true;
    }
  }

  static constexpr char const* law = "must equal the result of the whole form on one rank";

  check_report report_;
  checked_layer layer_;
  trial reference_;
};

}  // namespace plait::testing::detail

#if PLAIT_HEADER_ONLY
#include "plait/testing/layer_checker.ipp"
#endif
