// SPDX-License-Identifier: Apache-2.0
// Jobs with levels 2 and 3 of zero.
// first: reproducible<Slices> with zero<2> or zero<3>
// first: reduce_gradients<Job>: the job has zero<2> or zero<3>
// first: p[Parameter{}] in backward_parameters: the layer's input needs no gradient
#include <type_traits>

#include "plait/plait.hpp"

using namespace plait;
using namespace plait::ext;

#ifdef PLAIT_EXPECT_FAIL
using level = zero<3>;
constexpr bool right = false;
#else
using level = zero<1>;
constexpr bool right = true;
#endif

struct looks_back {  // y = x w, whose backward looks at w for the gradient of w
  using concept_tag = layer_tag;
  using weight = parameter<"weight", extents<4, 4>, normal(0.1)>;
  using parameters = parameter_list<weight>;
  using input = features<4>;
  using output = features<4>;
  using forms = plait::forms<whole>;
  using saved = plait::saved<input_slot>;

  static void forward(auto& ops, auto l) { ops.matmul(l.x, l.p[weight{}], l.y); }
  static void backward_input(auto& ops, auto l) {
    ops.matmul(l.dy, transposed(l.p[weight{}]), l.dx);
  }
  static void backward_parameters(auto& ops, auto l) {
    (void)l.p[weight{}];
    ops.accumulate_matmul(transposed(l.saved[input_slot{}]), l.dy, l.dp[weight{}]);
  }
};

template <class Policy>
struct job : parallel<objective<looks_back, nn::cross_entropy<4>>, Policy> {};

void step() {
  using looking = job<data_parallel<2, level>>;
  auto const data = in_memory<float>::random_classes(8, 4, 4);
  launch<looking>(threads{}, [&](auto& rank) {
    auto all = batches(data, global_batch<8>{}, rank);
    trainer<looking>(rank, sgd{}).step(all.at(0));
  });
}
void add_up() {
  using summed = job<data_parallel<2, std::conditional_t<right, zero<1>, zero<2>>>>;
  launch<summed>(threads{},
                 [](auto& rank) { reduce_gradients<summed>(rank, gradients<summed, partial>{}); });
}
int const with_slices =
    job<hybrid<data_parallel<2, level>, reproducible<2>>>::plan().bytes_per_rank({}) > 0;

int main() {}
