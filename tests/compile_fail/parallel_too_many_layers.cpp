// SPDX-License-Identifier: Apache-2.0
// expect: this model has more layers than compilers can plan without flags (the layers of a repeat
// expect: -fconstexpr-steps=
// expect: -fconstexpr-ops-limit=
#include <cstddef>
#include <utility>

#include "plait/nn/activation.hpp"
#include "plait/plan/parallel.hpp"

template <std::size_t>
using same = plait::nn::relu<4>;
template <std::size_t... I>
plait::sequential<same<I>...> many(std::index_sequence<I...>);

#ifdef PLAIT_EXPECT_FAIL
constexpr std::size_t layers = 513;
#else
constexpr std::size_t layers = 512;
#endif

using job =
    plait::parallel<decltype(many(std::make_index_sequence<layers>{})), plait::data_parallel<2>>;

int main() { return sizeof(job) == 0; }
