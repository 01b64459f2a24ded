// SPDX-License-Identifier: Apache-2.0
// Jobs that replicas cannot train, and calls that need one gradient of each parameter.
// first: hybrid<Policies...>: ranks are replicas along two axes
// first: reproducible<Slices> with local_steps<H>: reproducible gives the same bits
// first: hybrid<Policies...>: local_steps<H> with delayed<1>
// first: data_parallel<..., local_steps<H>>: a layer sums over all samples of a microbatch
// first: data_parallel<..., local_steps<H>>: a layer has buffers
// first: data_parallel<..., local_steps<H>>: the common update needs parameters and gradients of
// first: step_trace: the job has local_steps<H>
// first: trainer.gradients_of(batch): the job has local_steps<H>
// first: trainer.export_gradients(sink): the job has local_steps<H>
// first: reduce_gradients<Job>: the job has local_steps<H>
// first: check_policy<Policy>: the policy has local_steps
#include <string>
#include <type_traits>

#include "plait/observe/step_trace.hpp"
#include "plait/plait.hpp"
#include "plait/testing/check_policy.hpp"

using namespace plait;
using namespace plait::ext;

#ifdef PLAIT_EXPECT_FAIL
constexpr bool right = false;
#else
constexpr bool right = true;
#endif

template <int Ranks>
using local = data_parallel<Ranks, local_steps<8>>;
template <int Ranks>
using if_wrong = std::conditional_t<right, data_parallel<Ranks>, local<Ranks>>;

struct own_replicas {
  using concept_tag = policy_tag;
  static constexpr axis along = axis::replica;
  static constexpr int ranks = 2;
  static constexpr placement samples = shard<dim::batch>;
  static constexpr parameter_rule parameters{.kept = varying, .summed = varying, .owned = varying};
  static constexpr int local_steps = 8;
};

/// Sums its input over all samples, to no end.
struct summing {
  using concept_tag = layer_tag;
  using input = features<4>;
  using output = features<4>;
  using forms = plait::forms<form<"whole", invariant, invariant, batch_sum<invariant, 4>>>;
  using sums = slot<"sums", 0, 4, slot_element::accumulate>;
  using scratch = plait::scratch<sums>;
  static void forward(auto& ops, auto l) {
    ops.clear(l.scratch[sums{}]);
    ops.sum_over_samples(l.scratch[sums{}]);
    ops.copy(l.x, l.y);
  }
  static void backward_input(auto& ops, auto l) { ops.copy(l.dy, l.dx); }
};

template <class Policy, class Element = float>
struct job : parallel<objective<nn::linear<4, 4>, nn::cross_entropy<4>>, Policy, Element> {};
template <class Policy>
struct normed : parallel<objective<sequential<nn::linear<4, 4>, nn::batch_norm<nn::image<4, 1, 1>>>,
                                   nn::cross_entropy<4>>,
                         Policy> {};
template <class Policy>
struct summed
    : parallel<objective<sequential<nn::linear<4, 4>, summing>, nn::cross_entropy<4>>, Policy> {};
using in_bfloat16 = std::conditional_t<right, precision<plait::bfloat16, float>,
                                       precision<plait::bfloat16, plait::bfloat16, float>>;

int const two_axes = job<hybrid<if_wrong<2>, own_replicas>>::plan().bytes_per_rank({}) > 0;
int const with_slices = job<hybrid<if_wrong<2>, reproducible<2>>>::plan().bytes_per_rank({}) > 0;
using late = std::conditional_t<right, data_parallel<2>, data_parallel<2, delayed<1>>>;
int const of_delay = job<hybrid<own_replicas, late>>::plan().bytes_per_rank({}) > 0;
int const of_sums = summed<if_wrong<2>>::plan().bytes_per_rank({}) > 0;
int const of_batch_norm = normed<if_wrong<2>>::plan().bytes_per_rank({}) > 0;
int const of_bfloat16 = job<local<2>, in_bfloat16>::plan().bytes_per_rank({}) > 0;

struct sink {
  template <class Info, class Values>
  void operator()(std::string const&, Info const&, Values const&) const {}
};

void of_gradients(threads::rank_type& rank) {
  using of_trainer = job<if_wrong<2>>;
  auto const data = in_memory<float>::random_classes(4, 4, 4);
  auto trainer = plait::trainer<of_trainer>(rank, sgd{});
  for (auto const& batch : batches(data, global_batch<4>{}, rank)) trainer.gradients_of(batch);
  trainer.export_gradients(sink{});
  step_trace const trace(trainer, "trace");
  reduce_gradients<of_trainer>(rank, gradients<of_trainer, partial>{});
}

bool check() { return testing::check_policy<if_wrong<2>>().passed(); }

int main() {}
