// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "plait/core/random.hpp"
#include "plait/core/random_normal.hpp"

namespace plait {

/// The random numbers of one sample in one epoch: a stream that depends on the seed, the place of
/// its adaptor among others, the epoch and the number of the sample, and on nothing else.
///
/// Threads: each is used by one thread; they are made where they are needed.
class sample_random {
 public:
  /// `place`: how many random adaptors lie within.
  constexpr sample_random(std::uint64_t seed, int place, std::int64_t epoch, std::size_t sample)
      : key_(key_of(seed, place, static_cast<std::uint64_t>(epoch), sample)) {}

  /// 32 random bits.
  constexpr std::uint32_t bits() { return random_word(key_, next_++); }
  /// A number between 0 and 1, which it never is.
  constexpr double uniform() { return ext::uniform_from_bits(bits()); }
  /// A number between `least` and `most`.
  constexpr double uniform(double least, double most) { return least + (most - least) * uniform(); }
  /// An integer from 0 to `count` - 1; 0 if `count` is 0.
  constexpr std::uint32_t below(std::uint32_t count) {
    return static_cast<std::uint32_t>((std::uint64_t{bits()} * count) >> 32);
  }
  /// True with this probability.
  constexpr bool chance(double probability) { return uniform() < probability; }
  /// Fills `out` with `scale` times standard normal numbers.
  template <class T>
  void normals(double scale, std::span<T> out) {
    ext::random_key const other{.seed = key_.seed, .site = 1, .step = 0};
    random_normals<T>(other, next_normal_, scale, out);
    next_normal_ += out.size();
  }

 private:
  static constexpr ext::random_key key_of(std::uint64_t seed, int place, std::uint64_t epoch,
                                          std::uint64_t sample) {
    // Another word than that of the order of samples under the same seed.
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
