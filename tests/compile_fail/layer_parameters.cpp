// SPDX-License-Identifier: Apache-2.0
// first: parameter_list<...>: a layer may have four parameters at most
#include "plait/layer/layer.hpp"

struct scale {
  using concept_tag = plait::layer_tag;

  using a = plait::parameter<"a", plait::extents<8>>;
  using b = plait::parameter<"b", plait::extents<8>>;
  using c = plait::parameter<"c", plait::extents<8>>;
  using d = plait::parameter<"d", plait::extents<8>>;
#ifdef PLAIT_EXPECT_FAIL
  using e = plait::parameter<"e", plait::extents<8>>;
  using parameters = plait::parameter_list<a, b, c, d, e>;
#else
  using parameters = plait::parameter_list<a, b, c, d>;
#endif
  using input = plait::features<8>;
  using output = plait::features<8>;
};

int main() { return plait::ext::leaf_of<scale>.parameters.size() == 0; }
