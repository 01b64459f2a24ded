// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "plait/core/macros.hpp"
#include "plait/core/namespaces.hpp"

namespace plait::ext {

/// Four words of 32 bits: a block of random bits, or the counter from which such a block is
/// computed.
struct random_block {
  std::uint32_t word[4];
};

/// The counter-based generator Philox-4x32 with 10 rounds: equal arguments give equal bits on every
/// rank and device, so random numbers can be keyed by global indices.
///
/// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
PLAIT_HOST_DEVICE constexpr random_block philox(std::uint64_t seed, random_block counter) {
  std::uint32_t key0 = static_cast<std::uint32_t>(seed);
  std::uint32_t key1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    std::uint64_t const product0 = std::uint64_t{0xD2511F53u} * counter.word[0];
    std::uint64_t const product1 = std::uint64_t{0xCD9E8D57u} * counter.word[2];
    counter = {{static_cast<std::uint32_t>(product1 >> 32) ^ counter.word[1] ^ key0,
                static_cast<std::uint32_t>(product1),
                static_cast<std::uint32_t>(product0 >> 32) ^ counter.word[3] ^ key1,
                static_cast<std::uint32_t>(product0)}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

/// Identifies a stream of random numbers by the seed, their purpose (`site`) and the step.
struct random_key {
  std::uint64_t seed = 0;
  std::uint32_t site = 0;
  std::uint32_t step = 0;
};

/// Returns the block with the random numbers `4*block` to `4*block+3` of the stream `key`.
PLAIT_HOST_DEVICE constexpr random_block random_bits(random_key key, std::uint64_t block) {
  return philox(key.seed, {{static_cast<std::uint32_t>(block),
                            static_cast<std::uint32_t>(block >> 32), key.site, key.step}});
}

/// Returns random number `index` of the stream as 32 bits.
PLAIT_HOST_DEVICE constexpr std::uint32_t random_word(random_key key, std::uint64_t index) {
  return random_bits(key, index / 4).word[index % 4];
}

/// Returns the threshold for dropout: a value is dropped if its random word is less than the
/// threshold, which happens with `probability` in [0, 1), to within 2^-32.
constexpr std::uint32_t dropout_threshold(double probability) {
  double const scaled = probability * 4294967296.0;
  return scaled < 4294967295.0 ? static_cast<std::uint32_t>(scaled) : 4294967295u;
}

/// Converts 32 random bits to a uniform number between 0 and 1, both excluded.
PLAIT_HOST_DEVICE constexpr double uniform_from_bits(std::uint32_t bits) {
  return (static_cast<double>(bits) + 0.5) * (1.0 / 4294967296.0);
}

}  // namespace plait::ext
