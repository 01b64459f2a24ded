// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "plait/core/random.hpp"
#include "plait/core/random_normal.hpp"

namespace plait {

/// The random numbers of one sample in one epoch: a stream that depends only on the seed, on the
/// adaptor's place among the random adaptors, on the epoch and on the number of the sample.
///
/// Threads: each object is used by one thread.
class sample_random {
 public:
  /// `place`: the number of random adaptors that were applied before this one, so that each adaptor
  /// has its own stream.
  constexpr sample_random(std::uint64_t seed, int place, std::int64_t epoch, std::size_t sample)
      : key_(key_of(seed, place, static_cast<std::uint64_t>(epoch), sample)) {}

  /// Returns 32 random bits.
  constexpr std::uint32_t bits() { return random_word(key_, next_++); }
  /// Returns a number between 0 and 1, both excluded.
  constexpr double uniform() { return ext::uniform_from_bits(bits()); }
  /// Returns a number between `least` and `most`, both excluded.
  constexpr double uniform(double least, double most) { return least + (most - least) * uniform(); }
  /// Returns an integer from 0 to `count` - 1; 0 if `count` is 0.
  constexpr std::uint32_t below(std::uint32_t count) {
    return static_cast<std::uint32_t>((std::uint64_t{bits()} * count) >> 32);
  }
  /// Returns true with the given probability.
  constexpr bool chance(double probability) { return uniform() < probability; }
  /// Fills `out` with normal random numbers of mean 0 and standard deviation `scale`.
  template <class T>
  void normals(double scale, std::span<T> out) {
    ext::random_key const other{.seed = key_.seed, .site = 1, .step = 0};
    random_normals<T>(other, next_normal_, scale, out);
    next_normal_ += out.size();
  }

 private:
  static constexpr ext::random_key key_of(std::uint64_t seed, int place, std::uint64_t epoch,
                                          std::uint64_t sample) {
    // The last word of the Philox counter differs from the word that the sampler uses for the order
    // of samples, so that the two are independent under the same seed.
    auto const last = 0xda000000u | (static_cast<std::uint32_t>(place) & 0xffu) << 16 |
                      (static_cast<std::uint32_t>(epoch >> 32) & 0xffffu);
    auto const block = ext::philox(
        seed, {{static_cast<std::uint32_t>(sample), static_cast<std::uint32_t>(sample >> 32),
                static_cast<std::uint32_t>(epoch), last}});
    return {.seed = (std::uint64_t{block.word[0]} << 32) | block.word[1], .site = 0, .step = 0};
  }

  ext::random_key key_;
  std::uint64_t next_ = 0, next_normal_ = 0;
};

}  // namespace plait
