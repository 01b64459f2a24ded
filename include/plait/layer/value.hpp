// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "plait/core/namespaces.hpp"

namespace plait::ext {

/// The kinds of values that flow along edges of a model.
enum class value_kind : int { features, tokens, reals };

/// The value that flows along one edge of a model, per row (a row is one position of one sample).
struct value_info {
  value_kind kind = value_kind::features;
  std::size_t width = 1;
  std::size_t vocabulary = 0;  ///< tokens are below it; 0 for tokens of any value
  std::size_t channels = 0;    ///< of an image; 0: just features
  std::size_t height = 0;      ///< of an image

  /// Whether one fits where the other is wanted.
  friend constexpr bool operator==(value_info const& a, value_info const& b) {
    return a.kind == b.kind && a.width == b.width;
  }
  /// Whether they are images of other shapes.
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

/// The integer target of a place without a sample; the losses' default for "does not count". Real
/// targets that do not count are not numbers.
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

/// The same, in [0, Vocabulary): trainers refuse a batch with others.
template <std::size_t Vocabulary>
struct tokens_below : tokens {
  static_assert(Vocabulary > 0, "tokens_below<Vocabulary>: there is no token below 0");
  static constexpr value_info info{value_kind::tokens, 1, Vocabulary};
};

}  // namespace plait::ext

namespace plait {

/// Rows of `Width` integers of the data set, which a loss compares features with: (sequence, batch,
/// Width). `tokens` are those of width 1, whose views have no columns.
template <std::size_t Width>
struct integers {
  static_assert(Width > 1, "integers<Width>: one integer per row is plait::tokens");
  static constexpr ext::value_info info{ext::value_kind::tokens, Width};
};

/// Rows of `Width` real numbers of the data set, which a loss compares features with:
/// (sequence, batch, Width). They have no gradient and are in the type in which sums are formed,
/// float or double, for layers of every type. A number that is missing is not a number (nan).
///
/// Example (tests/reference/names_in_use_test.cpp reals):
///     using two_targets =
///         plait::inputs<plait::features<2>, plait::reals<2>>;  // outputs beside real targets
template <std::size_t Width>
struct reals {
  static constexpr ext::value_info info{ext::value_kind::reals, Width};
};

/// Several inputs of one layer, given to its body as a tuple of views.
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
