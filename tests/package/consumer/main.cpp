// SPDX-License-Identifier: Apache-2.0
// What a program of another project looks like that has found the package: a layer, a loss, an
// optimizer and a policy of its own, trained in a hybrid with a policy of plait's, and the same on
// one rank; with the components that were found.
#include <plait/plait.hpp>
#if defined(CONSUMER_HAS_safetensors)
#include <plait/io/safetensors.hpp>
#endif
#if defined(CONSUMER_HAS_checkpoint)
#include <plait/checkpoint/checkpoint_folder.hpp>
#endif

#include <cmath>
#include <cstdio>
#include <vector>

template <std::size_t Width>
struct scale {  // y = x times one learned number for each feature
  using concept_tag = plait::layer_tag;
  using factor = plait::parameter<"factor", plait::extents<Width>, plait::constant(1.0)>;
  using parameters = plait::parameter_list<factor>;
  using input = plait::features<Width>;
  using output = plait::features<Width>;
  using saved = plait::saved<plait::input_slot>;

  struct multiply_row {
    template <class T>
    PLAIT_HOST_DEVICE void operator()(std::size_t columns, T* y, T const* x, T const* f) const {
      for (std::size_t c = 0; c < columns; ++c) y[c] = x[c] * f[c];
    }
  };
  static void forward(auto& ops, auto l) { ops.rows(multiply_row{}, l.y, l.x, l.p[factor{}]); }
  static void backward_input(auto& ops, auto l) {
    ops.rows(multiply_row{}, l.dx, l.dy, l.p[factor{}]);
  }
  static void backward_parameters(auto& ops, auto l) {
    ops.accumulate_columns(plait::functions::multiply{}, l.saved[plait::input_slot{}], l.dy,
                           l.dp[factor{}]);
  }
};

// example-begin loss
/// The squared distance of a row from the unit vector of its label.
template <std::size_t Classes>
struct squared_distance {
  using concept_tag = plait::layer_tag;
  using input = plait::inputs<plait::features<Classes>, plait::tokens>;
  using output = plait::loss_value;
  using saved = plait::saved<plait::input_slot>;
  using terms = plait::slot<"terms", 1, plait::slot_element::accumulate>;
  using scratch = plait::scratch<terms>;
  static constexpr bool takes_weights = true;

  static std::int64_t count(std::span<std::int32_t const> labels) {
    return static_cast<std::int64_t>(labels.size());
  }
  static double distance(auto const& x, auto const& labels, std::size_t row, std::size_t column) {
    return x.data[row * Classes + column] - (labels.data[row] == std::int32_t(column) ? 1.0 : 0.0);
  }

  struct square {
    void operator()(auto const&, auto x, auto labels, auto sums) const {
      for (std::size_t r = 0; r < x.rows; ++r) {
        sums.data[r] = 0;
        for (std::size_t c = 0; c < Classes; ++c)
          sums.data[r] += std::pow(distance(x, labels, r, c), 2);
      }
    }
  };
  struct differentiate {
    plait::loss_seed dy;  // the share of one label in the loss, times the weight of the row
    void operator()(auto const&, auto x, auto labels, auto dx) const {
      for (std::size_t r = 0; r < x.rows; ++r)
        for (std::size_t c = 0; c < Classes; ++c)
          dx.data[r * Classes + c] = 2 * distance(x, labels, r, c) * dy.at(r);
    }
  };

  static void forward(auto& ops, auto l) {
    auto const& [x, labels] = l.x;
    ops.run(square{}, x, labels, l.scratch[terms{}]);
    ops.add_to_loss(l.scratch[terms{}]);
  }
  static void backward_input(auto& ops, auto l) {
    auto const& [x, labels] = l.saved[plait::input_slot{}];
    ops.run(differentiate{l.dy}, x, labels, l.dx);
  }
};
// example-end

// example-begin optimizer
/// An optimizer: a step of equal length for each parameter, against the sign of its gradient's
/// mean.
struct lion_without_decay {
  using concept_tag = plait::optimizer_tag;
  struct numbers {
    double learning_rate;
  };
  static constexpr int states = 1;

  double learning_rate = 1e-3;
  bool (*decays)(plait::parameter_description const&) = plait::decay_all;

  [[nodiscard]] numbers numbers_of(std::int64_t, double rate_factor) const {
    return {learning_rate * rate_factor};
  }

  struct kernel {
    numbers const* now;
    double const* gradient_scale;
    void operator()(auto const&, auto parameters, auto gradients, auto means) const {
      if (std::isnan(*gradient_scale)) return;  // the step is not taken
      for (std::size_t i = 0; i < parameters.count(); ++i) {
        double const mean = 0.9 * means.data[i] + 0.1 * gradients.data[i] * *gradient_scale;
        means.data[i] = mean;
        parameters.data[i] -= now->learning_rate * ((mean > 0) - (mean < 0));
      }
    }
  };
  template <class Queue, class Arena>
  void update(Queue queue, Arena const& of, numbers const* now) const {
    using element = std::remove_pointer_t<decltype(of.parameters)>;
    using gradient = std::remove_pointer_t<decltype(of.gradients)>;
    queue.run(kernel{now, of.gradient_scale}, plait::view<element>{of.parameters, 1, of.count},
              plait::view<gradient>{of.gradients, 1, of.count},
              plait::view<element>{of.states, 1, of.count});
  }
};
// example-end

/// A policy: replicas of the batch ranks, each of which updates one block of the parameters.
template <int Ranks>
struct sharded_replicas {
  using concept_tag = plait::ext::policy_tag;
  static constexpr plait::axis along = plait::axis::replica;
  static constexpr int ranks = Ranks;
  static constexpr plait::placement samples = plait::shard<plait::dim::batch>;
  static constexpr plait::ext::parameter_rule parameters{
      .summed = plait::partial, .owned = plait::shard<plait::dim::elements>};
};

struct model : plait::sequential<plait::nn::linear<16, 32>, scale<32>, plait::nn::gelu<32>,
                                 plait::nn::linear<32, 4>> {};
using objective = plait::objective<model, squared_distance<4>>;

template <class Policy>
struct job : plait::parallel<objective, Policy, double> {};

template <class Policy>
std::vector<double> train() {
  auto const data = plait::in_memory<double>::random_classes(256, 16, 4);
  std::vector<double> losses;
  plait::launch<job<Policy>>(plait::threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<job<Policy>>(rank, lion_without_decay{.learning_rate = 0.002});
    for (auto const& batch : plait::batches(data, plait::global_batch<32>{}, rank, {.epochs = 4})) {
      double const loss = trainer.step(batch).loss;
      if (rank.is_root()) losses.push_back(loss);
    }
  });
  return losses;
}

int main() {
  auto const alone = train<plait::serial>();
  auto const together = train<plait::hybrid<plait::pipeline<2>, sharded_replicas<2>>>();
  std::printf("loss %.4f -> %.4f\n", together.front(), together.back());
  bool same = alone.size() == together.size();
  for (std::size_t i = 0; same && i < alone.size(); ++i)
    same = std::abs(alone[i] - together[i]) <= 1e-10;
  if (!same) std::puts("the hybrid did not do what one rank did");
  return same && together.back() < 0.5 * together.front() ? 0 : 1;
}
