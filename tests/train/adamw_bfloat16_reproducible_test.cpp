// SPDX-License-Identifier: Apache-2.0
// test: timeout=300 seconds=5
//
// AdamW with bfloat16 states under reproducible<Slices>: in float, parameters and states have the
// same bits under every plan, on threads and on simulated devices.
#include <gtest/gtest.h>

#include <cstddef>
#include <mutex>
#include <span>
#include <string>

#include "plait/backend/simulated/simulated.hpp"
#include "plait/plait.hpp"
#include "plait/train/adamw_bfloat16.hpp"
#include "train/whole_states.hpp"

namespace {

using namespace plait;
using namespace plait::ext;
using whole_states::states;

constexpr int slices = 4;
using net = objective<
    sequential<named<"in", nn::linear<5, 9>>, nn::gelu<9>, nn::dropout<9, 100>,
               named<"mid", nn::linear<9, 9>>, nn::relu<9>, named<"out", nn::linear<9, 1>>>,
    nn::mse<1>>;
template <class Element, class... Policies>
struct job : parallel<net, hybrid<Policies..., reproducible<slices>>, Element> {};
using mixed = precision<plait::bfloat16, float>;

struct samples {
  using concept_tag = dataset_tag;
  using element = double;
  using target = double;
  [[nodiscard]] std::size_t size() const { return 48; }
  [[nodiscard]] std::size_t sequence_length() const { return 1; }
  [[nodiscard]] std::size_t width() const { return 5; }
  void inputs(std::size_t sample, std::span<double> out) const {
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<double>((7 * sample + 5 * i) % 19) / 9 - 1;
  }
  void targets(std::size_t sample, std::span<double> out) const {
    out[0] = static_cast<double>(sample % 7) / 5;
  }
};

template <class Job>
states train(auto const& backend, int steps = 6) {
  states out;
  std::mutex lock;
  launch<Job>(backend, [&](auto& rank) {
    auto trainer =
        plait::trainer<Job>(rank, adamw_bfloat16{.learning_rate = 0.02}, {.seed = 3, .clip = 0.5});
    auto all = batches<typename Job::element>(samples{}, global_batch<24>{}, rank, {.epochs = 0});
    for (int i = 0; i < steps; ++i) trainer.step(all.at(std::uint64_t(i)));
    whole_states::save(*trainer.state(), out, lock);
  });
  return out;
}

template <class Element>
void expect_same_bits() {
  using any_ranks = data_parallel<at_launch>;
  auto const expected = train<job<Element, any_ranks>>(threads{.data_ranks = 1}).tensors;
  ASSERT_TRUE(expected.contains("mid.weight.exp_avg_sq"));
  auto const expect = [&](char const* plan, states const& got) {
    EXPECT_TRUE(got.tensors == expected) << plan;
  };
  expect("dp2", train<job<Element, any_ranks>>(threads{.data_ranks = 2}));
  expect("dp4", train<job<Element, any_ranks>>(threads{.data_ranks = 4}));
  expect("zero1", train<job<Element, data_parallel<2, zero<1>>>>(threads{}));
  expect("pp2", train<job<Element, pipeline<2>, any_ranks>>(threads{.data_ranks = 2}));
  for (std::uint64_t const seed : {1u, 2u, 3u})
    expect("simulated", train<job<Element, data_parallel<2, zero<1>>>>(simulated{.seed = seed}));
}

TEST(AdamwBfloat16Reproducible, HasTheSameBitsInFloat) { expect_same_bits<float>(); }
TEST(AdamwBfloat16Reproducible, HasTheSameBitsInMixedPrecision) { expect_same_bits<mixed>(); }

}  // namespace
