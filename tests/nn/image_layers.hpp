// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

#include "plait/backend/host/threads.hpp"
#include "plait/layer/layer.hpp"
#include "plait/run/layer_views.hpp"
#include "plait/run/operations.hpp"
#include "plait/run/summing_operations.hpp"
#include "plait/tensor/view.hpp"

/// Runs the bodies of one layer on images, on numbers of the test's own.
namespace image_layers {

using numbers = std::vector<double>;

/// The values that tests/oracle/images_reference.py has, too.
inline numbers by_formula(std::size_t count, int key) {
  numbers out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = std::sin(12.9898 * double(i) + 78.233 * key);
  return out;
}

template <class T>
struct keyed_views {
  std::vector<plait::view<T>> views;
  template <class Parameters>
  struct of {
    keyed_views const& all;
    template <class Key>
    auto operator[](Key) const {
      return all.views[std::size_t(plait::detail::parameter_index<Parameters, Key>)];
    }
  };
};

struct slot_views {
  plait::view<double const> x, y;
  plait::view<double> own;
  auto operator[](plait::input_slot) const { return x; }
  auto operator[](plait::output_slot) const { return y; }
  template <class Slot>
  auto operator[](Slot) const {
    return own;
  }
};

/// The results of a layer for x, and for the gradient of y.
struct outcome {
  numbers y, dx;
  std::vector<numbers> gradients;  ///< gradients of the parameters
};

template <class L>
outcome run_layer(std::size_t samples, numbers const& x, std::vector<numbers> parameters,
                  numbers const& dy, plait::ext::layer_context context = {}) {
  using list = typename plait::detail::parameters_of<L>::type;
  constexpr auto leaf = plait::ext::leaf_of<L>;
  std::size_t const in = L::input::info.width, out = L::output::info.width;
  outcome made{numbers(samples * out), numbers(samples * in), {}};
  for (auto const& one : parameters) made.gradients.emplace_back(one.size(), 0.0);
  auto const room_of = [samples](auto const& slots) {
    return slots.own.size() == 0 ? 0 : samples * slots.own[0].per_row + slots.own[0].fixed;
  };
  numbers kept(room_of(leaf.saved)), room(room_of(leaf.scratch));
  context.batch = samples;
  plait::threads{}.run(plait::ext::mesh{}, [&](auto& rank) {
    using operations = plait::ext::operations<plait::threads::rank_type>;
    using formed = plait::execution::formed_layer<L, 0>;
    using plait::ext::layer_body;
    operations ops(rank, context, 0);
    // A single rank has no other rank to sum with.
    plait::execution::summing_operations<operations, double, formed, layer_body::forward> forward(
        ops);
    plait::execution::summing_operations<operations, double, formed, layer_body::backward_input>
        backward(ops);
    keyed_views<double const> p;
    keyed_views<double> dp;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      auto const& info = leaf.parameters[static_cast<int>(i)];
      p.views.push_back({parameters[i].data(), info.rows, info.columns});
      dp.views.push_back({made.gradients[i].data(), info.rows, info.columns});
    }
    struct views {
      plait::view<double const> x;
      plait::view<double> y;
      plait::view<double const> dy;
      plait::view<double> dx;
      typename keyed_views<double const>::template of<list> p;
      typename keyed_views<double>::template of<list> dp;
      slot_views saved, scratch;
      plait::ext::layer_context const& context;
    } const l{
        {x.data(), samples, in},
        {made.y.data(), samples, out},
        {dy.data(), samples, out},
        {made.dx.data(), samples, in},
        {p},
        {dp},
        {{x.data(), samples, in}, {made.y.data(), samples, out}, {kept.data(), 1, kept.size()}},
        {{}, {}, {room.data(), 1, room.size()}},
        context};
    L::forward(forward, l);
    L::backward_input(backward, l);
    if constexpr (list::size > 0) L::backward_parameters(ops, l);
  });
  return made;
}

}  // namespace image_layers
