// SPDX-License-Identifier: Apache-2.0
// expect: interleaved<Period, L, Last>: Period is 0; write 6 if every sixth copy of the block has
// expect: interleaved<Period, L, Last>: L or Last is a formula, a combination of layers, or a layer
// expect: interleaved<Period, L, Last>: L or Last has parameters, but the block has one list of
// expect: interleaved<Period, L, Last>: L and Last differ in their declarations (input, output,
#include "plait/nn/attention.hpp"
#include "plait/nn/interleaved.hpp"
#include "plait/nn/linear.hpp"
#include "plait/nn/qk_norm.hpp"
#include "plait/nn/rms_norm.hpp"
#include "plait/nn/rotary.hpp"

using near = plait::nn::attention<4, 2, 8, 16, {.window = 4}>;
using far = plait::nn::attention<4, 2, 8, 16>;
using slow = plait::nn::rotary<32, 8, 16>;
using fast = plait::nn::rotary<32, 8, 16, {.base = 100}>;

#ifdef PLAIT_EXPECT_FAIL
using first = plait::nn::interleaved<0, near, far>;
using second = plait::nn::interleaved<6, plait::nn::qk_norm<32, 8>, plait::nn::qk_norm<32, 32>>;
using third = plait::nn::interleaved<6, plait::nn::rms_norm<32>,
                                     plait::nn::rms_norm<32, {.epsilon = plait::fraction(0.1)}>>;
using fourth = plait::nn::interleaved<6, slow, plait::nn::rotary<32, 8, 32>>;
#else
using first = plait::nn::interleaved<6, near, far>;
using second = plait::nn::interleaved<1, near, far>;
using third = plait::nn::interleaved<6, far, far>;
using fourth = plait::nn::interleaved<6, slow, fast>;
#endif

constexpr first a{};
constexpr second b{};
constexpr third c{};
constexpr fourth d{};

int main() { return sizeof(a) + sizeof(b) + sizeof(c) + sizeof(d) == 0; }
