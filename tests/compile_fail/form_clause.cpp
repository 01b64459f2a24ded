// SPDX-License-Identifier: Apache-2.0
// first: form<Label, Input, Output, Clauses...>: a clause is neither use<Parameter, placement>
#include "plait/layer/layer.hpp"

struct scale {
  using concept_tag = plait::layer_tag;

  using weight = plait::parameter<"weight", plait::extents<8>>;
  using parameters = plait::parameter_list<weight>;
  using input = plait::features<8>;
  using output = plait::features<8>;
#ifdef PLAIT_EXPECT_FAIL
  using forms = plait::forms<plait::whole, plait::by_sequence<weight>>;
#else
  using replicated = plait::use<weight, plait::replicate>;
  using forms = plait::forms<plait::whole, plait::by_sequence<replicated>>;
#endif
};

int main() { return plait::ext::leaf_of<scale>.forms.size() == 0; }
