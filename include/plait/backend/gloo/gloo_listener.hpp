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

/// Formats the bytes of a socket's address as "10.0.0.2:4711" or "[::1]:4711".
[[nodiscard]] [[gnu::cold]] std::string socket_text(std::string_view address);

/// Connects the members of a mesh: listens on a port of this process until all members are
/// connected. Gloo's own listener would accept any peer as the member that it waits for. Here a
/// peer must pass gloo_challenge before its connection is used; other peers are dropped. They do
/// not delay the members, because all connections make progress at the same time.
///
/// Cost:    for each other member, one connection, one and a half round trips and four HMACs.
/// Threads: the thread of connect() only.
class gloo_listener {
 public:
  /// `where`: an address of this host; the system chooses the port.
  explicit gloo_listener(sockaddr_storage const& where, std::size_t bytes);

  /// The address of the port, which the other members need in order to connect.
  [[nodiscard]] std::string const& address() const { return address_; }

  /// The state of connect().
  struct progress {
    std::vector<int> missing;  ///< members that are not connected
    std::size_t dropped = 0;   ///< connections that did not pass the challenge

    /// Returns the text of an error, such as "rank 3 is not connected with 10.0.0.2:4711 (12 others
    /// have connected without the secret of this job)".
    [[nodiscard]] [[gnu::cold]] std::string text(std::string_view address) const;
  };

  /// Returns a connected socket for each member; the socket for this member itself is empty. `look`
  /// is called several times a second and throws to end the wait.
  ///
  /// Errors: engine_error with the member's rank if the member cannot be reached, or if another
  ///         program has answered at its address three times.
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
    int member = -1;  ///< the member to which this end connects, -1 if the peer connected
    bool is_open = false;
    std::string question{}, answer{}, read{};

    [[nodiscard]] std::size_t wanted() const;
    [[nodiscard]] short events() const { return is_open ? POLLIN : POLLOUT; }
  };
  /// The attempts of this end to connect to one member.
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

  /// Starts to connect to a member, unless it is connected or an attempt is running.
  void begin(gloo_challenge const& challenge, int member);
  void again(int member);
  void refused(gloo_challenge const& challenge, int member, int code);
  void wrong(gloo_challenge const& challenge, int member);
  static std::string place(gloo_challenge const& challenge, int member) {
    return socket_text(challenge.addresses()[static_cast<std::size_t>(member)]);
  }

  /// Waits for an event of a socket, at most until the next call of `look`.
  void wait(gloo_challenge const& challenge);
  /// Handles an event of `one`. Returns false if `one` can be removed: it has passed the challenge
  /// or was dropped.
  bool go_on(gloo_challenge const& challenge, link& one);
  /// Reads the expected message and no further: the bytes after it are for Gloo.
  outcome read(gloo_challenge const& challenge, link& one);
  outcome take(gloo_challenge const& challenge, link& one);
  /// Sends a message with one call of send(2), which does not block: the send buffer of a new
  /// connection is larger than all messages of the challenge. Returns false if it fails.
  static bool send(link const& one, std::string_view message);
  /// Accepts new connections. If too many have not passed the challenge, it drops the oldest of
  /// them; a member whose connection is dropped connects once more.
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
