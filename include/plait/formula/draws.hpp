// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "plait/core/macros.hpp"
#include "plait/core/random.hpp"

/// The random numbers that formulas draw.
///
/// A random number depends on the seed, the step, the layer, the number of the draw within the
/// layer, and the place of the element in the whole value. Every plan therefore draws the same
/// numbers, and a recomputation draws them again.
namespace plait::formula {

/// The distribution of a draw. A dropout draws the factor by which an element is multiplied: 0 or 1
/// / (1 - probability).
enum class distribution : int { dropout, uniform, normal };

/// The stream of a layer's random numbers, and the place of an element in this stream.
struct random_place {
  ext::random_key key{};
  /// The index of the element in the whole value, counted in the order samples, positions, columns.
  std::uint64_t element = 0;
  bool is_training = false;  ///< false in evaluation, where a draw returns its mean
};

/// Returns the random numbers of a draw as `Real`. `Number` is the number of the draw in its
/// formula. Draw 0 reads the same random words as ops.dropout.
template <distribution From, int Number, class Real>
struct random_draw {
  static_assert(Number < 256, "a formula has at most 256 draws of random numbers");

  /// Returns the random number of an element. For a dropout it is `factor` if the element's random
  /// word is at least `threshold`, so that the element is kept; otherwise it is 0.
  PLAIT_IN_LOOPS PLAIT_HOST_DEVICE static Real of(random_place const& at, std::uint32_t threshold,
                                                  double factor) {
    if constexpr (From == distribution::normal) {
      if (!at.is_training) return Real(0);
      using std::cos, std::log, std::sqrt;  // the Box-Muller transform of two random words
      ext::random_block const words = ext::random_bits(at.key, first + at.element);
      Real const radius = sqrt(Real(-2) * log(Real(ext::uniform_from_bits(words.word[0]))));
      return radius * cos(Real(6.283185307179586) * Real(ext::uniform_from_bits(words.word[1])));
    } else {
      if (!at.is_training) return From == distribution::uniform ? Real(0.5) : Real(1);
      ext::random_block const words = ext::random_bits(at.key, first + at.element / 4);
      std::uint32_t const word = words.word[at.element % 4];
      if constexpr (From == distribution::uniform) return Real(ext::uniform_from_bits(word));
      else return word >= threshold ? Real(factor) : Real(0);
    }
  }

 private:
  /// The number of the first block of random words of this draw. No value has 2^56 elements, so the
  /// blocks of different draws do not overlap.
  static constexpr std::uint64_t first = std::uint64_t(Number) << 56;
};

}  // namespace plait::formula
