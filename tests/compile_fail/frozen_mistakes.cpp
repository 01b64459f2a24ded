// SPDX-License-Identifier: Apache-2.0
// first: frozen<L, Patterns...>: no parameter of L has a name that matches this pattern
// first: frozen<L, Patterns...>: this pattern names one copy of a repeat
// first: frozen<L, Patterns...>: the patterns freeze some parameters of one layer and not
// first: tied<L, Parameter, Owner>: one of the two layers is frozen and the other is trained
// expect: "first.bias"
#include "plait/layer/combinators.hpp"
#include "plait/nn/embedding.hpp"
#include "plait/nn/linear.hpp"
#include "plait/plan/parallel.hpp"

#ifdef PLAIT_EXPECT_FAIL
constexpr plait::ext::name not_there = "wpe.*", copy = "h.0.*", part = "first.weight",
                           owner = "wte.*";
#else
constexpr plait::ext::name not_there = "first.*", copy = "h.*", part = "first.*", owner = "*";
#endif

using plait::frozen, plait::named, plait::repeat, plait::sequential;
using plait::nn::linear;

using body = sequential<named<"first", linear<4, 4>>, named<"h", repeat<2, linear<4, 4>>>>;
template <class Model>
using job = plait::parallel<Model, plait::serial>;

using pattern_of_nothing = job<frozen<body, "h.*", not_there>>;
using pattern_of_a_copy = job<frozen<body, copy>>;
using part_of_a_layer = job<named<"body", frozen<body, part>>>;

constexpr plait::nn::linear_options head_options{.bias = false,
                                                 .order = plait::nn::weight_order::output_input};
using head = linear<16, 32, head_options>;
using tied_model = sequential<named<"wte", plait::nn::embedding<32, 16>>,
                              named<"head", plait::tied<head, head::weight, "wte.weight">>>;
using tied_to_frozen = job<frozen<tied_model, owner>>;

int const all[]{pattern_of_nothing::plan().stages, pattern_of_a_copy::plan().stages,
                part_of_a_layer::plan().stages, tied_to_frozen::plan().stages};

int main() { return all[0] == 0; }
