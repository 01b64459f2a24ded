// SPDX-License-Identifier: Apache-2.0
// Placements in forms whose rows no list could have.
// first: use<Parameter, placement>: the table of transitions has no row from the stored placement
// first: form<Label, Input, Output, Clauses...>: the table of transitions has no row from Input or
#include "plait/layer/layer.hpp"

#ifdef PLAIT_EXPECT_FAIL
constexpr auto used = plait::ext::only<0>, made = plait::ext::sliced;
#else
constexpr auto used = plait::partial, made = plait::partial;
#endif

template <class Form>
struct scale {
  using concept_tag = plait::layer_tag;
  using weight = plait::parameter<"weight", plait::extents<8>>;
  using parameters = plait::parameter_list<weight>;
  using input = plait::features<8>;
  using output = plait::features<8>;
  using forms = plait::forms<typename Form::template of<weight>>;
};

// A parameter on one rank only: its gradient would have to be broadcast.
struct of_one_rank {
  template <class Weight>
  using of = plait::form<"once", plait::replicate, plait::partial, plait::use<Weight, used>>;
};
// The placement of gradients under reproducible<Slices>.
struct by_slices {
  template <class Weight>
  using of = plait::form<"slices", plait::replicate, made>;
};

int main() {
  return plait::ext::leaf_of<scale<of_one_rank>>.forms.size() +
         plait::ext::leaf_of<scale<by_slices>>.forms.size();
}
