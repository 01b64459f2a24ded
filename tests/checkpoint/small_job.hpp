// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "plait/plait.hpp"
#include "train/small_gpt.hpp"

namespace plait_test {

/// A model of six parameters, small enough that tests of checkpoints train it many times.
using small_model = plait::objective<
    plait::sequential<plait::named<"wte", plait::nn::embedding<small_gpt::vocabulary, 16>>,
                      plait::named<"wpe", plait::nn::positions<small_gpt::length, 16>>,
                      plait::named<"ln_f", plait::nn::layer_norm<16>>,
                      plait::named<"lm_head", plait::nn::linear<16, small_gpt::vocabulary>>>,
    plait::nn::cross_entropy<small_gpt::vocabulary>>;
template <class Policy>
struct small_job : plait::parallel<small_model, Policy, double> {};

/// The path of a folder of a test, which does not exist at the beginning and is removed at the end.
struct test_folder {
  explicit test_folder(std::string const& name)
      : path(std::filesystem::path(::testing::TempDir()) / ("plait_" + name)) {
    std::filesystem::remove_all(path);
  }
  test_folder(test_folder const&) = delete;
  test_folder& operator=(test_folder const&) = delete;
  ~test_folder() { std::filesystem::remove_all(path); }

  std::filesystem::path path;
};

}  // namespace plait_test
