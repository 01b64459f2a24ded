// SPDX-License-Identifier: Apache-2.0
#include "plait/layer/layer.hpp"

#include <gtest/gtest.h>

namespace {

using namespace plait;
using namespace plait::ext;

/// No more than the protocol demands.
struct minimal {
  using concept_tag = layer_tag;
  using input = features<6>;
  using output = features<4>;
};
static_assert(layer<minimal>);

struct without_tag {
  using input = features<6>;
  using output = features<6>;
};
struct without_input {
  using concept_tag = layer_tag;
  using output = features<6>;
};
struct without_output {
  using concept_tag = layer_tag;
  using input = features<6>;
};
static_assert(!layer<without_tag> && !layer<without_input> && !layer<without_output>);
static_assert(!layer<int>);

/// Everything that a layer may say.
struct full {
  using concept_tag = layer_tag;
  using weight = parameter<"weight", extents<6, 8>, normal(0.5)>;
  using bias = parameter<"bias", extents<8>, constant(-2.0)>;
  using parameters = parameter_list<weight, bias>;
  using input = inputs<features<6>, tokens>;
  using output = features<8>;
  using forms = plait::forms<whole,
                             form<"mine", shard<dim::features>, partial, split<weight, 0>,
                                  once<bias>, inner<partial, invariant, 3>>,
                             by_sequence<>>;
  using mean = slot<"mean", 2>;
  using heads = slot<"heads", 4, follows::features, 5>;
  using saved = plait::saved<output_slot, mean>;
  using scratch = plait::scratch<heads>;
  static constexpr std::size_t sequence = 12;
  static constexpr std::size_t units = 3;
  static constexpr double flops_per_row = 7;
  static constexpr aliasing may_alias{.forward = true};
};

TEST(Layer, OmittedMembersHaveDefaults) {
  constexpr auto info = leaf_of<minimal>;
  EXPECT_EQ(info.input_count, 1);
  EXPECT_EQ(info.input(), (value_info{value_kind::features, 6}));
  EXPECT_EQ(info.output, (value_info{value_kind::features, 4}));
  EXPECT_FALSE(info.is_loss);
  EXPECT_EQ(info.parameters.size(), 0);
  ASSERT_EQ(info.forms.size(), 1);
  EXPECT_EQ(info.forms[0].label, name("whole"));
  EXPECT_EQ(info.forms[0].input(), invariant);
  EXPECT_EQ(info.forms[0].output, invariant);
  EXPECT_FALSE(info.forms[0].shares_work());
  EXPECT_FALSE(info.saved.keeps_input || info.saved.keeps_output);
  EXPECT_EQ(info.saved.own.size() + info.scratch.own.size(), 0);
  EXPECT_EQ(info.sequence, 0u);
  EXPECT_EQ(info.units, 0u);
  EXPECT_EQ(info.flops_per_row, 0);
  EXPECT_FALSE(info.may_alias.forward || info.may_alias.backward);
}

TEST(Layer, DeclaredMembersAreRead) {
  constexpr auto info = leaf_of<full>;
  EXPECT_EQ(info.input_count, 2);
  EXPECT_EQ(info.inputs[1].kind, value_kind::tokens);
  ASSERT_EQ(info.parameters.size(), 2);
  EXPECT_EQ(info.parameters[0].label, name("weight"));
  EXPECT_EQ(info.parameters[0].rows, 6u);
  EXPECT_EQ(info.parameters[0].columns, 8u);
  EXPECT_EQ(info.parameters[1].rank, 1);
  EXPECT_EQ(info.parameters[1].count(), 8u);
  EXPECT_EQ(info.forms.size(), 3);
  EXPECT_FALSE(info.saved.keeps_input);
  EXPECT_TRUE(info.saved.keeps_output);
  ASSERT_EQ(info.saved.own.size(), 1);
  EXPECT_EQ(info.saved.own[0].per_row, 2u);
  ASSERT_EQ(info.scratch.own.size(), 1);
  EXPECT_EQ(info.scratch.own[0].label, name("heads"));
  EXPECT_TRUE(info.scratch.own[0].follows_features);
  EXPECT_EQ(info.scratch.own[0].fixed, 5u);
  EXPECT_EQ(info.sequence, 12u);
  EXPECT_EQ(info.units, 3u);
  EXPECT_EQ(info.flops_per_row, 7);
  EXPECT_TRUE(info.may_alias.forward);
  EXPECT_FALSE(info.may_alias.backward);
}

struct two_matrices {
  using concept_tag = layer_tag;
  using a = parameter<"a", extents<6, 8>>;
  using b = parameter<"b", extents<8, 2>>;
  using c = parameter<"c", extents<8>>;
  using parameters = parameter_list<a, b, c>;
  using input = features<6>;
  using output = features<2>;
};

TEST(Layer, WithoutAnEstimateAMatrixElementCostsTwo) {
  EXPECT_EQ(leaf_of<two_matrices>.flops_per_row, 2.0 * (6 * 8 + 8 * 2));
}

struct measures {
  using concept_tag = layer_tag;
  using input = features<3>;
  using output = loss_value;
};

TEST(Layer, AnOutputOfLossValueMakesALoss) { EXPECT_TRUE(leaf_of<measures>.is_loss); }

// Bodies are found by name, with any number of arguments, and are not instantiated.
struct other_numbers : minimal {
  static void forward(auto& ops) { ops.missing(); }
  static void backward_input(auto& ops, auto p, auto dy) { ops.missing(p, dy); }
};
struct two_arguments : minimal {
  static void forward(auto& ops, auto l) { ops.missing(l); }
  static auto backward_parameters(auto& ops, auto l) { return ops.missing(l); }
};
struct two_overloads : other_numbers {
  using other_numbers::forward;
  static void forward(auto& ops, auto l) { ops.missing(l); }
};
struct last final : minimal {
  static void forward(auto& ops, auto l) { ops.missing(l); }
  static void backward_input(auto& ops, auto l) { ops.missing(l.dy, l.dx); }
  static int count(int);
};
struct last_without final : minimal {};

template <class L>
constexpr bool has(bool forward, bool backward_input, bool backward_parameters, bool count) {
  constexpr auto info = leaf_of<L>;
  return info.has_forward == forward && info.has_backward_input == backward_input &&
         info.has_backward_parameters == backward_parameters && info.has_count == count;
}
static_assert(has<minimal>(false, false, false, false));
static_assert(has<other_numbers>(true, true, false, false));
static_assert(has<two_arguments>(true, false, true, false));
static_assert(has<two_overloads>(true, true, false, false));
static_assert(has<last>(true, true, false, true));
static_assert(has<last_without>(false, false, false, false));

TEST(Layer, BodiesAreFoundWithoutBeingInstantiated) {
  EXPECT_TRUE(has<other_numbers>(true, true, false, false));
}

// Near misses of the protocol's names count only if the proper name is missing; a layer's own name
// is not a near miss.
struct form : minimal {};
struct save final : minimal {};
struct unit : minimal {
  using alias = int;
};
struct own_names : form {
  using parameter = plait::parameter<"weight", extents<6>>;
  using parameters = parameter_list<parameter>;
};

TEST(Layer, ALayerMayCallItsOwnThingsAsItLikes) {
  EXPECT_EQ(leaf_of<form>.forms.size() + leaf_of<save>.forms.size() + leaf_of<unit>.forms.size(),
            3);
  EXPECT_EQ(leaf_of<own_names>.parameters.size(), 1);
}

}  // namespace
