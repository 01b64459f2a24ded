// SPDX-License-Identifier: Apache-2.0
#include "plait/plan/memory/storage.hpp"

#include <gtest/gtest.h>

#include <concepts>
#include <cstddef>

#include "plan/symbolic_run.hpp"

namespace {

using namespace plait;
using namespace plait::ext;
using namespace plait::planning;
using namespace plait::planning::shared_models;

// Every model has a layer that declares the length of sequences.
template <class Model>
struct with_length {
  using type = sequential<nn::positions<length, width>, Model>;
};
template <class Model, class Loss>
struct with_length<objective<Model, Loss>> {
  using type = objective<typename with_length<Model>::type, Loss>;
};
template <class Model>
  requires std::derived_from<typename Model::input, tokens>
struct with_length<Model> {
  using type = Model;  // these models have positions already
};

template <class Model>
struct StorageOnSequenceShards : ::testing::Test {
  template <int Ranks>
  using sharded =
      plan<typename with_length<Model>::type, tensor_parallel<Ranks, sequence::sharded>>;
};
TYPED_TEST_SUITE(StorageOnSequenceShards, Models);

TYPED_TEST(StorageOnSequenceShards, EveryStepReadsWhatWasWrittenOnTwoRanks) {
  expect_sound<typename TestFixture::template sharded<2>>();
}
TYPED_TEST(StorageOnSequenceShards, EveryStepReadsWhatWasWrittenOnFourRanks) {
  expect_sound<typename TestFixture::template sharded<4>>();
}
TYPED_TEST(StorageOnSequenceShards, WhatIsMadeAgainIsThereForEveryBackward) {
  expect_sound_recompute<typename TestFixture::template sharded<2>>();
  expect_sound_recompute<typename TestFixture::template sharded<4>>();
}

}  // namespace
