// SPDX-License-Identifier: Apache-2.0
// first: parameter<Label, Extents, Initial, Padding>: the parameter consists of padding only
// first: file_shape<...>: files store a parameter with one to four lengths; write one to four
#include "plait/layer/parameter.hpp"

#ifdef PLAIT_EXPECT_FAIL
constexpr std::size_t padding = 8;
using lengths = plait::nn::file_shape<2, 2, 2, 2, 2>;
#else
constexpr std::size_t padding = 7;
using lengths = plait::nn::file_shape<2, 2, 2, 4>;
#endif

using weight = plait::parameter<"weight", plait::extents<8, 4>, plait::constant(0), padding>;

int main() { return weight::padding == 0 || lengths::count == 0; }
