// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "plait/core/name.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/core/type_list.hpp"
#include "plait/layer/formula_operand.hpp"

namespace plait {

/// The lengths of a parameter's one or two dimensions, slowest first.
///
/// Example (tests/reference/names_in_use_test.cpp extents):
///     using table = plait::extents<50257, 768>;  // a matrix; plait::extents<768> is a vector
template <std::size_t... Lengths>
struct extents {
  static_assert(sizeof...(Lengths) == 1 || sizeof...(Lengths) == 2,
                "extents<...>: a parameter has one or two dimensions; merge all further dimensions "
                "into the second, which placements can cut in parts");
  static constexpr int rank = sizeof...(Lengths);
  static constexpr std::array<std::size_t, sizeof...(Lengths)> lengths{Lengths...};
  static constexpr std::size_t count = (Lengths * ...);
};

}  // namespace plait

namespace plait::nn {

/// The shape that a matrix has in files if it differs from its extents, slowest dimension first:
/// the number of rows, and up to three dimensions whose product is the number of columns. The
/// elements and their order are the same in both shapes.
///
/// Example (tests/reference/names_in_use_test.cpp file_shape):
///     using kernels =
///         plait::parameter<"weight", plait::extents<16, 3 * 5 * 5>, plait::normal(0.1), 0,
///                          plait::nn::file_shape<16, 3, 5, 5>>;
template <std::size_t... Lengths>
struct file_shape {
  static_assert(sizeof...(Lengths) >= 1 && sizeof...(Lengths) <= 4,
                "file_shape<...>: files store a parameter with one to four lengths; write one to "
                "four numbers");
  static constexpr std::array<std::size_t, sizeof...(Lengths)> lengths{Lengths...};
  static constexpr std::size_t count = (Lengths * ...);
};

}  // namespace plait::nn

namespace plait {

/// A rule for the first value of a parameter. Each element is computed from the seed and the global
/// index of the element.
struct initializer {
  enum class kind : int { constant, normal };
  kind how = kind::constant;
  /// The constant, or the standard deviation, in units of 1e-9 (so that it can be a template
  /// argument with every compiler).
  std::int64_t nano = 0;

  [[nodiscard]] constexpr double number() const { return static_cast<double>(nano) * 1e-9; }
};

/// Every element starts as `value`.
consteval initializer constant(double value) {
  return {initializer::kind::constant,
          static_cast<std::int64_t>(value * 1e9 + (value < 0 ? -0.5 : 0.5))};
}

/// Elements start as normal random numbers with mean 0.
///
/// Example (tests/reference/names_in_use_test.cpp normal):
///     using small = plait::parameter<"weight", plait::extents<16, 4>, plait::normal(0.02)>;
consteval initializer normal(double standard_deviation) {
  return {initializer::kind::normal, static_cast<std::int64_t>(standard_deviation * 1e9 + 0.5)};
}

}  // namespace plait

namespace plait::detail {

template <class Extents, class InFiles, std::size_t Padding>
inline constexpr bool has_shape_of_files =
    std::is_same_v<Extents, InFiles> ||
    (Padding == 0 && Extents::rank == 2 && Extents::count == InFiles::count &&
     Extents::lengths[0] == InFiles::lengths[0]);

}  // namespace plait::detail

namespace plait {

/// A named parameter of a layer. Its type is also its key: in the layer's functions,
/// `l.p[weight{}]` is its value.
///
/// In a formula, give each parameter a name of its own: two members with equal name, extents and
/// initializer have the same type, so the compiler takes them for one parameter.
///
/// The last `Padding` entries of the first dimension exist only to make its length divisible by the
/// number of ranks. They are 0 before and after every step, and files do not contain them. Files
/// store the parameter with the lengths of `InFiles` if it is an nn::file_shape, and otherwise with
/// the lengths of `Extents`.
///
/// Example (tests/reference/names_in_use_test.cpp parameter):
///     using weight = plait::parameter<"weight", plait::extents<In, Out>, plait::normal(0.02)>;
///     using bias = plait::parameter<"bias", plait::extents<Out>, plait::constant(0.0)>;
template <ext::name Label, class Extents, initializer Initial = constant(0.0),
          std::size_t Padding = 0, class InFiles = Extents>
struct parameter : formula::operand_base {
  static_assert(
      Padding < Extents::lengths[0],
      "parameter<Label, Extents, Initial, Padding>: the parameter consists of padding only; the "
      "first of Extents is the length including the padding, so make it greater than Padding");
  static_assert(detail::has_shape_of_files<Extents, InFiles, Padding>,
                "parameter<Label, Extents, Initial, Padding, file_shape<...>>: file_shape is for a "
                "matrix without padding; its first length must be the number of rows, and the "
                "product of the others the number of columns");
  static constexpr ext::name label = Label;
  using extents = Extents;
  using in_files = InFiles;
  static constexpr initializer initial = Initial;
  static constexpr std::size_t padding = Padding;
};

}  // namespace plait

namespace plait::nn {

/// The rule by which a buffer follows a measured value: after a step the buffer becomes (1 - share)
/// times its old value plus `share` times the value that the step measured.
struct buffer_rule {
  std::int64_t nano = 0;  ///< the share (the weight of the new value), in units of 1e-9
};
/// Returns the rule of an exponential moving average with this share. PyTorch calls this share the
/// `momentum` of a norm layer.
/// Errors: does not compile for a share outside [1e-9, 1].
consteval buffer_rule moving_average(double share) {
  if (!(share >= 1e-9 && share <= 1)) throw "moving_average(share): the share must be in [1e-9, 1]";
  return {static_cast<std::int64_t>(share * 1e9 + 0.5)};
}

/// State of a layer that is not trained, such as the running mean of batch norm. It is listed in
/// `parameter_list`, with a name, lengths and an initial value, in the same way as a parameter.
///
/// The values that `backward_parameters` adds to `l.dp[...]` are summed over microbatches and ranks
/// together with the gradients, in the same messages. After a step's last exchange the buffer is
/// updated once from that sum, by `Rule`. A skipped step changes nothing. A buffer is saved, loaded
/// and exported like a parameter. A buffer has no optimizer state, and gradient norm, clipping,
/// weight decay and weight averages leave it out. While averaged weights are in use, the buffer
/// keeps its own value.
///
/// Units: a sum over the global batch becomes a mean if each sample's value is multiplied by
///        l.context.sample_share().
///
/// Example (tests/reference/names_in_use_test.cpp buffer):
///     using running_mean =
///         plait::nn::buffer<"running_mean", plait::extents<16>, plait::constant(0),
///                           plait::nn::moving_average(0.1)>;
template <ext::name Label, class Extents, initializer Initial, buffer_rule Rule>
struct buffer : parameter<Label, Extents, Initial> {
  static_assert(Rule.nano > 0 && Rule.nano <= 1'000'000'000,
                "nn::buffer<Label, Extents, Initial, Rule>: Rule has no share; write "
                "plait::nn::moving_average(0.1)");
  static constexpr std::int64_t momentum_nano = Rule.nano;
};

}  // namespace plait::nn

namespace plait {

/// The parameters of a layer, in the order in which files and `l.p` contain them.
///
/// Example (tests/reference/names_in_use_test.cpp parameter_list):
///     using parameters =
///         plait::parameter_list<weight, bias>;  // in the order in which files have them
template <class... Parameters>
struct parameter_list {
  static constexpr int size = sizeof...(Parameters);
};

}  // namespace plait

namespace plait::ext {

/// A description of a parameter, for the planner.
struct parameter_info {
  name label{};
  int rank = 1;
  std::size_t rows = 1;     ///< number of rows; 1 for a vector
  std::size_t columns = 1;  ///< number of columns, or length of a vector
  initializer initial{};
  std::size_t padding = 0;  ///< entries of the first dimension that files do not contain
  /// The lengths of the parameter in files, if they differ from `rows` and `columns`; else
  /// rank_in_files is 0.
  std::array<std::size_t, 4> lengths_in_files{};
  int rank_in_files = 0;
  /// In a buffer: weight of the value that a step measures, in units of 1e-9; 0: not a buffer.
  std::int64_t momentum_nano = 0;

  /// True if the parameter is not trained but follows measured values; see nn::buffer.
  [[nodiscard]] constexpr bool is_buffer() const { return momentum_nano != 0; }
  /// The number of elements, including the padding.
  [[nodiscard]] constexpr std::size_t count() const { return rows * columns; }
  /// Returns the description of the parameter as files store it, without the padding at its end.
  [[nodiscard]] constexpr parameter_info unpadded() const {
    parameter_info out = *this;
    (rank == 2 ? out.rows : out.columns) -= padding;
    out.padding = 0;
    return out;
  }
  /// Returns the length of dimension `index`.
  [[nodiscard]] constexpr std::size_t length(int index) const {
    return rank == 2 && index == 0 ? rows : columns;
  }
};

/// Returns the description of a `parameter` type.
template <class Parameter>
constexpr parameter_info info_of() {
  using shape = typename Parameter::extents;
  parameter_info out{Parameter::label,
                     shape::rank,
                     shape::rank == 2 ? shape::lengths[0] : 1,
                     shape::lengths[shape::rank - 1],
                     Parameter::initial,
                     Parameter::padding};
  if constexpr (requires { Parameter::momentum_nano; })
    out.momentum_nano = Parameter::momentum_nano;
  if constexpr (!std::is_same_v<shape, typename Parameter::in_files>)
    for (std::size_t const length : Parameter::in_files::lengths)
      out.lengths_in_files[static_cast<std::size_t>(out.rank_in_files++)] = length;
  return out;
}

}  // namespace plait::ext

namespace plait::detail {

template <class List, class Parameter>
inline constexpr int parameter_index = -1;

template <class... Parameters, class Parameter>
inline constexpr int parameter_index<parameter_list<Parameters...>, Parameter> =
    place_of_first({std::is_same_v<Parameters, Parameter>...});

}  // namespace plait::detail
