// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "plait/core/clock.hpp"
#include "plait/core/header_only.hpp"

namespace plait::detail {

/// Counts for how long a store has failed to answer, and decides when to report it. It is a value
/// that neither communicates nor has a clock.
///
/// A process that was stopped has asked nothing meanwhile. Between two failed calls at most
/// `longest_gap` therefore counts: after a stop of an hour, 5 s.
class store_silence {
 public:
  using time = std::chrono::milliseconds;  ///< since an arbitrary moment; never decreases
  static constexpr time said_after{1'500}, said_every{30'000}, longest_gap{5'000};

  /// `store` is the store's name in messages: "etcd at etcd://a:2379".
  explicit store_silence(std::string store) : store_(std::move(store)) {}

  /// Reports that a call that began at `began` has failed. `words`: the store's reason, or "".
  /// `answers`: the store answers other calls, so that only a call of this kind ends the silence.
  void failed(time began, time now, std::string words, bool answers);
  /// Reports an answer; `all`: also to a call of the kind that had failed.
  void answered(bool all);

  /// The length of the silence, 0 if the store answers.
  [[nodiscard]] time lasts() const { return lasts_; }
  [[nodiscard]] bool is_away() const { return lasts_ > time{0}; }
  /// True if the store answers no call at all.
  [[nodiscard]] bool is_silent() const { return is_away() && !answers_; }
  /// The time without all silences, for time-outs that stop while the store is away; never
  /// decreases.
  [[nodiscard]] time without(time now) {
    return counted_ = std::max(counted_, now - past_ - lasts_);
  }

  /// Returns the message that is due, or ""; `then` states what the caller does meanwhile:
  /// "training waits".
  [[nodiscard]] std::string says(std::string_view then);
  /// "etcd at etcd://a:2379 does not answer for 12 s"
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
