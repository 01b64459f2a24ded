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

/// "10.0.0.2:4711" or "[::1]:4711", of the bytes of a socket's address.
[[nodiscard]] [[gnu::cold]] std::string socket_text(std::string_view address);

/// The port at which other members of a mesh reach this one, until all are connected: then it is
/// closed. A peer that connects is asked for the answer of gloo_challenge; only a connection that
/// has given it is handed out. Others are dropped, and who waits is not held up by them.
///
/// Cost:    a connection, one and a half round trips and four codes for each other member.
/// Threads: that of connect() alone.
class gloo_listener {
 public:
  /// `where`: an address of this host, at a port that the system chooses.
  explicit gloo_listener(sockaddr_storage const& where, std::size_t bytes);

  /// What the others are to be told.
  [[nodiscard]] std::string const& address() const { return address_; }

  /// What connect() still waits for.
  struct progress {
    std::vector<int> missing;  ///< members
    std::size_t dropped = 0;   ///< connections that have not given the answer

    /// "rank 3 has not connected to 10.0.0.2:4711 (12 others have, who do not know ...)"
    [[nodiscard]] [[gnu::cold]] std::string text(std::string_view address) const;
  };

  /// A socket for each member, that of this one empty. `look` is called some times a second and
  /// throws where the wait is to end.
  ///
  /// Errors: engine_error with the member if it cannot be reached, or if somebody else has answered
  ///         for it three times.
  [[nodiscard]] std::vector<file_descriptor> connect(
      gloo_challenge const& challenge, std::function<void(progress const&)> const& look);

 private:
  using clock = std::chrono::steady_clock;
  static constexpr int kind = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
  static constexpr std::chrono::milliseconds between_looks{20}, pause{50};
  static constexpr std::size_t most_strangers = 256;
  static constexpr int most_failures = 3;

  /// A connection whose ends do not know each other yet.
  struct link {
    file_descriptor socket;
    int member = -1;  ///< that this one has connected to
    bool is_open = false;
    std::string question{}, answer{}, read{};

    [[nodiscard]] std::size_t wanted() const;
    [[nodiscard]] short events() const { return is_open ? POLLIN : POLLOUT; }
  };
  /// Of this end to reach a member.
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

  /// A connection to a member, if there is none yet.
  void begin(gloo_challenge const& challenge, int member);
  void again(int member);
  void refused(gloo_challenge const& challenge, int member, int code);
  void wrong(gloo_challenge const& challenge, int member);
  static std::string place(gloo_challenge const& challenge, int member) {
    return socket_text(challenge.addresses()[static_cast<std::size_t>(member)]);
  }

  /// For what comes next, or for the next look.
  void wait(gloo_challenge const& challenge);
  /// False where the connection is no longer one that waits.
  bool go_on(gloo_challenge const& challenge, link& one);
  /// Never a byte more than the message that is to come: what is behind it is Gloo's.
  outcome read(gloo_challenge const& challenge, link& one);
  outcome take(gloo_challenge const& challenge, link& one);
  /// A new connection has room for each of the messages.
  static bool send(link const& one, std::string_view message);
  /// Of those that wait too many, the oldest goes; a member that it was comes again.
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
