// SPDX-License-Identifier: Apache-2.0
// first: saved<...> or scratch<...>: each list may contain at most 32 slots of the layer's own
#include "plait/layer/layer.hpp"

struct scale {
  using concept_tag = plait::layer_tag;

  using input = plait::features<8>;
  using output = plait::features<8>;
  template <plait::ext::name Label>
  using one = plait::slot<Label, 1>;
  template <class... Slots>
  using with_31 = plait::saved<one<"a">, one<"b">, one<"c">, one<"d">, one<"e">, one<"f">, one<"g">,
                               one<"h">, one<"i">, one<"j">, one<"k">, one<"l">, one<"m">, one<"n">,
                               one<"o">, one<"p">, one<"q">, one<"r">, one<"s">, one<"t">, one<"u">,
                               one<"v">, one<"w">, one<"x">, one<"y">, one<"z">, one<"aa">,
                               one<"bb">, one<"cc">, one<"dd">, one<"ee">, Slots...>;
#ifdef PLAIT_EXPECT_FAIL
  using saved = with_31<one<"ff">, one<"gg">>;
#else
  using saved = with_31<one<"ff">>;
#endif
};

int main() { return plait::ext::leaf_of<scale>.saved.own.size() == 0; }
