// SPDX-License-Identifier: Apache-2.0
// An embedding and a head that are one parameter: one value, and a gradient from each use.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "plait/plait.hpp"

namespace {

using namespace plait;
using namespace plait::ext;

constexpr std::size_t vocabulary = 8, width = 4, length = 4, samples = 4;

using free_head =
    nn::linear<width, vocabulary, {.bias = false, .order = nn::weight_order::output_input}>;
using lookup = nn::embedding<vocabulary, width, normal(0.5)>;
using tied_head = tied<free_head, free_head::weight, "wte.weight">;
template <class Lookup, class Head>
using model_with = objective<
    sequential<named<"wte", Lookup>, named<"wpe", nn::positions<length, width, normal(0.5)>>,
               named<"head", Head>>,
    nn::cross_entropy<vocabulary>>;

template <class Policy>
struct job : parallel<model_with<lookup, tied_head>, Policy, double> {};
struct untied : parallel<model_with<lookup, free_head>, serial, double> {};
// On a tensor axis both uses must cut the table alike: here by vocabulary.
template <class Policy>
struct cut_job : parallel<model_with<use_form<"vocabulary", lookup>, use_form<"column", tied_head>>,
                          Policy, double> {};

// One use computes equal values on all ranks, the other computes on each rank's positions. The
// gradient of the second is summed over the ranks before it is added, or only one rank adds the
// first.
template <class Policy>
struct whole_owner
    : parallel<model_with<use_form<"whole", lookup>, use_form<"sequence", tied_head>>, Policy,
               double> {};
template <class Policy>
struct whole_use : parallel<model_with<use_form<"sequence", lookup>, use_form<"whole", tied_head>>,
                            Policy, double> {};

std::int32_t token(std::size_t sample, std::size_t position) {
  return static_cast<std::int32_t>((3 * sample + position * position + 1) % vocabulary);
}

using tensors = std::map<std::string, std::vector<double>>;

/// Returns loss and gradients at `weights`, or at the initial weights, which are then written to
/// it.
template <class Job>
double gradients_at(tensors& weights, tensors& gradients) {
  double loss = 0;
  launch<Job>(threads{}, [&](auto& rank) {
    auto const ranks = static_cast<std::size_t>(rank.grid().size(axis::data));
    std::size_t const here = samples / ranks,
                      first = here * std::size_t(rank.coordinates().along(axis::data));
    std::vector<std::int32_t> tokens(here * length), labels(here * length);
    for (std::size_t p = 0; p < length; ++p)
      for (std::size_t s = 0; s < here; ++s) {
        tokens[p * here + s] = token(first + s, p);
        labels[p * here + s] = token(first + s, p + 1);
      }
    device_batch<host_memory> batch;
    batch.samples = here;
    batch.sequence = length;
    batch.first_sample = first;
    batch.inputs = reinterpret_cast<std::byte*>(tokens.data());
    batch.targets = reinterpret_cast<std::byte*>(labels.data());
    batch.input = {value_kind::tokens, 1};
    batch.host_targets = labels.data();
    auto trainer = plait::trainer<Job>(rank, sgd{}, {.seed = 3});
    auto const into = [](tensors& out) {
      return [&out](std::string const& name, parameter_info const&, std::span<double const> from) {
        out[name].assign(from.begin(), from.end());
      };
    };
    if (weights.empty()) {
      rank.world().barrier();  // every rank has seen that the weights are empty
      trainer.export_parameters(into(weights));
    } else {
      trainer.import_parameters(
          [&](std::string const& name, parameter_info const&, std::span<double> to) {
            auto const& from = weights.at(name);
            std::copy(from.begin(), from.end(), to.begin());
          });
    }
    double const here_loss = trainer.gradients_of(batch).loss;
    trainer.export_gradients(into(gradients));
    if (rank.is_root()) loss = here_loss;
  });
  return loss;
}

TEST(Tied, HasOneParameterForBothUses) {
  tensors weights, gradients;
  gradients_at<job<serial>>(weights, gradients);
  ASSERT_EQ(weights.size(), 2u);
  EXPECT_EQ(weights.count("wte.weight"), 1u);
  EXPECT_EQ(weights.count("wpe.weight"), 1u);
  EXPECT_EQ(job<serial>::plan_type::parameter_count(), (vocabulary + length) * width);
}

TEST(Tied, GradientIsThatOfFiniteDifferences) {
  tensors weights, gradients;
  gradients_at<job<serial>>(weights, gradients);
  double const step = 1e-5;
  for (auto const& [name, gradient] : gradients)
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      tensors moved = weights, unused;
      moved[name][i] += step;
      double const above = gradients_at<job<serial>>(moved, unused);
      moved[name][i] -= 2 * step;
      double const below = gradients_at<job<serial>>(moved, unused);
      ASSERT_NEAR(gradient[i], (above - below) / (2 * step), 1e-9) << name << " " << i;
    }
}

TEST(Tied, GradientIsTheSumOfBothUses) {
  tensors weights, gradients, of_each;
  gradients_at<job<serial>>(weights, gradients);
  tensors copied = weights;
  copied["head.weight"] = weights["wte.weight"];
  gradients_at<untied>(copied, of_each);
  for (std::size_t i = 0; i < vocabulary * width; ++i) {
    EXPECT_NEAR(gradients["wte.weight"][i], of_each["wte.weight"][i] + of_each["head.weight"][i],
                1e-14);
    EXPECT_NE(of_each["wte.weight"][i] + of_each["head.weight"][i], of_each["wte.weight"][i]);
  }
}

TEST(Tied, PlansAgree) {
  tensors weights, expected;
  double const loss = gradients_at<job<serial>>(weights, expected);
  auto const check = [&](double other_loss, tensors const& got) {
    EXPECT_NEAR(other_loss, loss, 1e-14);
    ASSERT_EQ(got.size(), expected.size());
    for (auto const& [name, values] : expected)
      for (std::size_t i = 0; i < values.size(); ++i)
        EXPECT_NEAR(got.at(name)[i], values[i], 1e-14) << name << " " << i;
  };
  tensors by_data, by_tensor, by_both;
  check(gradients_at<job<data_parallel<2>>>(weights, by_data), by_data);
  check(gradients_at<cut_job<tensor_parallel<2>>>(weights, by_tensor), by_tensor);
  check(gradients_at<cut_job<hybrid<data_parallel<2>, tensor_parallel<2>>>>(weights, by_both),
        by_both);
  using by_positions = tensor_parallel<2, sequence::sharded>;
  tensors owner, use, with_data;
  check(gradients_at<whole_owner<by_positions>>(weights, owner), owner);
  check(gradients_at<whole_use<by_positions>>(weights, use), use);
  check(gradients_at<whole_owner<hybrid<data_parallel<2>, by_positions>>>(weights, with_data),
        with_data);
}

}  // namespace
