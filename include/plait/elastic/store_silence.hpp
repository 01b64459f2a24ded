// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "plait/core/clock.hpp"
#include "plait/core/header_only.hpp"

namespace plait::detail {

/// Measures for how long a store has not answered, and decides when to report it. The object
/// neither communicates nor has a clock.
///
/// A process that was suspended has not called the store meanwhile. The time between two failed
/// calls is therefore counted as at most `longest_gap`. For example, a suspension of an hour counts
/// as 5 s.
class store_silence {
 public:
  using time = std::chrono::milliseconds;  ///< time since an arbitrary moment; never decreases
  static constexpr time said_after{1'500}, said_every{30'000}, longest_gap{5'000};

  /// `store` is the store's name in messages, such as "etcd at etcd://a:2379".
  explicit store_silence(std::string store) : store_(std::move(store)) {}

  /// Records that a call that began at `began` has failed. `words`: the store's reason, or "".
  /// `answers`: true if the store answers other calls, so that only an answer to a call of this
  /// kind ends the silence.
  void failed(time began, time now, std::string words, bool answers);
  /// Records that the store has answered; `all`: the answer was to a call of the kind that had
  /// failed.
  void answered(bool all);

  /// The length of the silence; 0 if the store answers.
  [[nodiscard]] time lasts() const { return lasts_; }
  [[nodiscard]] bool is_away() const { return lasts_ > time{0}; }
  /// True if the store answers no call at all.
  [[nodiscard]] bool is_silent() const { return is_away() && !answers_; }
  /// Returns the time minus the lengths of all silences, for time-outs that stop while the store
  /// does not answer. The result never decreases.
  [[nodiscard]] time without(time now) {
    return counted_ = std::max(counted_, now - past_ - lasts_);
  }

  /// Returns a message if one is due, else "". `then` states what the caller does meanwhile, such
  /// as "training waits".
  [[nodiscard]] std::string says(std::string_view then);
  /// Returns a text such as "etcd at etcd://a:2379 does not answer for 12 s".
  [[nodiscard]] std::string text() const;

 private:
  static std::string seconds(time of);

  std::string store_;
  time lasts_{0}, past_{0}, last_{0}, counted_{time::min()};
  time next_ = said_after;  // the length of silence at which the next message is due
  bool answers_ = false;
  std::string words_{}, back_{};
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/elastic/store_silence.ipp"
#endif
