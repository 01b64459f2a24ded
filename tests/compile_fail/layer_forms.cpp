// SPDX-License-Identifier: Apache-2.0
// first: forms<...>: a layer may have eight forms at most
#include "plait/layer/layer.hpp"

struct scale {
  using concept_tag = plait::layer_tag;

  using input = plait::features<8>;
  using output = plait::features<8>;
  template <plait::ext::name Label>
  using one = plait::form<Label, plait::invariant, plait::invariant>;
#ifdef PLAIT_EXPECT_FAIL
  using forms = plait::forms<one<"1">, one<"2">, one<"3">, one<"4">, one<"5">, one<"6">, one<"7">,
                             one<"8">, one<"9">>;
#else
  using forms =
      plait::forms<one<"1">, one<"2">, one<"3">, one<"4">, one<"5">, one<"6">, one<"7">, one<"8">>;
#endif
};

int main() { return plait::ext::leaf_of<scale>.forms.size() == 0; }
