// SPDX-License-Identifier: Apache-2.0
// first: this layer has no forward; write `static void forward(
// first: this layer has no backward_input; write `static void backward_input(
// first: this layer has parameters but no backward_parameters; write `static void
// first: this loss has no function `count`; write `static std::int64_t count(auto targets)`, which
// expect: {"h.*.scale"}
#include <cstdint>
#include <span>

#include "plait/plan/parallel.hpp"

struct shape {
  using concept_tag = plait::layer_tag;
  using input = plait::features<8>;
  using output = plait::features<8>;
};
struct with_weight : shape {
  using weight = plait::parameter<"weight", plait::extents<8>>;
  using parameters = plait::parameter_list<weight>;
};
struct measure {
  using concept_tag = plait::layer_tag;
  using input = plait::inputs<plait::features<8>, plait::tokens>;
  using output = plait::loss_value;
};

struct with_forward {
  static void forward(auto& ops, auto l) { ops.copy(l.x, l.y); }
};
struct with_backward {
  static void backward_input(auto& ops, auto l) { ops.copy(l.dy, l.dx); }
};
struct with_backward_of_weight {
  static void backward_parameters(auto& ops, auto l) {
    ops.accumulate_column_sums(l.dy, l.dp[with_weight::weight{}]);
  }
};
struct with_count {
  static std::int64_t count(std::span<std::int32_t const> labels) {
    return static_cast<std::int64_t>(labels.size());
  }
};

// Trained, so that what follows has a gradient to give.
struct scale : with_weight, with_forward, with_backward, with_backward_of_weight {};
#ifdef PLAIT_EXPECT_FAIL
struct one : shape, with_backward {};
struct two : shape, with_forward {};
struct three : with_weight, with_forward, with_backward {};
struct four : measure, with_forward, with_backward {};
#else
struct one : shape, with_forward, with_backward {};
struct two : shape, with_forward, with_backward {};
struct three : with_weight, with_forward, with_backward, with_backward_of_weight {};
struct four : measure, with_forward, with_backward, with_count {};
#endif

template <class L>
using job = plait::parallel<
    plait::sequential<
        scale, plait::named<"h", plait::repeat<2, plait::sequential<plait::named<"scale", L>>>>>,
    plait::serial>;
using last_job = plait::parallel<plait::objective<scale, four>, plait::serial>;

static_assert(job<one>::plan().stages == 1);
static_assert(job<two>::plan().stages == 1);
static_assert(job<three>::plan().stages == 1);
static_assert(last_job::plan().stages == 1);

int main() {}
