// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/header_only.hpp"

namespace plait {

/// Marks a type as a measure: `using concept_tag = plait::measure_tag;`.
struct measure_tag {};

}  // namespace plait

namespace plait::ext {

/// The totals over all samples of an evaluation, which it computes in addition to the sums of the
/// measures.
struct evaluation_totals {
  double loss = 0;    ///< the weighted mean over all targets that are not ignored
  double labels = 0;  ///< the number of targets that are not ignored, or the sum of their weights
};

}  // namespace plait::ext

namespace plait {

/// The direction in which the values of a measure improve.
enum class better { lower, greater };

/// A measure is a quantity that `trainer.evaluate(data, size, measures...)` computes from sums over
/// the samples of a data set. For example, an accuracy has two sums, the number of rows with the
/// right class and the number of all rows. Its value is the quotient of the two.
///
/// Syntax:  numbers: the number of sums of the measure, static constexpr; value(std::span<double
///          const> sums, ext::evaluation_totals const&): the value of the measure, from the sums
///          over all samples. If numbers is not 0, add(outputs, targets, weight, sums), static:
///          `outputs` is a std::span<double const> of one row, without padding, `targets` a span of
///          std::int32_t or of float or double, `sums` a std::span<double>. For
///          `checkpoint_options::best` it has name() -> std::string, static, and `static constexpr
///          plait::better is_better`.
/// Meaning: Sums start at 0. For each row that contributes to the loss, one rank calls add(), which
///          writes only to `sums`. All ranks evaluate the same measures.
template <class M>
concept measure = std::same_as<typename M::concept_tag, measure_tag> &&
                  requires(M const& of, std::span<double const> sums) {
                    { M::numbers } -> std::convertible_to<std::size_t>;
                    of.value(sums, ext::evaluation_totals{});
                  };

namespace detail {

/// Returns the class of a row.
///
/// Errors: input_error if the class is not below `outputs`.
[[nodiscard]] std::size_t class_of(std::span<std::int32_t const> label, std::size_t outputs,
                                   char const* measure);

}  // namespace detail

/// Ready-made measures.
namespace measures {

/// The mean loss of the data set. For a data set of a single batch, it equals the result of
/// trainer.evaluate(batch).
struct mean_loss {
  using concept_tag = measure_tag;
  static constexpr better is_better = better::lower;
  static std::string name() { return "mean_loss"; }
  static constexpr std::size_t numbers = 0;
  static double value(std::span<double const>, ext::evaluation_totals const& of) { return of.loss; }
};

/// The exponential of the mean loss.
struct perplexity {
  using concept_tag = measure_tag;
  static constexpr better is_better = better::lower;
  static std::string name() { return "perplexity"; }
  static constexpr std::size_t numbers = 0;
  static double value(std::span<double const>, ext::evaluation_totals const& of) {
    return std::exp(of.loss);
  }
};

/// The share of rows for which the output of the right class is among the `Most` greatest outputs;
/// the model has more outputs than `Most`. Of several equal outputs, the first is ranked highest.
/// An output that is NaN is ranked above the output of the right class.
template <std::size_t Most>
struct top {
  static_assert(Most > 0,
                "top<Most>: Most is 0, but a row is right if its class is among the Most greatest "
                "outputs; set Most to at least 1");
  using concept_tag = measure_tag;
  static constexpr better is_better = better::greater;
  static std::string name() { return Most == 1 ? "accuracy" : ext::concat({"top_", Most}); }
  static constexpr std::size_t numbers = 2, needs_more_outputs_than = Most;
  static void add(std::span<double const> outputs, std::span<std::int32_t const> label,
                  double weight, std::span<double> sums) {
    auto const mine = detail::class_of(label, outputs.size(), "measures::top");
    std::size_t before = 0;
    for (std::size_t c = 0; c < outputs.size(); ++c)
      before += !(outputs[c] <= outputs[mine]) || (outputs[c] == outputs[mine] && c < mine) ? 1 : 0;
    sums[0] += before < Most ? weight : 0;
    sums[1] += weight;
  }
  static double value(std::span<double const> sums, ext::evaluation_totals const&) {
    return sums[0] / sums[1];
  }
};

/// The share of rows for which the right class has the greatest output.
using accuracy = top<1>;

/// The confusion matrix: value()[class][predicted class] is the number of rows with this class and
/// this prediction, or the sum of their weights. The numbers of a class are NaN if an output of one
/// of the rows of this class is NaN.
template <std::size_t Classes>
struct confusion_matrix {
  using concept_tag = measure_tag;
  static constexpr std::size_t numbers = Classes * Classes;
  static void add(std::span<double const> outputs, std::span<std::int32_t const> label,
                  double weight, std::span<double> sums) {
    if (outputs.size() != Classes)
      throw input_error({"measures::confusion_matrix: it has ", Classes,
                         " classes, but the model has ", outputs.size(),
                         " outputs; set Classes to the number of outputs"});
    auto const taken_for = static_cast<std::size_t>(
        std::max_element(outputs.begin(), outputs.end()) - outputs.begin());
    auto const mine = detail::class_of(label, Classes, "measures::confusion_matrix");
    if (weight == 0) return;
    bool const is_known =
        std::none_of(outputs.begin(), outputs.end(), [](double one) { return std::isnan(one); });
    auto const of_class = sums.subspan(mine * Classes, Classes);
    if (is_known) of_class[taken_for] += weight;
    else std::fill(of_class.begin(), of_class.end(), std::numeric_limits<double>::quiet_NaN());
  }
  static std::array<std::array<double, Classes>, Classes> value(std::span<double const> sums,
                                                                ext::evaluation_totals const&) {
    std::array<std::array<double, Classes>, Classes> out{};
    for (std::size_t row = 0; row < Classes; ++row)
      std::copy_n(sums.begin() + static_cast<std::ptrdiff_t>(row * Classes), Classes,
                  out[row].begin());
    return out;
  }
};

/// The mean of |output - target| over all targets that are not NaN.
struct mean_absolute_error {
  using concept_tag = measure_tag;
  static constexpr better is_better = better::lower;
  static std::string name() { return "mean_absolute_error"; }
  static constexpr std::size_t numbers = 2;
  template <std::floating_point Target>
  static void add(std::span<double const> outputs, std::span<Target const> targets, double weight,
                  std::span<double> sums) {
    if (outputs.size() != targets.size())
      throw input_error({"measures::mean_absolute_error: the model has ", outputs.size(),
                         " outputs for ", targets.size(),
                         " targets of a row; the two numbers must be equal"});
    for (std::size_t c = 0; c < targets.size(); ++c) {
      if (std::isnan(targets[c])) continue;
      sums[0] += weight * std::abs(outputs[c] - static_cast<double>(targets[c]));
      sums[1] += weight;
    }
  }
  static double value(std::span<double const> sums, ext::evaluation_totals const&) {
    return sums[0] / sums[1];
  }
};

}  // namespace measures

static_assert(measure<measures::mean_loss> && measure<measures::top<5>> &&
              measure<measures::confusion_matrix<3>>);

}  // namespace plait

#if PLAIT_HEADER_ONLY
#include "plait/train/measures/measures.ipp"
#endif
