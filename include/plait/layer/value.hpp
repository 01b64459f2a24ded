// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "plait/core/namespaces.hpp"

namespace plait::ext {

/// The kinds of values that layers pass to each other or read from the data set.
enum class value_kind : int { features, tokens, reals };

/// A description of the value that one layer passes to the next, per row. A row is one position of
/// one sample.
struct value_info {
  value_kind kind = value_kind::features;
  std::size_t width = 1;
  std::size_t vocabulary = 0;  ///< tokens are below this number; 0: tokens may have any value
  std::size_t channels = 0;    ///< channels of an image; 0: not an image
  std::size_t height = 0;      ///< height of an image

  /// Returns true if the kinds and widths are equal, so that one value can be used as the other.
  friend constexpr bool operator==(value_info const& a, value_info const& b) {
    return a.kind == b.kind && a.width == b.width;
  }
  /// Returns true if both values are images and their shapes differ.
  [[nodiscard]] constexpr bool is_another_image(value_info const& b) const {
    return channels != 0 && b.channels != 0 && (channels != b.channels || height != b.height);
  }
};

}  // namespace plait::ext

namespace plait {

/// Rows of `Width` real numbers: (sequence, batch, Width), row index = position * batch + sample.
///
/// Example (tests/reference/names_in_use_test.cpp features):
///     using input =
///         plait::features<In>;  // (rows, In): a row for each position of each sample
///     using output = plait::features<Out>;  // (rows, Out)
template <std::size_t Width>
struct features {
  static constexpr ext::value_info info{ext::value_kind::features, Width};
};

}  // namespace plait

namespace plait::ext {

/// The integer target of a row without a sample. It is also the default of losses for the target of
/// rows that they leave out (ignore_index in PyTorch). For real targets, NaN has this meaning.
inline constexpr std::int32_t ignored_target = -100;

}  // namespace plait::ext

namespace plait {

/// One integer per row, for example a token or a class: (sequence, batch). It has no gradient.
///
/// Example (tests/reference/names_in_use_test.cpp tokens):
///     using token_input = plait::tokens;  // one number for each position of each sample
struct tokens {
  static constexpr ext::value_info info{ext::value_kind::tokens, 1};
};

}  // namespace plait

namespace plait::ext {

/// Tokens in [0, Vocabulary): trainers refuse a batch with other tokens.
template <std::size_t Vocabulary>
struct tokens_below : tokens {
  static_assert(
      Vocabulary > 0,
      "tokens_below<Vocabulary>: Vocabulary is 0, and there is no token below 0; write at least 1");
  static constexpr value_info info{value_kind::tokens, 1, Vocabulary};
};

}  // namespace plait::ext

namespace plait {

/// Rows of `Width` integers from the data set as targets of a loss: (sequence, batch, Width). For
/// width 1 use `tokens`, whose views have no columns.
template <std::size_t Width>
struct integers {
  static_assert(
      Width > 1,
      "integers<Width>: Width must be at least 2; for one integer per row write plait::tokens");
  static constexpr ext::value_info info{ext::value_kind::tokens, Width};
};

/// Rows of `Width` real numbers from the data set as targets of a loss: (sequence, batch, Width).
/// They have no gradient. Their type is the type in which sums are computed: float if activations
/// are bfloat16, else the type of activations. A missing number is NaN.
///
/// Example (tests/reference/names_in_use_test.cpp reals):
///     using two_targets =
///         plait::inputs<plait::features<2>, plait::reals<2>>;  // outputs and real targets
template <std::size_t Width>
struct reals {
  static constexpr ext::value_info info{ext::value_kind::reals, Width};
};

/// Several inputs of one layer. The functions of the layer get a tuple of views.
///
/// Example (tests/reference/names_in_use_test.cpp inputs):
///     using input =
///         plait::inputs<plait::features<1>, plait::reals<1>>;  // an output and its target
template <class... Inputs>
struct inputs {};

/// The output of a loss layer: one number for the whole batch, a sum over the rows of all ranks.
///
/// Example (tests/reference/names_in_use_test.cpp loss_value):
///     using output = plait::loss_value;
struct loss_value {
  static constexpr ext::value_info info{ext::value_kind::features, 1};
};

}  // namespace plait
