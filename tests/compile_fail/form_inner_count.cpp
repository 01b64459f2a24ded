// SPDX-License-Identifier: Apache-2.0
// first: form<...>: a form may have four inner<...> and batch_sum<...> at most
// first: form<...>: a form may have eight use<Slot, placement> at most
// first: form<...>: a form may have sixteen clauses at most
#include "plait/layer/layer.hpp"

template <plait::ext::name Label>
using room = plait::slot<Label, 8>;
template <plait::ext::name Label>
using row = plait::parameter<Label, plait::extents<8>>;
using sum = plait::inner<plait::partial, plait::invariant, 1>;
template <class Key>
using cut = plait::use<Key, plait::shard<plait::dim::features>>;
template <class Parameter>
using split = plait::split<Parameter, 0>;
template <class... Clauses>
using with = plait::forms<plait::form<"features", plait::shard<plait::dim::features>,
                                      plait::shard<plait::dim::features>, Clauses...>>;

#ifdef PLAIT_EXPECT_FAIL
using inner_moves = with<sum, sum, sum, sum, sum>;
using uses = with<cut<room<"a">>, cut<room<"b">>, cut<room<"c">>, cut<room<"d">>, cut<room<"e">>,
                  cut<room<"f">>, cut<room<"g">>, cut<room<"h">>, cut<room<"i">>>;
template <class... Clauses>
using with_one_more = with<Clauses..., sum>;
#else
using inner_moves = with<sum, sum, sum, sum>;
using uses = with<cut<room<"a">>, cut<room<"b">>, cut<room<"c">>, cut<room<"d">>, cut<room<"e">>,
                  cut<room<"f">>, cut<room<"g">>, cut<room<"h">>>;
template <class... Clauses>
using with_one_more = with<Clauses...>;
#endif
using clauses = with_one_more<split<row<"a">>, split<row<"b">>, split<row<"c">>, split<row<"d">>,
                              split<row<"e">>, split<row<"f">>, split<row<"g">>, split<row<"h">>,
                              cut<room<"a">>, cut<room<"b">>, cut<room<"c">>, cut<room<"d">>,
                              cut<room<"e">>, cut<room<"f">>, cut<room<"g">>, cut<room<"h">>>;

struct base {
  using concept_tag = plait::layer_tag;
  using input = plait::features<8>;
  using output = plait::features<8>;
  using parameters = plait::parameter_list<row<"a">, row<"b">, row<"c">, row<"d">, row<"e">,
                                           row<"f">, row<"g">, row<"h">>;
  using saved = plait::saved<room<"a">, room<"b">, room<"c">, room<"d">>;
  using scratch = plait::scratch<room<"e">, room<"f">, room<"g">, room<"h">, room<"i">>;
};
struct scale : base {
  using forms = inner_moves;
};
struct with_uses : base {
  using forms = uses;
};
struct with_clauses : base {
  using forms = clauses;
};

int main() {
  return plait::ext::leaf_of<scale>.forms.size() == 0 ||
         plait::ext::leaf_of<with_uses>.forms.size() == 0 ||
         plait::ext::leaf_of<with_clauses>.forms.size() == 0;
}
