// SPDX-License-Identifier: Apache-2.0
// Bodies that ask for members that the layer has not listed.
// expect: saved[input_slot{}]: the layer does not save its input; add input_slot to its saved<...>
// expect: saved[output_slot{}]: the layer does not save its output; add output_slot to its
// expect: saved[slot{}]: the layer saves no such slot; add it to its saved<...>
// expect: p[Parameter{}]: the layer has no such parameter; list it in parameter_list
// expect: ops.add_to_loss(terms): this layer is not a loss and does not declare that it adds a term
// expect: ops.loss_seed(): this layer is not a loss and does not declare that it adds a term to the
// expect: ops.move<To>(x): the form of this layer lists no such move with elements of this type
// expect: is_listed_in_form<summed
// expect: unlisted_move<float
// expect: ops.move<To>(x): the form lists no move of backward_input
// expect: plait::execution::backward_parameters_body<
#include "plait/backend/host/threads.hpp"
#include "plait/nn/cross_entropy.hpp"
#include "plait/nn/linear.hpp"
#include "plait/train/trainer.hpp"

struct twice {
  static constexpr bool is_linear = true;
  float operator()(float, float x) const { return 2 * x; }
};

#ifdef PLAIT_EXPECT_FAIL
template <class...>
using saved_slots = plait::saved<>;
template <class...>
using parameter_list = plait::parameter_list<>;
struct with_term {};
constexpr plait::placement in_backward = plait::partial;
constexpr auto moved = plait::slot_element::compute;
#else
struct with_term {
  static constexpr bool adds_to_loss = true;
};
constexpr plait::placement in_backward = plait::invariant;
constexpr auto moved = plait::slot_element::accumulate;
template <class... Slots>
using saved_slots = plait::saved<Slots...>;
template <class... Parameters>
using parameter_list = plait::parameter_list<Parameters...>;
#endif

template <class Slot>
struct scale {
  using concept_tag = plait::layer_tag;
  using input = plait::features<4>;
  using output = plait::features<4>;
  using saved = saved_slots<Slot>;

  static void forward(auto& ops, auto l) { ops.copy(l.x, l.y); }
  static void backward_input(auto& ops, auto l) { ops.map(twice{}, l.saved[Slot{}], l.dy, l.dx); }
};

struct move {
  using concept_tag = plait::layer_tag;
  using input = plait::features<4>;
  using output = plait::features<4>;
  using shift = plait::parameter<"shift", plait::extents<4>>;
  using parameters = parameter_list<shift>;

  static void forward(auto& ops, auto l) {
    ops.copy(l.x, l.y);
    ops.add_row(l.p[shift{}], l.y);
  }
  static void backward_input(auto& ops, auto l) { ops.copy(l.dy, l.dx); }
  static void backward_parameters(auto& ops, auto l) {
    ops.accumulate_column_sums(l.dy, l.dp[shift{}]);
  }
};

/// This layer is the first, so no layer needs the gradient of its input.
struct biased {
  using concept_tag = plait::layer_tag;
  using input = plait::features<8>;
  using output = plait::features<8>;
  using shift = plait::parameter<"shift", plait::extents<8>>;
  using parameters = plait::parameter_list<shift>;

  static void forward(auto& ops, auto l) {
    ops.copy(l.x, l.y);
    ops.add_row(l.p[shift{}], l.y);
  }
  static void backward(auto& ops, auto l) {
    ops.accumulate_column_sums(l.dy, l.dp[shift{}]);
#ifdef PLAIT_EXPECT_FAIL
    ops.copy(l.dy, l.dx);
#else
    if constexpr (requires { l.dx; }) ops.copy(l.dy, l.dx);
#endif
  }
};

struct penalty : with_term {
  using concept_tag = plait::layer_tag;
  using input = plait::features<4>;
  using output = plait::features<4>;
  using terms = plait::slot<"terms", 1, plait::slot_element::accumulate>;
  using scratch = plait::scratch<terms>;

  static void forward(auto& ops, auto l) {
    ops.copy(l.x, l.y);
    ops.add_to_loss(l.scratch[terms{}]);
  }
  static void backward_input(auto& ops, auto l) {
    ops.copy(l.dy, l.dx);
    (void)ops.loss_seed();
  }
};

/// Its form lists a sum of activations, and its forward makes one of what sums are kept in.
struct summed {
  using concept_tag = plait::layer_tag;
  using input = plait::features<4>;
  using output = plait::features<4>;
  using terms = plait::slot<"terms", 1, plait::slot_element::accumulate>;
  using scratch = plait::scratch<terms>;
  using forms = plait::forms<
      plait::form<"whole", plait::invariant, plait::invariant, plait::use<terms, plait::partial>,
                  plait::inner<plait::partial, plait::invariant, 1, moved>>>;

  static void forward(auto& ops, auto l) {
    ops.copy(l.x, l.y);
    (void)ops.template move<plait::invariant>(l.scratch[terms{}]);
  }
  static void backward_input(auto& ops, auto l) {
    ops.copy(l.dy, l.dx);
    (void)ops.template move<plait::invariant>(plait::view<float, in_backward>{});
  }
};

using model = plait::sequential<biased, plait::nn::linear<8, 4>, penalty, scale<plait::input_slot>,
                                scale<plait::output_slot>, scale<plait::slot<"mask", 4>>, move,
                                plait::named<"sum", summed>>;
struct job : plait::parallel<plait::objective<model, plait::nn::cross_entropy<4>>, plait::serial,
                             plait::precision<plait::bfloat16, float>> {};

void train(plait::threads::rank_type& rank,
           plait::device_batch<plait::ext::host_memory> const& next) {
  plait::trainer<job>(rank, plait::adamw{}).step(next);
}

int main() {}
