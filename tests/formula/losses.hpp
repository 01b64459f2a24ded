// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "formula/layers.hpp"
#include "plait/core/macros.hpp"
#include "plait/formula/layer.hpp"

/// Losses that are written as formulas, and layers with a term in the loss.
namespace formula_testing {

template <std::size_t Classes>
struct loss_of_classes {
  using input = plait::inputs<plait::features<Classes>, plait::tokens>;
  using output = plait::loss_value;
};
template <std::size_t Width>
struct loss_of_numbers {
  using input = plait::inputs<plait::features<Width>, plait::reals<Width>>;
  using output = plait::loss_value;
};

template <std::size_t Classes>
struct entropy_loss : loss_of_classes<Classes> {
  static constexpr std::int32_t ignored = 2;  // replaces nn::cross_entropy's -100
  static constexpr auto formula(auto x, auto label) { return cross_entropy(x, label); }
};

/// Returns (1 - s) times the cross-entropy of the label plus s times the mean cross-entropy of all
/// classes.
template <std::size_t Classes>
struct smoothed_loss : loss_of_classes<Classes> {
  static constexpr auto formula(auto x, auto label) {
    return log_sum_exp(x) - 0.9_c * pick(x, label) - 0.1_c * mean(x);
  }
};

struct weight_of_class {
  template <class T>
  PLAIT_HOST_DEVICE T operator()(T label) const {
    constexpr double weights[]{1, 2, 0.5, 3};
    return static_cast<T>(weights[int(label) % 4]);
  }
};
/// Lin et al., "Focal Loss for Dense Object Detection", 2017, with a weight for each class.
template <std::size_t Classes>
struct focal_loss : loss_of_classes<Classes> {
  static constexpr auto formula(auto x, auto label) {
    auto const surprise = cross_entropy(x, label);
    auto const weight = map(weight_of_class{}, number_of(label));
    return weight * square(1_c - exp(-surprise)) * surprise;
  }
};

/// The margin to the greatest logit, and a term that keeps logits small.
template <std::size_t Classes>
struct margin_loss : loss_of_classes<Classes> {
  static constexpr auto formula(auto x, auto label) {
    return max(x) - pick(x, label) + 1e-4_c * square(log_sum_exp(x));
  }
};

template <std::size_t Width>
struct squared_loss : loss_of_numbers<Width> {
  static constexpr auto formula(auto x, auto target) { return mean(square(x - target)); }
};

/// The critic of Arjovsky et al., "Wasserstein GAN", 2017. Its gradients read neither x nor the
/// target.
template <std::size_t Width>
struct distance_of_means : loss_of_numbers<Width> {
  static constexpr auto formula(auto x, auto target) { return mean(x) - mean(target); }
};

/// The divergence from a distribution that the data set gives.
template <std::size_t Width>
struct distillation_loss : loss_of_numbers<Width> {
  static constexpr auto formula(auto x, auto target) {
    auto const wanted = softmax(target * 0.5_c);
    return log_sum_exp(x) - sum(wanted * x);
  }
};

/// A loss with logarithms of targets, which are NaN or infinite in rows that do not count.
template <std::size_t Width>
struct logarithmic_loss : loss_of_numbers<Width> {
  static constexpr auto formula(auto x, auto target) {
    return sum(square(x - log(square(target)))) / log(1_c + sum(square(target)));
  }
};

/// The negative log-likelihood of a normal distribution. The targets are a number and its weight.
struct weighted_normal_loss {
  using input = plait::inputs<plait::features<2>, plait::reals<2>>;
  using output = plait::loss_value;
  static constexpr auto formula(auto x, auto target) {
    auto const log_variance = part<1, 2>(x);
    auto const distance = part<0, 2>(x) - part<0, 2>(target);
    return part<1, 2>(target) * (log_variance + square(distance) * exp(-log_variance));
  }
};

/// Labels of several classes: each is a separate yes-no question.
template <std::size_t Classes>
struct several_questions {
  using input = plait::inputs<plait::features<Classes>, plait::integers<Classes>>;
  using output = plait::loss_value;
  static constexpr auto formula(auto x, auto label) {
    return sum(log(1_c + exp(x)) - x * number_of(label));
  }
};

/// A function that ignores missing targets, and a count that fits it.
struct squared_if_there {
  template <class T>
  PLAIT_HOST_DEVICE T operator()(T x, T target) const {
    if (target != target) return T(0);
    return (x - target) * (x - target);
  }
};
template <std::size_t Width>
struct loss_of_what_is_there : loss_of_numbers<Width> {
  static std::int64_t count(auto targets) {
    std::int64_t out = 0;
    for (auto const each : targets) out += std::isnan(each) ? 0 : 1;
    return out;
  }
  static constexpr auto formula(auto x, auto target) {
    return sum(map(squared_if_there{}, x, target));
  }
};

/// A loss with parameters: a product, a factor, and a learned row.
template <std::size_t Width, std::size_t Classes>
struct projected_loss {
  static constexpr weights<"head", Width, Classes> head{};
  static constexpr weights<"bias", Classes> bias{};
  static constexpr weights<"log_scale", 1> log_scale{};
  using input = plait::inputs<plait::features<Width>, plait::tokens>;
  using output = plait::loss_value;
  static constexpr auto formula(auto x, auto label) {
    return cross_entropy((matmul(x, head) + bias) * exp(log_scale), label);
  }
};

// ---- Terms in mid-model -------------------------------------------------------------------------

/// y = x, with a term that keeps the logits small.
template <std::size_t Width>
struct z_loss {
  using input = plait::features<Width>;
  static constexpr auto formula(auto x) { return with_loss(x, 1e-2_c * square(log_sum_exp(x))); }
};

/// The mean of a latent, and the divergence of its distribution from the standard normal one.
template <std::size_t Width, std::size_t Latent>
struct latent {
  static constexpr weights<"mean", Width, Latent> to_mean{};
  static constexpr weights<"log_variance", Width, Latent> to_log_variance{};
  static constexpr weights<"out", Latent, Width> out{};
  using input = plait::features<Width>;
  static constexpr auto formula(auto x) {
    auto const m = matmul(x, to_mean);
    auto const log_variance = matmul(x, to_log_variance);
    auto const divergence = 0.5_c * sum(square(m) + exp(log_variance) - log_variance - 1_c);
    return with_loss(matmul(tanh(m), out), divergence);
  }
};

/// A product whose columns ranks cannot cut, as a term also reads x.
template <std::size_t Width, std::size_t Hidden>
struct penalised_scale {
  static constexpr weights<"up", Width, Hidden> up{};
  static constexpr weights<"scale", 1> scale{};
  using input = plait::features<Width>;
  static constexpr auto formula(auto x) {
    return with_loss(matmul(x, up), square(mean(x)) * scale);
  }
};

/// A term of a parameter's row, which each rank has whole, and an output of which ranks have
/// blocks.
template <std::size_t Width, std::size_t Hidden>
struct cut_next_to_term {
  static constexpr weights<"up", Width, Hidden> up{};
  static constexpr weights<"scale", 1> scale{};
  using input = plait::inputs<plait::features<Width>, plait::features<Width>>;
  static constexpr auto formula(auto x, auto z) {
    return with_loss(matmul(x, up), square(mean(z)) * scale);
  }
};

}  // namespace formula_testing
