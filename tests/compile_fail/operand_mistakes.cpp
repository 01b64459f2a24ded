// SPDX-License-Identifier: Apache-2.0
// Operands that are sums or maxima still to be made, of another number, or not to be written.
// expect: ops.map(f, x, y): x or y is partial_max, and f of a maximum is not the maximum of f
// expect: ops.map(f, a, b, y): f is linear in its last operand only (is_linear_in_last) and both a
// expect: ops.map(f, operands..., y): f cannot be called with one number of each operand
// first: an operation writes to a view that may only be read: only forward writes saved slots
// expect: an operand of this operation is partial (a sum or maximum still to be made), and
// expect: ops.cross_entropy_backward(...): the logits are replicate, so dlogits would be partial
// expect: ops.cross_entropy_statistics(...): the logits are cut by columns; write ops.row_max
// expect: one operand of this operation is cut along an index, but the placement of another operand
#include <type_traits>

#include "plait/backend/host/threads.hpp"
#include "plait/run/operations.hpp"
#include "plait/tensor/functions.hpp"

#ifdef PLAIT_EXPECT_FAIL
constexpr bool right = false;
#else
constexpr bool right = true;
#endif
constexpr plait::placement either(plait::placement if_right, plait::placement else_this) {
  return right ? if_right : else_this;
}

using plait::view;
using operations = plait::ext::operations<plait::threads::rank_type>;

struct negated {
  static constexpr bool is_linear = true;
  float operator()(float x) const { return -x; }
};
constexpr auto summand = either(plait::partial, plait::partial_max);
void map_a_maximum(operations& ops, view<float const, summand> x, view<float, summand> y) {
  ops.map(negated{}, x, y);
}

struct scaled {
  static constexpr bool is_linear_in_last = true;
  float operator()(float factor, float x) const { return factor * x; }
};
void map_two_sums(operations& ops,
                  view<float const, either(plait::replicate, plait::partial)> factor,
                  view<float const, plait::partial> x, view<float, plait::partial> y) {
  ops.map(scaled{}, factor, x, y);
}

using one_or_two = std::conditional_t<right, negated, scaled>;
void map_one_operand(operations& ops, view<float const> x, view<float> y) {
  ops.map(one_or_two{}, x, y);
}

using saved = std::conditional_t<right, float, float const>;
void backward_input(operations& ops, view<float const> dy, view<saved> kept) { ops.copy(dy, kept); }

constexpr auto of_logits = either(plait::invariant, plait::partial);
void largest(operations& ops, view<float const, of_logits> logits, view<float, of_logits> max) {
  ops.row_max(logits, max);
}

constexpr auto whole = either(plait::invariant, plait::replicate);
void differentiate(operations& ops, view<float const, whole> logits, plait::token_view<> labels,
                   view<float const> max, view<float const> terms,
                   view<float, plait::ext::dual(whole)> dx) {
  ops.cross_entropy_backward(logits, labels, max, terms, -100, plait::loss_seed{}, dx);
}

constexpr auto of_classes = either(plait::invariant, plait::shard<1>);
void look_once(operations& ops, view<float const, of_classes> logits, plait::token_view<> labels,
               view<float> max, view<float> terms) {
  ops.cross_entropy_statistics(logits, labels, max, terms);
}

void sum_columns(operations& ops, view<float const, plait::shard<0>> a,
                 view<float const, either(plait::shard<0>, plait::partial)> b,
                 view<float, either(plait::partial, plait::invariant)> sums) {
  ops.accumulate_columns(plait::functions::multiply{}, a, b, sums);
}

int main() {}
