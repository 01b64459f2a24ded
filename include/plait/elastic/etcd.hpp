// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "plait/core/clock.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/quote.hpp"
#include "plait/elastic/etcd_access.hpp"
#include "plait/elastic/etcd_http.hpp"
#include "plait/elastic/etcd_text.hpp"

namespace plait::detail {

struct etcd_entry {
  std::string key{}, value{};
  /// The revisions at which the key was created and last modified.
  std::int64_t created = 0, modified = 0;
  std::int64_t lease = 0;  ///< the lease to which the key is attached; 0 if none
};
struct etcd_view {
  std::int64_t revision = 0;
  std::uint64_t cluster = 0;
  std::vector<etcd_entry> entries{};
};
/// A condition on a key: the property of the key that `what` names equals `value`. The condition
/// created == 0 means that the key does not exist.
struct etcd_condition {
  std::string key;
  enum class of { created, modified, lease } what;
  std::int64_t value;
};
struct etcd_change {
  std::string key;
  std::optional<std::string> value{};  ///< nullopt deletes the key
  std::int64_t lease = 0;
  bool is_prefix = false;  ///< true deletes all keys that begin with `key`
};

/// A client of etcd, which calls etcd's JSON gateway. A call is sent to the server that answered
/// last and, if that server fails, to the other servers in turn.
///
/// Cost:    one HTTP request on a persistent connection.
/// Errors:  input_error for invalid addresses; etcd_error; etcd_refusal if etcd refuses this
///          process, or this process does not trust the server.
/// Threads: used by one thread.
class etcd {
 public:
  using json = nlohmann::json;
  using clock = std::chrono::steady_clock;

  /// Makes a client; `timeout` is the longest time of a call, including attempts at all servers.
  etcd(std::shared_ptr<etcd_access> access, std::chrono::milliseconds timeout)
      : access_(std::move(access)),
        timeout_(std::clamp<std::chrono::milliseconds>(timeout, std::chrono::milliseconds(1),
                                                       std::chrono::hours(24))) {}
  /// Makes a client of the servers in `at`, such as "etcd://host:port,host:port".
  etcd(std::string_view at, std::chrono::milliseconds timeout)
      : etcd(std::make_shared<etcd_access>(at), timeout) {}

  /// Returns all keys that begin with `prefix`, sorted. The result includes every change that was
  /// made before the call.
  etcd_view read(std::string const& prefix);
  /// Makes a lease and returns its number. The lease expires `ttl` after it was last renewed; etcd
  /// lengthens a `ttl` that is too short.
  std::int64_t grant(std::chrono::seconds ttl);
  /// Renews a lease and returns its remaining time; 0 if it no longer exists.
  std::chrono::seconds keep_alive(std::int64_t lease);
  /// Ends a lease and deletes its keys. A lease that no longer exists is not an error.
  void revoke(std::int64_t lease);

  struct outcome {
    bool done;
    std::int64_t revision;
  };
  /// Makes all changes in one transaction if all conditions hold, else none. If the answer is lost,
  /// the changes may have been made; the request is therefore not repeated, and the error says so.
  outcome change(std::vector<etcd_condition> const& if_all, std::vector<etcd_change> const& then);

 private:
  /// The result of a request.
  struct reply {
    int status = 0;           ///< the HTTP status; 0 if there was no answer
    std::string problem{};    ///< the reason, if the request failed
    bool is_refusal = false;  ///< etcd refused this process, or this process refused etcd
    bool was_sent = false;    ///< the request itself was sent, not only the request for a token
  };

  /// Calls etcd and returns the answer, a JSON object. If the HTTP status of the answer is
  /// `no_error`, returns an empty object.
  json ask(std::string const& call, json const& body, bool again, int no_error = 0);
  /// Sends a request to a server, with a token if there is a user. If etcd refuses an expired
  /// token, the request is sent a second time with a new token.
  reply send(etcd_server const& server, std::string const& call, std::string const& request,
             bool again, clock::time_point end);
  /// Gets a token from a server; the returned status is 200 if the process then has a token.
  reply sign_in(etcd_server const& server, etcd_http::terms const& with);
  [[nodiscard]] std::string why_refused(std::string_view said) const;
  [[nodiscard]] json parsed(std::string const& text) const;
  [[noreturn]] void refuse(std::string const& what, bool is_refusal = false,
                           std::string const& words = {}) const;
  // These functions read members of an answer. A missing member is 0 or empty, because etcd leaves
  // out such values.
  [[nodiscard]] json const& object(json const& in, char const* name) const;
  [[nodiscard]] std::string_view text(json const& in, char const* name,
                                      std::string_view none) const;
  [[nodiscard]] std::string bytes(json const& in, char const* name) const;
  template <class Number = std::int64_t>
  [[nodiscard]] Number number(json const& in, char const* name) const {
    auto const digits = text(in, name, "0");
    Number out = 0;
    auto const* const end = digits.data() + digits.size();
    if (auto const [stop, problem] = std::from_chars(digits.data(), end, out);
        stop != end || problem != std::errc())
      refuse(concat({"'", name, "' is not a number: ", in_quotes(digits)}));
    return out;
  }
  [[nodiscard]] std::int64_t revision_of(json const& answer) const {
    return number(object(answer, "header"), "revision");
  }

  static constexpr std::chrono::milliseconds shortest{2};

  std::shared_ptr<etcd_access> access_;
  etcd_http http_{access_};
  std::size_t now_ = 0;
  std::string call_{};
  std::chrono::milliseconds timeout_;
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/elastic/etcd.ipp"
#endif
