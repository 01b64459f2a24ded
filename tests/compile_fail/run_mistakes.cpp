// SPDX-License-Identifier: Apache-2.0
// Kernels given to ops.run with views that they cannot have.
// first: ops.run(kernel, views...): a view is partial (a sum still to be made) and the kernel is
// expect: ops.run(kernel, views...): a view is partial_max (a maximum still to be made), so the
// expect: ops.run(kernel, views...): the views have different placements. If some views are cut by
// expect: ops.run(kernel, views...): the kernel cannot be called with a queue and these views
#include "plait/backend/host/threads.hpp"
#include "plait/run/operations.hpp"

#ifdef PLAIT_EXPECT_FAIL
constexpr bool right = false;
#else
constexpr bool right = true;
#endif

using plait::view;
using operations = plait::ext::operations<plait::threads::rank_type>;

struct twice {
  static constexpr bool is_linear = right;
  void operator()(auto const&, auto x, auto y) const {
    for (std::size_t i = 0; i < x.count(); ++i) y.data[i] = 2 * x.data[i];
  }
};
void of_a_sum(operations& ops, view<float const, plait::partial> x, view<float, plait::partial> y) {
  ops.run(twice{}, x, y);
}

struct minus {
  static constexpr bool is_linear = true;
  void operator()(auto const&, auto x) const {
    for (std::size_t i = 0; i < x.count(); ++i) x.data[i] = -x.data[i];
  }
};
void of_a_maximum(operations& ops, view<float, plait::partial_max> x) {
#ifdef PLAIT_EXPECT_FAIL
  ops.run(minus{}, x);
#else
  ops.run(minus{}, view<float>{x.data, x.rows, x.columns});
#endif
}

/// y = x^T: the block of the rows of x is a block of the columns of y.
struct transpose {
  static constexpr bool any_placement = right;
  void operator()(auto const&, auto x, auto y) const {
    for (std::size_t r = 0; r < x.rows; ++r)
      for (std::size_t c = 0; c < x.columns; ++c)
        y.data[c * y.columns + r] = x.data[r * x.columns + c];
  }
};
void of_rows_and_columns(operations& ops, view<float const, plait::shard<0>> x,
                         view<float, plait::shard<1>> y) {
  ops.run(transpose{}, x, y);
}

struct copy {
  void operator()(auto const&, auto x, auto y) const {
    for (std::size_t i = 0; i < x.count(); ++i) y.data[i] = x.data[i];
  }
};
void of_other_views(operations& ops, view<float const> x, view<float> y) {
#ifdef PLAIT_EXPECT_FAIL
  ops.run(copy{}, x);
  (void)y;
#else
  ops.run(copy{}, x, y);
#endif
}

int main() {}
