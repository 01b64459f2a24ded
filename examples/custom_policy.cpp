// SPDX-License-Identifier: Apache-2.0
// ctest:
// Your own policy: replicas of the data ranks, each of which owns a block of the optimizer's state;
// composed with plait's policies, printed, and trained.
#include <plait/plait.hpp>

#include <cstdio>

// example-begin replicas
template <int Ranks>
struct replicas {
  using concept_tag = plait::ext::policy_tag;
  static constexpr plait::axis along = plait::axis::replica;
  static constexpr int ranks = Ranks;
  // Each rank has samples of its own,
  static constexpr plait::placement samples = plait::shard<plait::dim::batch>;
  // so gradients are to be summed up; each rank updates one block of the parameters.
  static constexpr plait::ext::parameter_rule parameters{
      .summed = plait::partial, .owned = plait::shard<plait::dim::elements>};
};
// example-end

using policy = plait::hybrid<plait::data_parallel<2>, replicas<2>>;
using model =
    plait::sequential<plait::nn::linear<32, 64>, plait::nn::relu<64>, plait::nn::linear<64, 10>>;
struct job : plait::parallel<plait::objective<model, plait::nn::cross_entropy<10>>, policy> {};

int main() {
  std::fputs(plait::explain(job::plan(), {.rows = 16}).c_str(), stdout);
  double first = 0, last = 0;
  auto const data = plait::in_memory<float>::random_classes(512, 32, 10);
  plait::launch<job>(plait::threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<job>(rank, plait::adamw{.learning_rate = 0.01});
    for (auto const& batch : plait::batches(data, plait::global_batch<64>{}, rank, {.epochs = 4})) {
      auto const step = trainer.step(batch);
      if (!rank.is_root()) continue;
      if (step.step == 0) first = step.loss;
      last = step.loss;
    }
  });
  std::printf("loss %.4f -> %.4f\n", first, last);
  return last < 0.5 * first ? 0 : 1;
}
