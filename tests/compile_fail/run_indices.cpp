// SPDX-License-Identifier: Apache-2.0
// Kernels given to ops.run with indices that do not fit the views.
// expect: ops.run<indices>(kernel, views...): the number of operands in the indices is not the
// expect: ops.run<indices>(kernel, views...): a view whose indices are after '->' has const
// expect: this operation needs all of an index that an operand is cut along
// expect: an operand of this operation is cut along a dimension that has one element according to
// expect: one operand of this operation is cut along an index, but the placement of another operand
// expect: a result of this operation lacks the index that an operand is cut along
// expect: some operands of this operation are replicate and others invariant
// expect: an operand of this operation is partial (a sum or maximum still to be made), and
#include "plait/backend/host/threads.hpp"
#include "plait/run/operations.hpp"

using plait::view;
using operations = plait::ext::operations<plait::threads::rank_type>;

struct nothing {
  void operator()(auto const&, auto...) const {}
};

template <class Ops>
void of_fewer_views(Ops& ops, view<float const> x, view<float const> w, view<float> y) {
#ifdef PLAIT_EXPECT_FAIL
  (void)w;
  ops.template run<"r i, i j -> r j">(nothing{}, x, y);
#else
  ops.template run<"r i, i j -> r j">(nothing{}, x, w, y);
#endif
}

template <class Ops>
void of_a_result_that_is_const(Ops& ops, view<float> x, view<float const> y) {
#ifdef PLAIT_EXPECT_FAIL
  ops.template run<"r c -> r c">(nothing{}, x, y);
#else
  ops.template run<"r c -> r c">(nothing{}, y, x);
#endif
}

/// A norm of rows, which needs whole rows: a rank has only some of the columns.
template <class Ops>
void of_cut_columns(Ops& ops, view<float const, plait::shard<1>> x,
                    view<float, plait::shard<1>> y) {
#ifdef PLAIT_EXPECT_FAIL
  ops.template run<"r c -> r c; whole c">(nothing{}, x, y);
#else
  ops.template run<"r c -> r c">(nothing{}, x, y);
#endif
}

/// Views that are placed as the text does not allow it, or does.
template <class Ops>
void of_placements(Ops& ops, view<float const, plait::shard<0>> rows,
                   view<float, plait::shard<0>> y, view<float, plait::partial> sums,
                   view<float const, plait::replicate> whole, view<float, plait::invariant> once) {
#ifdef PLAIT_EXPECT_FAIL
  ops.template run<"1 c -> 1 c">(nothing{}, rows, y);
  ops.template run<"r c, 1 c -> r c">(nothing{}, rows, once, y);
  ops.template run<"r c -> 1 c">(nothing{}, rows, y);
  ops.template run<"r c -> r c">(nothing{}, whole, once);
  ops.template run<"r c -> r c">(nothing{}, sums, sums);
#else
  ops.template run<"r c -> r c">(nothing{}, rows, y);
  ops.template run<"r c, 1 c -> r c">(nothing{}, rows, whole, y);
  ops.template run<"r c -> 1 c">(nothing{}, rows, sums);
  ops.template run<"r c -> r c">(nothing{}, once, once);
  ops.template run<"r c -> r c; linear all">(nothing{}, sums, sums);
#endif
}

template void of_placements(operations&, view<float const, plait::shard<0>>,
                            view<float, plait::shard<0>>, view<float, plait::partial>,
                            view<float const, plait::replicate>, view<float, plait::invariant>);
template void of_fewer_views(operations&, view<float const>, view<float const>, view<float>);
template void of_a_result_that_is_const(operations&, view<float>, view<float const>);
template void of_cut_columns(operations&, view<float const, plait::shard<1>>,
                             view<float, plait::shard<1>>);

int main() {}
