// SPDX-License-Identifier: Apache-2.0
// ctest:
// Your own loss, term within the model and measure: predicts three quantiles of a noisy number.
#include <plait/plait.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

#include <plait/testing/check_layer.hpp>

// example-begin one_number
/// log(cosh(x - target)): like the square of a small error, like the size of a large one.
struct log_cosh {
  PLAIT_HOST_DEVICE static auto value(auto x, auto target) {
    auto const off = std::abs(x - target);
    return off + std::log1p(std::exp(-2 * off)) - std::log(decltype(off){2});
  }
  PLAIT_HOST_DEVICE static auto slope(auto x, auto target) { return std::tanh(x - target); }
};
template <std::size_t Width>
struct log_cosh_loss : plait::nn::elementwise_loss<Width, log_cosh> {};
// example-end

// example-begin loss
/// The quantile loss of one number for several levels at a time: with level 0.9, an output below
/// the target costs 0.9 per unit, an output above it 0.1.
template <plait::ext::nano_fraction... Levels>
struct quantile_loss {
  static constexpr std::size_t width = sizeof...(Levels);
  using concept_tag = plait::layer_tag;
  using input = plait::inputs<plait::features<width>, plait::reals<1>>;
  using output = plait::loss_value;
  using terms = plait::slot<"terms", 1, plait::slot_element::accumulate>;
  using saved = plait::saved<plait::input_slot>;
  using scratch = plait::scratch<terms>;
  static constexpr bool takes_weights = true;

  static std::int64_t count(auto targets) { return std::ssize(targets); }

  struct add_up {
    template <class Sum>
    PLAIT_HOST_DEVICE void operator()(std::size_t, auto const* x, auto const* target,
                                      Sum* term) const {
      constexpr double levels[]{Levels.number()...};
      double sum = 0;
      for (std::size_t c = 0; c < width; ++c) {
        double const above = double(*target) - double(x[c]);
        sum += above > 0 ? levels[c] * above : (levels[c] - 1) * above;
      }
      *term = static_cast<Sum>(sum);
    }
  };
  struct differentiate {
    static constexpr bool takes_row = true;
    plait::loss_seed seed;
    template <class X>
    PLAIT_HOST_DEVICE void operator()(std::size_t row, std::size_t, X const* x, auto const* target,
                                      X* dx) const {
      constexpr double levels[]{Levels.number()...};
      for (std::size_t c = 0; c < width; ++c) {
        double const slope = double(*target) > double(x[c]) ? -levels[c] : 1 - levels[c];
        dx[c] = static_cast<X>(seed.at(row) * slope);
      }
    }
  };

  static void forward(auto& ops, auto l) {
    auto const& [x, targets] = l.x;
    ops.rows(add_up{}, x, targets, l.scratch[terms{}]);
    ops.add_to_loss(l.scratch[terms{}]);
  }
  static void backward_input(auto& ops, auto l) {
    auto const& [x, targets] = l.saved[plait::input_slot{}];
    ops.rows(differentiate{ops.loss_seed()}, x, targets, l.dx);
  }
};
// example-end

// example-begin term
/// y = x, and the mean of the squares of x is a term of the loss.
template <std::size_t Width>
struct keep_small {
  using concept_tag = plait::layer_tag;
  using input = plait::features<Width>;
  using output = plait::features<Width>;
  using terms = plait::slot<"terms", 1, plait::slot_element::accumulate>;
  using saved = plait::saved<plait::input_slot>;
  using scratch = plait::scratch<terms>;
  static constexpr bool adds_to_loss = true;

  struct copy_and_add_up {
    template <class Sum>
    PLAIT_HOST_DEVICE void operator()(std::size_t columns, auto const* x, auto* y,
                                      Sum* term) const {
      double sum = 0;
      for (std::size_t c = 0; c < columns; ++c) sum += double(x[c]) * double(x[c]), y[c] = x[c];
      *term = static_cast<Sum>(sum / double(columns));
    }
  };
  struct differentiate {
    static constexpr bool takes_row = true;
    plait::loss_seed seed;
    template <class X>
    PLAIT_HOST_DEVICE void operator()(std::size_t row, std::size_t columns, X const* x, X const* dy,
                                      X* dx) const {
      double const factor = 2 * seed.at(row) / double(columns);
      for (std::size_t c = 0; c < columns; ++c)
        dx[c] = static_cast<X>(double(dy[c]) + factor * double(x[c]));
    }
  };

  static void forward(auto& ops, auto l) {
    ops.rows(copy_and_add_up{}, l.x, l.y, l.scratch[terms{}]);
    ops.add_to_loss(l.scratch[terms{}]);
  }
  static void backward_input(auto& ops, auto l) {
    ops.rows(differentiate{ops.loss_seed()}, l.saved[plait::input_slot{}], l.dy, l.dx);
  }
};
// example-end

// example-begin job
using levels = quantile_loss<plait::fraction(0.1), plait::fraction(0.5), plait::fraction(0.9)>;
using model =
    plait::sequential<plait::nn::linear<1, 32>, plait::nn::gelu<32>,
                      plait::named<"small", plait::times<plait::fraction(0.001), keep_small<32>>>,
                      plait::nn::linear<32, 3>>;
using job = plait::parallel<plait::objective<model, levels>,
                            plait::hybrid<plait::pipeline<2>, plait::data_parallel<2>>>;
// example-end

// example-begin measure
/// The share of targets between the first and the last output.
struct coverage {
  using concept_tag = plait::measure_tag;
  static constexpr std::size_t numbers = 2;
  static void add(std::span<double const> outputs, auto targets, double weight,
                  std::span<double> sums) {
    bool const inside = outputs.front() < targets[0] && targets[0] < outputs.back();
    sums[0] += inside ? weight : 0;
    sums[1] += weight;
  }
  static double value(std::span<double const> sums, plait::ext::evaluation_totals const&) {
    return sums[0] / sums[1];
  }
};
// example-end

/// Numbers whose spread grows with x.
plait::in_memory<float, float> noisy(std::size_t samples) {
  std::vector<float> features(samples), targets(samples);
  std::vector<double> noise(samples);
  plait::ext::random_normals<double>({1, 0, 0}, 0, 1.0, noise);
  for (std::size_t i = 0; i < samples; ++i) {
    features[i] = float(i) / float(samples);
    targets[i] = std::sin(6 * features[i]) + features[i] * static_cast<float>(noise[i]);
  }
  return {features, targets, 1};
}

int main() {
  // example-begin check_one_number
  auto const simple = plait::testing::check_layer<log_cosh_loss<3>>();
  if (!simple.passed()) return std::printf("%s\n", simple.text().c_str());
  std::printf("log_cosh keeps the laws: %zu forms and numbers of ranks\n", simple.checked.size());
  // example-end
  // example-begin check
  auto const report = plait::testing::check_layer<levels>();
  if (!report.passed()) return std::printf("%s\n", report.text().c_str());
  std::printf("the loss keeps the laws: %zu forms and numbers of ranks\n", report.checked.size());
  // example-end

  // example-begin train
  auto const data = noisy(1003);
  plait::launch<job>(plait::threads{}, [&](auto& rank) {
    auto trainer = plait::trainer<job>(rank, plait::adamw{.learning_rate = 0.02},
                                       {.rate = plait::rates::cosine(1500)});
    plait::csv_log log(rank, "own_loss.csv", {.term_names = job::plan_type::loss_term_names()});
    for (auto const& batch : plait::batches(data, plait::global_batch<64>{}, rank, {.epochs = 100}))
      log.write(trainer.step(batch));
    auto const [loss, inside] =
        trainer.evaluate(data, plait::global_batch<64>{}, plait::measures::mean_loss{}, coverage{});
    if (rank.is_root())
      std::printf("loss %.4f, %.0f %% between the levels 0.1 and 0.9\n", loss, 100 * inside);
  });
  // example-end
}
