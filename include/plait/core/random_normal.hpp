// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/core/random.hpp"

namespace plait::detail {

// The vector types with and without AVX2. A vector of four lanes (with AVX2) computes four numbers
// at once, a vector of two lanes two.
struct two_lanes {
  static constexpr int count = 2;
  typedef double real __attribute__((vector_size(16)));
  typedef std::uint64_t bits __attribute__((vector_size(16)));
};
struct four_lanes {
  static constexpr int count = 4;
  typedef double real __attribute__((vector_size(32)));
  typedef std::uint64_t bits __attribute__((vector_size(32)));
};

// Computes standard normal numbers, one in each lane of a vector, by the method of Box and Muller:
// sqrt(-2 log u) cos(2 pi v), where u and v are uniform numbers from two words of the random
// generator. Each operation is a single correctly rounded operation of IEEE 754, or an exact
// product for which fusing makes no difference, so every compiler, option and processor gives the
// same bits. Vectors are passed by reference, since passing them by value depends on the
// instruction set.
template <bool has_avx2>
struct normal_lanes {
  using vectors = std::conditional_t<has_avx2, four_lanes, two_lanes>;
  using real = typename vectors::real;
  using bits = typename vectors::bits;
  static constexpr int lanes = vectors::count;

  // The bits of the double 2^52. The doubles from 2^52 to 2^53 are exactly the integers in this
  // range.
  static constexpr std::uint64_t two_to_52 = 0x4330000000000000u;
  static constexpr std::uint64_t low_half = 0xffffffffu;

  // Sets `out` to the products of the low halves (32 bits) of the lanes of a and b.
  [[gnu::always_inline]] static inline void multiply(bits const& a, bits const& b, bits& out) {
#if defined(__x86_64__) && !defined(__clang__)
    if constexpr (has_avx2)  // for a * b, g++ would also multiply the high halves
      asm("vpmuludq %2, %1, %0" : "=x"(out) : "x"(a), "xm"(b));
    else
#endif
      out = (a & low_half) * b;
  }

  // Computes `lanes` blocks of the stream, from number `block` on, which are equal to the results
  // of random_bits. The words of the blocks are in the low halves of the lanes of `word`.
  [[gnu::always_inline]] static inline void philox(random_key key, std::uint64_t block,
                                                   bits (&word)[4]) {
    // The high halves of the words may have any bits; they are cleared at the end.
    bits word0 = bits{} + block;
    for (int lane = 1; lane < lanes; ++lane) word0[lane] += std::uint64_t(lane);
    bits word1 = word0 >> 32;
    bits word2 = bits{} + key.site;
    bits word3 = bits{} + key.step;
    bits key0 = bits{} + (key.seed & low_half);
    bits key1 = bits{} + (key.seed >> 32);
    for (int round = 0; round < 10; ++round) {
      bits product0, product1;
      multiply(word0, bits{} + 0xD2511F53u, product0);
      multiply(word2, bits{} + 0xCD9E8D57u, product1);
      word0 = (product1 >> 32) ^ word1 ^ key0;
      word1 = product1;
      word2 = (product0 >> 32) ^ word3 ^ key1;
      word3 = product0;
      key0 += 0x9E3779B9u;
      key1 += 0xBB67AE85u;
    }
    word[0] = word0 & low_half;
    word[1] = word1 & low_half;
    word[2] = word2 & low_half;
    word[3] = word3 & low_half;
  }

  // Prevents the compiler from fusing the multiplication that computed `product` with a following
  // addition. Call it if the product is not exact, because a fused operation would round it
  // differently.
  [[gnu::always_inline]] static inline void round([[maybe_unused]] real& product) {
#if !defined(__x86_64__) || defined(__FMA__) || defined(__FMA4__)
    std::uint64_t all = ~std::uint64_t{0};
    asm("" : "+r"(all));  // hides from the compiler that this mask keeps all bits
    product = (real)((bits)product & all);
#endif
  }

  // Computes value = value * x + coefficient, a step of Horner's scheme, with two roundings.
  [[gnu::always_inline]] static inline void step(real& value, real const& x, double coefficient) {
    value *= x;
    round(value);
    value += coefficient;
  }

  // Computes out = -2 log((word + 1/2) / 2^32), with an error of at most 0.54 ulp.
  //
  // word + 1/2 = 2^k m with m in [sqrt(1/2), sqrt(2)) and log m = 2 artanh((m-1) / (m+1)). With q =
  // -4 (m-1) / (m+1) the result is (32 - k) 2 log 2 + q + q^3 p(q^2), where p is a polynomial. q is
  // split into its leading 19 bits, q_high, and a rest, q_low, so that only small terms are rounded
  // before the last sum.
  [[gnu::always_inline]] static inline void minus_twice_log(bits const& word, real& out) {
    constexpr std::uint64_t root_half = 0x3fe6a09e667f3bcdu;  // sqrt(1/2) as a double
    constexpr std::uint64_t fraction = (std::uint64_t{1} << 52) - 1;
    real const number = (real)(word | two_to_52) - (0x1p52 - 0.5);
    // The upper 12 bits are k + 1, the lower 52 the bits of m minus root_half.
    bits const shifted = (bits)number - (root_half - (fraction + 1));
    real const k = (real)(shifted >> 52 | two_to_52) - (0x1p52 + 33);
    real const m = (real)((shifted & fraction) + root_half);
    real const denominator = m + 1;
    real const numerator = 4 - 4 * m;
    real const inverse = 1 / denominator;
    real const q_high = (real)((bits)(numerator * inverse) & ~((std::uint64_t{1} << 34) - 1));
    real q_low = (numerator - q_high * denominator) * inverse;
    round(q_low);
    real const q = q_high + q_low;
    real const square = q * q;
    // The minimax polynomial p; its error is 2^-66 of the result.
    real tail = real{} + 0x1.0f631030c3915p-36;
    step(tail, square, 0x1.0f5cc95014564p-32);
    step(tail, square, 0x1.3b20ab8ac13aep-28);
    step(tail, square, 0x1.745cde35c5e89p-24);
    step(tail, square, 0x1.c71c7258fd032p-20);
    step(tail, square, 0x1.249249242b420p-15);
    step(tail, square, 0x1.9999999999dffp-11);
    step(tail, square, 0x1.5555555555555p-6);
    tail *= square * q;
    round(tail);
    // The product of k and the first 44 bits of -2 log 2 is exact.
    real const whole = k * -0x1.62e42fefa3a00p+0;
    real rest = k * 0x1.0ca86c3898d00p-48;
    round(rest);
    real const sum = whole + q_high;
    out = sum + ((((whole - sum) + q_high) + rest) + (q_low + tail));
  }

  // Computes out = cos(a) with an error of at most 0.54 ulp, where a is 2 pi (word + 1/2) / 2^32,
  // rounded to a double.
  //
  // In quarters of a turn the angle is t + e, where t is exact and e is the error from rounding a;
  // the cosine is sin(pi/2 (x + e)) with x = |t - 2| - 1, which is exact, too. sin(pi/2 x) = x
  // S(x^2), and S = 1.57 - 0.65 x^2 + 0.08 x^4 - ...: these three terms have leading parts that are
  // multiples of 2^-52, so that their sum `high` is exact.
  [[gnu::always_inline]] static inline void cosine(bits const& word, real& out) {
    constexpr double a1 = 0x1.4abbdp-1, a2 = 0x1.466bcp-4;
    real const number = (real)(word | two_to_52) - (0x1p52 - 0.5);
    real angle = number * 0x1.921fb54442d18p-30;
    round(angle);
    // 2 pi / 2^32 is the sum of three constants, which are multiplied by `number` one by one, here
    // and in `error`. The products with the first two constants are exact.
    real last = number * 0x1.a308d313198a3p-71;
    round(last);
    real const error = (((angle - number * 0x1.921fcp-30) - number * -0x1.5777cp-51) - last) *
                       0x1.45f306dc9c883p-1;
    real const from_half = number - 0x1p31;
    bits const sign = (bits)from_half & (std::uint64_t{1} << 63);
    real const e = (real)((bits)error ^ sign);
    real const x = (real)((bits)from_half ^ sign) * 0x1p-30 - 1;

    real const x_high = (x + 0x1.8p37) - 0x1.8p37;  // x rounded to a multiple of 2^-15
    real const leading = x_high * x_high;
    real rest = (x + x_high) * ((x - x_high) + e);  // equals (x + e)^2 - leading
    round(rest);
    real const square = leading + rest;
    real const square_high = (square + 0x1.8p37) - 0x1.8p37;
    real const high = (0x1.921fb54442d18p+0 - leading * a1) + (square_high * square_high) * a2;
    real fourth = ((leading - square_high) + rest) * (square + square_high) * a2;
    round(fourth);
    real second = rest * a1;
    round(second);
    real low = real{} - 0x1.7fc4fa78b2afcp-45;  // a minimax polynomial with an error of 2^-69
    step(low, square, 0x1.aac466a480769p-38);
    step(low, square, -0x1.6fad68b12e0ddp-31);
    step(low, square, 0x1.e8f43410d4823p-25);
    step(low, square, -0x1.e3074fdd86fb8p-19);
    step(low, square, 0x1.50783487edc28p-13);
    step(low, square, -0x1.32d2cce62bd7fp-8);
    step(low, square, 0x1.9dd6ab87491fap-26);
    step(low, square, 0x1.9da41ad415447p-25);
    step(low, square, 0x1.1a62633145c07p-54);
    low += fourth - second;
    real const first = (real)((bits)high & ~low_half);
    real product = x * ((high - first) + low);
    round(product);
    real shift = e * high;
    round(shift);
    out = x * first + (product + shift);
  }

  // Replaces each lane by its square root.
  [[gnu::always_inline]] static inline void square_root(real& value) {
#if defined(__x86_64__)
    // The compiler would compute std::sqrt one lane after another, because std::sqrt may set errno.
    if constexpr (has_avx2)
      asm("vsqrtpd %0, %%ymm0\n\tvmovupd %%ymm0, %0" : "+m"(value) : : "xmm0");
    else
#endif
      for (int lane = 0; lane < lanes; ++lane) value[lane] = std::sqrt(value[lane]);
  }

  // Writes to `out` the normal numbers 8 * group to 8 * (group + groups) - 1 of the stream. The
  // steps of one number depend on each other, so up to `most` vectors are computed side by side,
  // step by step.
  [[gnu::always_inline]] static inline void fill(random_key key, std::uint64_t group,
                                                 std::size_t groups, double* out) {
    constexpr std::size_t most = 8;
    bits word[most][4];
    real radius[most][2];
    std::uint64_t block = 4 * group;
    for (std::size_t pieces = 4 * groups / lanes; pieces > 0;) {
      std::size_t const count = std::min(pieces, most);
      for (std::size_t p = 0; p < count; ++p, block += lanes) philox(key, block, word[p]);
      for (std::size_t p = 0; p < count; ++p) {
        for (int half = 0; half < 2; ++half) {
          minus_twice_log(word[p][2 * half], radius[p][half]);
          square_root(radius[p][half]);
        }
      }
      for (std::size_t p = 0; p < count; ++p, out += 2 * lanes)
        for (int half = 0; half < 2; ++half) {
          real value;
          cosine(word[p][2 * half + 1], value);
          value *= radius[p][half];
          for (int lane = 0; lane < lanes; ++lane) out[2 * lane + half] = value[lane];
        }
      pieces -= count;
    }
  }
};

#if defined(__x86_64__)
[[gnu::target("avx2")]] inline void normal_groups_avx2(random_key key, std::uint64_t group,
                                                       std::size_t groups, double* out) {
  normal_lanes<true>::fill(key, group, groups, out);
}
#endif

// Writes to `out` the normal numbers 8 * group to 8 * (group + groups) - 1 of the stream.
void normal_groups(random_key key, std::uint64_t group, std::size_t groups, double* out);

}  // namespace plait::detail

namespace plait::ext {

/// Returns standard normal number `index` of the stream (Box-Muller, from two words of a block).
/// The bits are the same with every compiler, with every option except -ffast-math, and on every
/// processor.
///
/// Cost: computes all eight numbers of the group that contains `index`; for many numbers use
///       random_normals.
double random_normal(random_key key, std::uint64_t index);

/// Fills `out` with normal random numbers of standard deviation `scale`: number i is `scale` times
/// random_normal(key, first + i).
///
/// Cost: 6 ns per number with AVX2, 12 to 16 without.
template <class T>
void random_normals(random_key key, std::uint64_t first, double scale, std::span<T> out) {
  constexpr std::size_t room = 256;
  double numbers[room];
  for (std::size_t done = 0; done < out.size();) {
    std::size_t const skipped = (first + done) % 8;
    std::size_t const count = std::min(out.size() - done, room - skipped);
    detail::normal_groups(key, (first + done) / 8, (skipped + count + 7) / 8, numbers);
    for (std::size_t i = 0; i < count; ++i)
      out[done + i] = static_cast<T>(scale * numbers[skipped + i]);
    done += count;
  }
}

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/core/random_normal.ipp"
#endif
