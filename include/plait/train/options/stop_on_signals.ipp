// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/train/options/stop_on_signals.hpp"

#include "plait/core/caught_signal.hpp"
#include "plait/core/concat.hpp"

namespace plait {

PLAIT_DECL stopped_by_signal::stopped_by_signal(int number, std::int64_t after)
    : job_ended(ext::concat({"stopped by ", detail::caught_signal::name(number),
                             after < 0 ? " before the first step" : " after step ",
                             after < 0 ? ext::text_part("") : ext::text_part(after)})),
      signal(number),
      step(after) {}

PLAIT_DECL stop_on_signals::stop_on_signals(early_warning also)
    : count_(also == early_warning::none ? 2 : 3) {
  if (exists().exchange(true))
    throw input_error(
        "stop_on_signals: the program already has one; make only one for the whole program");
  detail::caught_signal::number() = 0;
  is_asked() = false;
  for (std::size_t i = 0; i < count_; ++i) {
    struct sigaction action{};
    action.sa_handler = keep;
    sigemptyset(&action.sa_mask);
    action.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND);
    if (sigaction(signals[i], &action, &before_[i]) != 0) {
      restore(i);
      throw input_error(
          {"stop_on_signals: the handler of signal ", signals[i], " cannot be installed"});
    }
  }
}

PLAIT_DECL stop_on_signals::~stop_on_signals() {
  restore(count_);
  detail::caught_signal::number() = 0;
}

PLAIT_DECL int stop_on_signals::received() const {
  is_asked().store(true, std::memory_order_relaxed);
  return detail::caught_signal::number().load(std::memory_order_relaxed);
}

PLAIT_DECL std::atomic<bool>& stop_on_signals::is_asked() {
  static constinit std::atomic<bool> asked{false};
  static_assert(std::atomic<bool>::is_always_lock_free);
  return asked;
}

PLAIT_DECL std::atomic<bool>& stop_on_signals::exists() {
  static constinit std::atomic<bool> one{false};
  return one;
}

PLAIT_DECL void stop_on_signals::keep(int signal) {
  if (!is_asked().load(std::memory_order_relaxed) && !detail::caught_signal::may_end_waits()) {
    (void)std::raise(signal);  // the signal takes its default action when this handler has returned
    return;
  }
  int none = 0;
  detail::caught_signal::number().compare_exchange_strong(none, signal);
}

PLAIT_DECL void stop_on_signals::restore(std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) (void)sigaction(signals[i], &before_[i], nullptr);
  exists() = false;
}

}  // namespace plait
