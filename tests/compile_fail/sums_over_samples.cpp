// SPDX-License-Identifier: Apache-2.0
// expect: reproducible<Slices>: a layer sums over all samples of a microbatch
// expect: ops.sum_over_samples(x): the form of this layer lists no sum with these elements and this
// expect: ops.sum_over_samples(x): the form of this layer lists no sum for this body
// expect: batch_sum<At, Width>: values summed over samples must be equal on all ranks
#include "plait/plait.hpp"

using namespace plait;

#ifdef PLAIT_EXPECT_FAIL
using steady = hybrid<data_parallel<2>, reproducible<4>>;
constexpr slot_element of_sums = slot_element::compute;
using more = whole;
constexpr placement at = partial;
#else
using steady = data_parallel<2>;
constexpr slot_element of_sums = slot_element::accumulate;
using more = form<"whole", invariant, invariant, ext::batch_sum<invariant, 4>>;
constexpr placement at = invariant;
#endif

/// Sums its input over all samples, to no end.
template <class Form, slot_element Element>
struct summing {
  using concept_tag = layer_tag;
  using input = features<4>;
  using output = features<4>;
  using forms = plait::forms<Form>;
  using sums = slot<"sums", 0, 4, Element>;
  using scratch = plait::scratch<sums>;
  static void forward(auto& ops, auto l) {
    ops.clear(l.scratch[sums{}]);
    if (!l.context.reads_buffers) ops.sum_over_samples(l.scratch[sums{}]);
    ops.copy(l.x, l.y);
  }
  static void backward_input(auto& ops, auto l) { ops.copy(l.dy, l.dx); }
};
using listed = form<"whole", invariant, invariant, ext::batch_sum<invariant, 4>>;
using norm = nn::batch_norm<nn::image<4, 1, 1>>;
template <class Layer, class Policy, class Element>
struct job : parallel<objective<Layer, nn::cross_entropy<4>>, Policy, Element> {};

template <class Job>
void train() {
  auto const data = in_memory<float>::random_classes(8, 4, 4);
  launch<Job>(threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<Job>(rank, sgd{});
    for (auto const& batch : batches<typename Job::element>(data, global_batch<8>{}, rank))
      trainer.step(batch);
  });
}

int main() {
  train<job<norm, steady, float>>();
  train<job<summing<listed, of_sums>, serial, precision<bfloat16, float>>>();
  train<job<summing<more, slot_element::accumulate>, serial, float>>();
  using odd = form<"odd", invariant, invariant, ext::batch_sum<at, 4>>;
  return int(ext::leaf_of<summing<odd, slot_element::accumulate>>.forms.size()) == 0;
}
