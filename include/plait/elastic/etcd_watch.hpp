// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <curl/curl.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "plait/core/clock.hpp"
#include "plait/core/header_only.hpp"
#include "plait/elastic/etcd_access.hpp"
#include "plait/elastic/etcd_http.hpp"
#include "plait/elastic/etcd_text.hpp"

namespace plait::detail {

/// Watches keys of etcd and calls a function when they may have changed.
///
/// Errors:  input_error for invalid addresses; etcd_error if libcurl fails.
/// Threads: `changed` is called in the watch's own thread; it must neither throw nor destroy the
///          watch.
class etcd_watch {
 public:
  using milliseconds = std::chrono::milliseconds;

  /// Calls changed() after each change of a key that begins with `prefix`, and each time that a
  /// server has been reached, since changes before that may have been missed. The function
  /// changed() must read the keys itself. The watch reconnects until it is destroyed. A connection
  /// without data for `longest_silence` may be dead and is replaced.
  etcd_watch(std::shared_ptr<etcd_access> access, std::string const& prefix,
             std::function<void()> changed,
             milliseconds longest_silence = std::chrono::seconds(30));
  /// `at`: the servers, such as "etcd://host:port,host:port".
  etcd_watch(std::string_view at, std::string const& prefix, std::function<void()> changed,
             milliseconds longest_silence = std::chrono::seconds(30))
      : etcd_watch(std::make_shared<etcd_access>(at), prefix, std::move(changed), longest_silence) {
  }
  etcd_watch(etcd_watch const&) = delete;
  etcd_watch& operator=(etcd_watch const&) = delete;
  /// Ends the watch; changed() is not called after that.
  ~etcd_watch();

 private:
  using clock = std::chrono::steady_clock;

  void run();
  /// Watches until the connection breaks; returns true if there was a connection.
  bool watch(etcd_server const& server);
  /// Returns true if this process has a token or needs none. If it can get no token, the next call
  /// of etcd reports the reason.
  bool sign_in(etcd_server const& server);
  /// Handles lines of the answer; returns true if all of them are messages of a watch.
  bool heard(std::string_view lines, bool& reached);
  /// Waits for data, for the end of the watch, or until about `end`.
  void wait(clock::time_point end);

  struct ends {
    void operator()(CURLM* multi) const { curl_multi_cleanup(multi); }
  };
  static constexpr milliseconds shortest_pause{200};

  std::shared_ptr<etcd_access> const access_;
  std::string const body_;
  std::function<void()> const changed_;
  milliseconds const longest_silence_;
  etcd_http http_{access_};
  std::unique_ptr<CURLM, ends> multi_;
  std::atomic<bool> stopping_ = false;
  std::thread thread_{};
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/elastic/etcd_watch.ipp"
#endif
