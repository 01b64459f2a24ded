// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "plait/plait.hpp"

// A loss whose value is finite although its gradient is not.
namespace broken_loss {

/// The squared error. Its slope is NaN for targets above 1000.
struct squared_error {
  template <class T>
  static T value(T x, T target) {
    return (x - target) * (x - target);
  }
  template <class T>
  static T slope(T x, T target) {
    return target > 1000 ? std::numeric_limits<T>::quiet_NaN() : 2 * (x - target);
  }
};
using model = plait::objective<plait::named<"only", plait::nn::linear<4, 1>>,
                               plait::nn::elementwise_loss<1, squared_error>>;

/// Calls action(trainer, batches), where the gradients of batch 1 are not finite.
template <class Job>
void with_broken_batch(plait::trainer_options const& how, auto action) {
  using element = typename Job::parameter_element;
  plait::launch<Job>(plait::threads{.data_ranks = 2}, [&](auto& rank) {
    std::vector<element> inputs(16 * 4), targets(16);
    for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = element(i % 7) - 3;
    targets[5] = element(1e4);
    plait::in_memory<element, element> const data(std::move(inputs), std::move(targets), 4, 1);
    auto trainer = plait::trainer<Job>(rank, plait::sgd{.learning_rate = 0.1}, how);
    auto from = plait::batches(data, plait::global_batch<4>{}, rank,
                               {.how = plait::sample_order::sequential});
    action(trainer, from);
  });
}

}  // namespace broken_loss
