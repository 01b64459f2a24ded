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
  std::int64_t created = 0, modified = 0;  ///< revisions
  std::int64_t lease = 0;                  ///< 0: none
};
struct etcd_view {
  std::int64_t revision = 0;
  std::uint64_t cluster = 0;
  std::vector<etcd_entry> entries{};
};
/// That a number of a key is `value`; created == 0: the key is not there.
struct etcd_condition {
  std::string key;
  enum class of { created, modified, lease } what;
  std::int64_t value;
};
struct etcd_change {
  std::string key;
  std::optional<std::string> value{};  ///< none: the key is deleted
  std::int64_t lease = 0;
  bool is_prefix = false;  ///< all keys that begin so are deleted
};

/// An etcd, through its gateway for JSON. Calls go to the server that answered last, then to the
/// others in turn.
///
/// Cost:    each call sends one request on a connection that is kept.
/// Errors:  input_error for addresses that cannot be; etcd_error; of that etcd_refusal where this
///          process is not let in, or does not know the server.
/// Threads: used by one thread.
class etcd {
 public:
  using json = nlohmann::json;
  using clock = std::chrono::steady_clock;

  /// A call takes `timeout` at most, over all servers.
  etcd(std::shared_ptr<etcd_access> access, std::chrono::milliseconds timeout)
      : access_(std::move(access)),
        timeout_(std::clamp<std::chrono::milliseconds>(timeout, std::chrono::milliseconds(1),
                                                       std::chrono::hours(24))) {}
  /// `at`: "etcd://host:port,host:port".
  etcd(std::string_view at, std::chrono::milliseconds timeout)
      : etcd(std::make_shared<etcd_access>(at), timeout) {}

  /// All keys that begin with `prefix`, sorted, as they are after every change made before.
  etcd_view read(std::string const& prefix);
  /// A new lease, which ends `ttl` after it was last kept alive; etcd makes short ones longer.
  std::int64_t grant(std::chrono::seconds ttl);
  /// What is left of it now; 0: there is no such lease any more.
  std::chrono::seconds keep_alive(std::int64_t lease);
  /// Ends a lease and deletes its keys; one that is gone is no error.
  void revoke(std::int64_t lease);

  struct outcome {
    bool done;
    std::int64_t revision;
  };
  /// Makes all changes at once if all conditions hold, else none. When the answer is lost, the
  /// change may have been made all the same: it is not sent again, and the error says so.
  outcome change(std::vector<etcd_condition> const& if_all, std::vector<etcd_change> const& then);

 private:
  /// What has come of a request.
  struct reply {
    int status = 0;           ///< 0: no answer
    std::string problem{};    ///< why it is no good one
    bool is_refusal = false;  ///< of this process by etcd, or the other way
    bool was_sent = false;    ///< the request, not only the question for a token
  };

  /// The answer, an object; an empty one if it has the status `no_error`.
  json ask(std::string const& call, json const& body, bool again, int no_error = 0);
  /// Sends it with a token where there is a user, and once more with a new one where etcd does not
  /// take the old one.
  reply send(etcd_server const& server, std::string const& call, std::string const& request,
             bool again, clock::time_point end);
  /// Gets a token; nothing is wrong if there is one now.
  reply sign_in(etcd_server const& server, etcd_http::terms const& with);
  [[nodiscard]] std::string why_refused(std::string_view said) const;
  [[nodiscard]] json parsed(std::string const& text) const;
  [[noreturn]] void refuse(std::string const& what, bool is_refusal = false,
                           std::string const& words = {}) const;
  // etcd leaves out what is 0 or empty.
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
      refuse(concat({"'", name, "' is no number: ", in_quotes(digits)}));
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
