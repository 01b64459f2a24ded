// SPDX-License-Identifier: Apache-2.0
#include "plait/layer/combinators.hpp"

#include <gtest/gtest.h>

#include <type_traits>

namespace {

using namespace plait;
using namespace plait::ext;

template <std::size_t In, std::size_t Out>
struct dense {
  using concept_tag = layer_tag;
  using weight = parameter<"weight", extents<In, Out>>;
  using parameters = parameter_list<weight>;
  using input = features<In>;
  using output = features<Out>;
};

struct lookup {
  using concept_tag = layer_tag;
  using input = tokens;
  using output = features<8>;
};

struct loss {
  using concept_tag = layer_tag;
  using input = inputs<features<4>, tokens>;
  using output = loss_value;
};

struct pick {
  using concept_tag = layer_tag;
  using input = inputs<features<8>, features<4>>;
  using output = features<4>;
};

// Combinations are layers themselves, from the input of the first to the output of the last.
using chain = sequential<lookup, dense<8, 16>, dense<16, 4>>;
static_assert(layer<chain>);
static_assert(std::is_same_v<chain::input, tokens>);
static_assert(std::is_same_v<chain::output, features<4>>);

static_assert(layer<residual<dense<8, 8>>> && layer<repeat<3, dense<8, 8>>>);
static_assert(std::is_same_v<residual<dense<8, 8>>::output, features<8>>);
static_assert(std::is_same_v<repeat<3, dense<8, 8>>::input, features<8>>);

static_assert(layer<named<"head", dense<8, 4>>> && layer<use_form<"whole", dense<8, 4>>>);
static_assert(std::is_same_v<named<"head", dense<8, 4>>::output, features<4>>);
static_assert(std::is_same_v<use_form<"whole", dense<8, 4>>::input, features<8>>);
using shared = tied<dense<8, 4>, dense<8, 4>::weight, "head.weight">;
static_assert(layer<shared> && std::is_same_v<shared::output, features<4>>);

static_assert(layer<objective<chain, loss>>);
static_assert(std::is_same_v<objective<chain, loss>::input, tokens>);
static_assert(std::is_same_v<objective<chain, loss>::output, loss_value>);

// A combination may get a name.
struct model : sequential<dense<8, 8>, dense<8, 4>> {};
struct task : objective<model, loss> {};
static_assert(layer<model> && layer<residual<sequential<model, dense<4, 8>>>>);
static_assert(std::is_same_v<task::input, features<8>> && std::is_same_v<task::model, model>);

using gate = sequential<fan_out<dense<8, 8>, dense<8, 4>>, pick>;
static_assert(std::is_same_v<fan_out<dense<8, 8>, dense<8, 4>>::output, pick::input>);

TEST(Combinators, AGateTakesWhatItsFanOutTakes) {
  EXPECT_TRUE((layer<gate> && std::is_same_v<gate::input, features<8>>));
}

}  // namespace
