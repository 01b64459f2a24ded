// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "plait/core/clock.hpp"
#include "plait/core/header_only.hpp"

namespace plait::detail {

/// For how long a store has not done what it is asked, and what is said of that, when. A value: it
/// neither talks nor has a clock.
///
/// A process that was stopped has asked nothing meanwhile; between two calls that fail at most
/// `longest_gap` counts.
class store_silence {
 public:
  using time = std::chrono::milliseconds;  ///< since any moment, going forward
  static constexpr time said_after{1'500}, said_every{30'000}, longest_gap{5'000};

  /// `store` is what sentences call it: "etcd at etcd://a:2379".
  explicit store_silence(std::string store) : store_(std::move(store)) {}

  /// A call that was begun then has failed by now. `words`: what the store says of it, "" if that
  /// is nothing. `answers`: others are answered, so that only a call of this kind ends it.
  void failed(time began, time now, std::string words, bool answers);
  /// A call was answered; `all`: also those of which it has not answered some.
  void answered(bool all);

  /// 0 if it does what it is asked.
  [[nodiscard]] time lasts() const { return lasts_; }
  [[nodiscard]] bool is_away() const { return lasts_ > time{0}; }
  /// It answers to nothing.
  [[nodiscard]] bool is_silent() const { return is_away() && !answers_; }
  /// The time of those who do not count what they are without the store; goes forward.
  [[nodiscard]] time without(time now) {
    return counted_ = std::max(counted_, now - past_ - lasts_);
  }

  /// What is to be said now, "" for nothing; `then` says what becomes of the caller: "training
  /// waits".
  [[nodiscard]] std::string says(std::string_view then);
  /// "etcd at etcd://a:2379 does not answer for 12 s"
  [[nodiscard]] std::string text() const;

 private:
  static std::string seconds(time of);

  std::string store_;
  time lasts_{0}, past_{0}, last_{0}, counted_{time::min()};
  time next_ = said_after;  // of lasts_, when there is something to be said
  bool answers_ = false;
  std::string words_{}, back_{};
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/elastic/store_silence.ipp"
#endif
