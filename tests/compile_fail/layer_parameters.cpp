// SPDX-License-Identifier: Apache-2.0
// first: parameter_list<...>: a layer may have eight parameters at most
#include "plait/layer/layer.hpp"

struct scale {
  using concept_tag = plait::layer_tag;

  template <plait::ext::name Label>
  using one = plait::parameter<Label, plait::extents<8>>;
#ifdef PLAIT_EXPECT_FAIL
  using parameters = plait::parameter_list<one<"a">, one<"b">, one<"c">, one<"d">, one<"e">,
                                           one<"f">, one<"g">, one<"h">, one<"i">>;
#else
  using parameters = plait::parameter_list<one<"a">, one<"b">, one<"c">, one<"d">, one<"e">,
                                           one<"f">, one<"g">, one<"h">>;
#endif
  using input = plait::features<8>;
  using output = plait::features<8>;
};

int main() { return plait::ext::leaf_of<scale>.parameters.size() == 0; }
