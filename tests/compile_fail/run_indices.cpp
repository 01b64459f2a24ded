// SPDX-License-Identifier: Apache-2.0
// Kernels given to ops.run with indices that do not fit the views.
// first: ops.run<indices>(kernel, views...): the text has the indices of more or fewer operands
// than expect: ops.run<indices>(kernel, views...): a view whose indices stand behind '->' has const
// expect: ops.run<indices>(kernel, views...): on views placed so the kernel does not make what the
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

/// A norm of rows: the sum over cut columns is none of the whole row.
template <class Ops>
void of_cut_columns(Ops& ops, view<float const, plait::shard<1>> x,
                    view<float, plait::shard<1>> y) {
#ifdef PLAIT_EXPECT_FAIL
  ops.template run<"r c -> r c; whole c">(nothing{}, x, y);
#else
  ops.template run<"r c -> r c">(nothing{}, x, y);
#endif
}

template void of_fewer_views(operations&, view<float const>, view<float const>, view<float>);
template void of_a_result_that_is_const(operations&, view<float>, view<float const>);
template void of_cut_columns(operations&, view<float const, plait::shard<1>>,
                             view<float, plait::shard<1>>);

int main() {}
