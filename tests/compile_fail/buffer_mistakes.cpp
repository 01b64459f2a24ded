// SPDX-License-Identifier: Apache-2.0
// expect: nn::buffer: the job keeps its parameters in bfloat16
// expect: tied<L, Parameter, Owner>: Parameter is a buffer
// second error: g++ says that a constant expression throws, and then what
// expect: moving_average(share): the share must be in [1e-9, 1]
// expect: nn::buffer<Label, Extents, Initial, Rule>: Rule has no share
#include "plait/plait.hpp"

using namespace plait;
using picture = nn::image<2, 1, 1>;
using norm = nn::batch_norm<picture, {.group = 4}>;

#ifdef PLAIT_EXPECT_FAIL
using kinds = precision<bfloat16, bfloat16, float>;
using tie = norm::running_mean;
constexpr double share = 1.5;
constexpr nn::buffer_rule rule{};
#else
using kinds = precision<bfloat16, float>;
using tie = norm::weight;
constexpr double share = 0.5;
constexpr nn::buffer_rule rule = nn::moving_average(1e-9);
#endif

struct job : parallel<objective<norm, nn::cross_entropy<2>>, serial, kinds> {};
using two = sequential<named<"a", norm>, tied<norm, tie, "a.weight">>;
using other = nn::buffer<"b", extents<2>, constant(0), nn::moving_average(share)>;
using slow = nn::buffer<"c", extents<2>, constant(0), rule>;

int main() {
  auto const data = in_memory<float>::random_classes(8, 2, 2);
  launch<job>(threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<job>(rank, sgd{});
    for (auto const& batch : batches<job::element>(data, global_batch<8>{}, rank))
      trainer.step(batch);
  });
  return int(two::output::info.width + ext::info_of<other>().count() +
             ext::info_of<slow>().count()) == 0;
}
