// SPDX-License-Identifier: Apache-2.0
// first: this layer has `form`, which nothing reads, and no `forms`; write `using forms =
// first: this layer has `save`, which nothing reads, and no `saved`; write `using saved =
// first: this layer has `scratches`, which nothing reads, and no `scratch`; write `using scratch
// first: this layer has `parameter`, which nothing reads, and no `parameters`; write
// first: this layer has `flop_per_row`, which nothing reads, and no `flops_per_row`; write
// first: this layer has `unit`, which nothing reads, and no `units`; write `static
// first: this layer has `alias`, which nothing reads, and no `may_alias`; write `static
// first: this layer has `add_to_loss`, which nothing reads, and no `adds_to_loss`; write
// first: this layer has `takes_weight`, which nothing reads, and no `takes_weights`; write
// first: this layer has `backwards`, which nothing calls, and no `backward`; write `static void
// first: this layer has `backward_inputs`, which nothing calls, and no `backward_input`; write
// first: this layer has `backward_parameter`, which nothing calls, and no `backward_parameters`
// first: this layer has `forward_backward` but does not declare to which layer this function
// first: this layer has `forward_backward`, but it is not a loss, does not save its input, or has
#include "plait/layer/layer.hpp"

struct base {
  using concept_tag = plait::layer_tag;
  using input = plait::features<8>;
  using output = plait::features<8>;
};
using weight = plait::parameter<"weight", plait::extents<8>>;
using kept = plait::slot<"kept", 2>;

#ifdef PLAIT_EXPECT_FAIL
struct one : base {
  using form = plait::forms<plait::whole, plait::by_features>;
};
struct two : base {
  using save = plait::saved<plait::input_slot>;
};
struct three : base {
  using scratches = plait::scratch<kept>;
};
struct four : base {
  using parameter = plait::parameter_list<weight>;
};
struct five : base {
  static constexpr double flop_per_row = 8;
};
struct six : base {
  static constexpr std::size_t unit = 2;
};
struct seven : base {
  static constexpr plait::aliasing alias{.forward = true};
};
struct eight : base {
  static constexpr bool add_to_loss = true;
};
struct nine : base {
  static constexpr bool takes_weight = true;
};
struct ten : base {
  static void backwards(auto& ops, auto l) { ops.copy(l.dy, l.dx); }
};
struct eleven : base {
  static void backward_inputs(auto& ops, auto l) { ops.copy(l.dy, l.dx); }
};
struct twelve : base {
  static void backward_parameter(auto& ops, auto l) { ops.copy(l.dy, l.dp[weight{}]); }
};
struct thirteen : base {
  static void forward_backward(auto& ops, auto l) { ops.copy(l.x, l.y); }
};
struct fourteen : base {
  using joint_body_of = fourteen;
  static void forward_backward(auto& ops, auto l) { ops.copy(l.x, l.y); }
};
#else
struct one : base {
  using form = plait::whole;  // a name of the layer's own
  using forms = plait::forms<form, plait::by_features>;
};
struct two : base {
  using saved = plait::saved<plait::input_slot>;
};
struct three : base {
  using scratch = plait::scratch<kept>;
};
struct four : base {
  using parameters = plait::parameter_list<weight>;
};
struct five : base {
  static constexpr double flops_per_row = 8;
};
struct six : base {
  static constexpr std::size_t units = 2;
};
struct seven : base {
  static constexpr plait::aliasing may_alias{.forward = true};
};
struct eight : base {
  static constexpr bool adds_to_loss = true;
};
struct nine : base {
  static constexpr bool takes_weights = true;
};
struct ten : base {
  static void backwards(auto& ops, auto l) { ops.copy(l.dy, l.dx); }  // the layer's own
  static void backward_input(auto& ops, auto l) { backwards(ops, l); }
};
struct eleven : base {
  static void backward_input(auto& ops, auto l) { ops.copy(l.dy, l.dx); }
};
struct twelve : base {
  static void backward_parameters(auto& ops, auto l) { ops.copy(l.dy, l.dp[weight{}]); }
};
struct thirteen : base {
  using output = plait::loss_value;
  using saved = plait::saved<plait::input_slot>;
  using joint_body_of = thirteen;
  static void forward_backward(auto& ops, auto l) { ops.copy(l.x, l.dx); }
};
struct fourteen : thirteen {  // may have other bodies than thirteen
  static void forward(auto& ops, auto l) { ops.copy(l.x, l.scratch); }
};
static_assert(plait::ext::leaf_of<thirteen>.has_forward_backward);
static_assert(!plait::ext::leaf_of<fourteen>.has_forward_backward);
#endif

static_assert(plait::ext::leaf_of<one>.forms.size() > 0);
static_assert(plait::ext::leaf_of<two>.forms.size() > 0);
static_assert(plait::ext::leaf_of<three>.forms.size() > 0);
static_assert(plait::ext::leaf_of<four>.forms.size() > 0);
static_assert(plait::ext::leaf_of<five>.forms.size() > 0);
static_assert(plait::ext::leaf_of<six>.forms.size() > 0);
static_assert(plait::ext::leaf_of<seven>.forms.size() > 0);
static_assert(plait::ext::leaf_of<eight>.forms.size() > 0);
static_assert(plait::ext::leaf_of<nine>.forms.size() > 0);
static_assert(plait::ext::leaf_of<ten>.forms.size() > 0);
static_assert(plait::ext::leaf_of<eleven>.forms.size() > 0);
static_assert(plait::ext::leaf_of<twelve>.forms.size() > 0);
static_assert(plait::ext::leaf_of<thirteen>.forms.size() > 0);
static_assert(plait::ext::leaf_of<fourteen>.forms.size() > 0);

int main() {}
