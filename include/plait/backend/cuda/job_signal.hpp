// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <exception>
#include <mutex>
#include <string>

#include "plait/backend/host/run_ranks.hpp"
#include "plait/core/error.hpp"

namespace plait::detail {

// The first failure among the ranks of one process. The other ranks check it whenever they wait.
class job_signal {
 public:
  // Records a failure; called in a catch clause of the thread of the rank that fails.
  void raise(std::exception_ptr const& failure, int rank) {
    std::scoped_lock const lock{mutex_};
    if (failure_) return;
    failure_ = failure;
    rank_ = rank;
    text_ = failure_text(failure, rank);
    raised_.store(true);
  }

  [[nodiscard]] bool is_raised() const noexcept { return raised_.load(std::memory_order_acquire); }
  [[nodiscard]] std::string text() const {
    std::scoped_lock const lock{mutex_};
    return text_;
  }

  // Throws the failure, if any; called after all ranks have ended.
  void rethrow() const {
    if (failure_) rethrow_with_rank(failure_, rank_);
  }

 private:
  mutable std::mutex mutex_;
  std::atomic<bool> raised_ = false;
  std::exception_ptr failure_;
  int rank_ = -1;
  std::string text_;
};

}  // namespace plait::detail
