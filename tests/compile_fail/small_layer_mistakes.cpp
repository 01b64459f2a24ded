// SPDX-License-Identifier: Apache-2.0
// first: slice<Width, First, Count>: Count is 0, or First + Count is more than Width;
// first: concat<Widths...>: a concat has two to four inputs, because a fan_out has at most
// first: upsample<Image, Factor>: Factor is 0, so the output would be empty; set Factor to the
// first: class_weights<Weights...>: there must be one weight for each class, and no weight may
// first: weighted_cross_entropy<Weights, {.smoothing}>: smoothing spreads a label
// first: loss_of_part<Loss, {.outputs, .first_output}>: Loss reads Taken outputs, beginning
// first: loss_of_part<Loss, {.targets, .first_target}>: Loss reads TakenTargets targets,
// first: loss_of_part<Loss, Part>: Loss reads several integers for each row; use a loss whose
// first: derivative_of<Function>: Function cannot be called with a plait::ext::dual_number
#include "plait/nn/activation.hpp"
#include "plait/nn/concat.hpp"
#include "plait/nn/elementwise_loss.hpp"
#include "plait/nn/loss_of_part.hpp"
#include "plait/nn/slice.hpp"
#include "plait/nn/upsample.hpp"
#include "plait/nn/weighted_cross_entropy.hpp"

using namespace plait::nn;
using plait::fraction;

#ifdef PLAIT_EXPECT_FAIL
constexpr std::size_t first = 7, factor = 0, count = 5, output = 2, target = 1, classes = 2;
constexpr auto weight = fraction(-1), smoothing = fraction(0.1);
using number = float;  // no plait::ext::dual_number
#else
constexpr std::size_t first = 6, factor = 1, count = 4, output = 1, target = 0, classes = 1;
constexpr auto weight = fraction(0), smoothing = fraction(0);
using number = plait::ext::dual_number<float>;
#endif

using some_features = slice<8, first, 2>;
template <class Numbers>
struct joined;
template <std::size_t... I>
struct joined<std::index_sequence<I...>> : concat<(I + 1)...> {};
using beside = joined<std::make_index_sequence<count>>;
using larger = upsample<image<1, 2, 2>, factor>;
using weights = class_weights<fraction(1), weight>;
using weighted = weighted_cross_entropy<class_weights<fraction(1)>, {.smoothing = smoothing}>;
using of_outputs = loss_of_part<mse<2>, {.outputs = 3, .first_output = output, .targets = 2}>;
using of_targets = loss_of_part<mse<2>, {.targets = 2, .first_target = target}>;

template <std::size_t Width>
struct labels_of_row {
  using type = plait::integers<Width>;
};
template <>
struct labels_of_row<1> {
  using type = plait::tokens;
};
struct of_several {
  using concept_tag = plait::layer_tag;
  using input = plait::inputs<plait::features<2>, typename labels_of_row<classes>::type>;
  using output = plait::loss_value;
};
using of_integers = loss_of_part<of_several, {.targets = 2}>;

struct square {
  number operator()(number x) const { return x * x; }
};

int main() {
  plait::functions::derivative_of<square>{}(1.0f, 2.0f);
  return sizeof(some_features) + sizeof(beside) + sizeof(larger) + weights::count +
             sizeof(weighted) + sizeof(of_outputs) + sizeof(of_targets) + sizeof(of_integers) ==
         0;
}
