// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <list>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "plait/backend/gloo/gloo_challenge.hpp"
#include "plait/core/clock.hpp"
#include "plait/core/file.hpp"
#include "plait/core/header_only.hpp"

namespace plait::detail {

/// "10.0.0.2:4711" or "[::1]:4711" for the bytes of a socket's address.
[[nodiscard]] [[gnu::cold]] std::string socket_text(std::string_view address);

/// The port at which other members of a mesh reach this one; it is closed when all are connected.
/// Gloo's own listener would take any peer that connects for the member that it waits for. Here a
/// peer must pass gloo_challenge before its connection is used. Other peers are dropped, and they
/// do not hold up members: all connections make progress at the same time.
///
/// Cost:    for each other member, a connection, one and a half round trips and four codes.
/// Threads: the thread of connect() only.
class gloo_listener {
 public:
  /// `where`: an address of this host; the system chooses the port.
  explicit gloo_listener(sockaddr_storage const& where, std::size_t bytes);

  /// The address that the other members are told.
  [[nodiscard]] std::string const& address() const { return address_; }

  /// The state of connect().
  struct progress {
    std::vector<int> missing;  ///< members that are not connected
    std::size_t dropped = 0;   ///< connections that did not pass the challenge

    /// "rank 3 has not connected to 10.0.0.2:4711 (12 others have, who do not know ...)"
    [[nodiscard]] [[gnu::cold]] std::string text(std::string_view address) const;
  };

  /// Returns a socket for each member; the own one is empty. `look` is called several times a
  /// second and throws to end the wait.
  ///
  /// Errors: engine_error with the member if it cannot be reached, or if another process has
  ///         answered at its address three times.
  [[nodiscard]] std::vector<file_descriptor> connect(
      gloo_challenge const& challenge, std::function<void(progress const&)> const& look);

 private:
  using clock = std::chrono::steady_clock;
  static constexpr int kind = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
  static constexpr std::chrono::milliseconds between_looks{20}, pause{50};
  static constexpr std::size_t most_strangers = 256;
  static constexpr int most_failures = 3;

  /// A connection that has not passed the challenge.
  struct link {
    file_descriptor socket;
    int member = -1;  ///< the member that this end has connected to, -1 if the peer connected
    bool is_open = false;
    std::string question{}, answer{}, read{};

    [[nodiscard]] std::size_t wanted() const;
    [[nodiscard]] short events() const { return is_open ? POLLIN : POLLOUT; }
  };
  /// Attempts of this end to reach a member.
  struct tries {
    bool runs = false;
    int refused = 0, wrong = 0;
    clock::time_point next{};
  };
  enum class outcome { waits, done, closed, wrong };

  static std::string words(int code) { return std::generic_category().message(code); }
  [[nodiscard]] bool is_missing(int member) const {
    return std::ranges::find(now_.missing, member) != now_.missing.end();
  }
  void is_done(int member, link& by);

  /// Begins a connection to a member, if there is none.
  void begin(gloo_challenge const& challenge, int member);
  void again(int member);
  void refused(gloo_challenge const& challenge, int member, int code);
  void wrong(gloo_challenge const& challenge, int member);
  static std::string place(gloo_challenge const& challenge, int member) {
    return socket_text(challenge.addresses()[static_cast<std::size_t>(member)]);
  }

  /// Waits for an event, or until the next call of `look`.
  void wait(gloo_challenge const& challenge);
  /// Handles an event of `one`; returns false if its connection is done or dropped.
  bool go_on(gloo_challenge const& challenge, link& one);
  /// Reads at most the rest of the expected message: later bytes belong to Gloo.
  outcome read(gloo_challenge const& challenge, link& one);
  outcome take(gloo_challenge const& challenge, link& one);
  /// Sends a message in one call: the buffer of a new connection has room for all of them.
  static bool send(link const& one, std::string_view message);
  /// Accepts connections. If too many wait, it drops the oldest; a member that is dropped connects
  /// again.
  void accept();

  int family_ = AF_UNSPEC;
  file_descriptor socket_;
  std::string address_;
  std::list<link> links_;
  std::vector<file_descriptor> done_;
  std::vector<tries> tries_;
  progress now_;
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/gloo/gloo_listener.ipp"
#endif
