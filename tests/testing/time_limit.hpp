// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

namespace plait_test {

/// Ends the program with code 3 when a test takes longer than it may, and says which test it was.
/// Added to the listeners of GoogleTest.
class time_limit : public testing::EmptyTestEventListener {
 public:
  explicit time_limit(std::chrono::seconds each)
      : each_(each), watch_([this](std::stop_token stop) { watch(stop); }) {}

  void OnTestStart(testing::TestInfo const& test) override {
    std::scoped_lock const lock(mutex_);
    running_ = std::string(test.test_suite_name()) + "." + test.name();
    end_ = clock::now() + each_;
    changed_.notify_one();
  }
  void OnTestEnd(testing::TestInfo const&) override {
    std::scoped_lock const lock(mutex_);
    running_.clear();
  }

 private:
  using clock = std::chrono::steady_clock;

  void watch(std::stop_token const& stop) {
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      if (!running_.empty() && clock::now() >= end_) {
        std::fprintf(stderr, "%s has not ended in %d s\n", running_.c_str(),
                     static_cast<int>(each_.count()));
        std::fflush(nullptr);
        std::_Exit(3);
      }
      changed_.wait_for(lock, std::chrono::milliseconds(50));
    }
  }

  std::chrono::seconds each_;
  std::mutex mutex_{};
  std::condition_variable changed_{};
  std::string running_{};
  clock::time_point end_{};
  std::jthread watch_;
};

}  // namespace plait_test
