// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plait/backend/communicator.hpp"
#include "plait/backend/gloo/gloo_connections.hpp"
#include "plait/backend/gloo/gloo_listener.hpp"
#include "plait/backend/gloo/gloo_rendezvous.hpp"
#include "plait/backend/process/process_engine.hpp"
#include "plait/backend/process/rendezvous_store.hpp"
#include "plait/backend/process_ranks.hpp"
#include "plait/core/clock.hpp"
#include "plait/core/header_only.hpp"

namespace plait {

namespace detail {

/// The type of a removed option for Redis. A program that sets the option does not compile, and the
/// error text shows the replacements.
struct no_redis {
  constexpr no_redis() = default;
  template <class T>
  no_redis(T const&) {  // converts implicitly, because the option was a string
    static_assert(sizeof(T) == 0,
                  "gloo_options::redis: ranks can no longer meet in Redis; set .rendezvous to a "
                  "folder that all processes see, or let the ranks meet in etcd (plait::elastic), "
                  "or by MPI (plait::mpi())");
  }
};

}  // namespace detail

/// The options of `gloo`.
struct gloo_options {
  /// The path of a folder in which the ranks find each other. All processes must see it, and no
  /// other job may use it. If empty, the value of PLAIT_RENDEZVOUS, else a folder in the temporary
  /// folder if one launcher has started all processes on one machine. Rank 0 creates the folder,
  /// and removes it when all ranks are connected.
  std::filesystem::path rendezvous{};
  /// Removed; setting it is a compile error. "Where the ranks meet" in docs/processes.md shows the
  /// replacements.
  detail::no_redis redis{};
  /// The name of the network interface for the connections, such as eth0. If empty, the value of
  /// PLAIT_INTERFACE or GLOO_SOCKET_IFNAME, else the loopback if all ranks are on one host.
  std::string interface{};
};

namespace detail {

class gloo_engine final : public process_engine {
 public:
  explicit gloo_engine(gloo_options options) : options_(std::move(options)) {}

  process_ranks ranks(process_ranks const* told) override;

  void set_timeout(std::chrono::milliseconds timeout) override;

  std::unique_ptr<process_group> make_group(std::vector<int> const& members) override;
  /// A context of Gloo serves one thread, so the second thread of a rank has its own connections.
  std::unique_ptr<process_group> make_group_of_second_thread(std::vector<int> const& members,
                                                             call_pause&) override;
  [[nodiscard]] std::string why_one_thread() override { return ""; }

  void abandon() noexcept override {
    if (with_ != nullptr) with_->fail();
  }

  void begin_anew(process_ranks const& now, std::unique_ptr<rendezvous_store> where) override;
  void interrupt() noexcept override;

  void hold_timeouts(bool on) noexcept override;

 private:
  /// Connects each process with every other.
  void connect();
  static void connect_all(gloo_rendezvous& rendezvous, gloo_connections& with, int rank);
  void hold(std::shared_ptr<gloo_connections>& as, std::shared_ptr<gloo_connections> with);
  [[nodiscard]] std::vector<int> everybody() const;
  /// Makes the connections of the second thread. The ranks exchange the addresses over the
  /// connections of the first thread.
  void connect_second();

  [[nodiscard]] std::unique_ptr<rendezvous_store> store(process_ranks const& here) const;

  gloo_options options_;
  std::optional<process_ranks> here_;
  std::optional<std::string> secret_;
  std::atomic<std::chrono::milliseconds> timeout_{std::chrono::milliseconds{60'000}};
  // The connections of the rank's own thread, and of its second thread.
  std::shared_ptr<gloo_connections> with_, second_;
  std::unique_ptr<rendezvous_store> store_{};  // set by begin_anew
  std::atomic<bool> interrupted_{false};
  bool held_ = false;
  std::mutex mutex_;  // guards the members that interrupt() and hold_timeouts() use
  unsigned groups_ = 0;
};

}  // namespace detail

/// Makes the engine of processes that Gloo connects by TCP, for `processes{.engine =
/// plait::gloo()}`. It works with any launcher that sets the variables of process_ranks, and
/// without a launcher.
///
/// Cost:    one connection for each pair of processes, which all groups share; two if ranks have a
///          second thread.
/// Errors:  communication_timeout, with the awaited rank, for a call that waits longer than the
///          time-out; engine_error, at once, if another process fails or ends. After either, this
///          process closes all its connections, so that the other processes learn of the error.
/// Threads: Gloo runs a thread in each process; calling threads sleep while they wait.
/// Safety:  when a connection is opened, its two ends prove to each other that they know the secret
///          of the job. The secret is in a file that PLAIT_JOB_SECRET_FILE names; without the file,
///          rank 0 writes a random key to the rendezvous folder. A peer without the secret is
///          dropped. Later data is neither encrypted nor signed. See docs/processes.md.
[[nodiscard]] [[gnu::cold]] inline std::shared_ptr<ext::process_engine> gloo(
    gloo_options const& options = {}) {
  return std::make_shared<detail::gloo_engine>(options);
}

}  // namespace plait

#if PLAIT_HEADER_ONLY
#include "plait/backend/gloo/gloo.ipp"
#endif
