// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plait/backend/communicator.hpp"
#include "plait/backend/gloo/gloo_connections.hpp"
#include "plait/backend/gloo/gloo_device.hpp"
#include "plait/backend/gloo/gloo_group.hpp"
#include "plait/backend/gloo/gloo_listener.hpp"
#include "plait/backend/gloo/gloo_redis.hpp"
#include "plait/backend/gloo/gloo_rendezvous.hpp"
#include "plait/backend/gloo/gloo_store.hpp"
#include "plait/backend/process/job_secret.hpp"
#include "plait/backend/process/process_engine.hpp"
#include "plait/backend/process/rendezvous_store.hpp"
#include "plait/backend/process/store_place.hpp"
#include "plait/backend/process_ranks.hpp"
#include "plait/core/clock.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"

namespace plait {

/// The options of `gloo`.
struct gloo_options {
  /// A path of a folder that all processes see and no other job uses; if empty, that in
  /// PLAIT_RENDEZVOUS, else one in the temporary folder where a launcher has started all processes
  /// on one machine. Rank 0 makes the folder, and removes it when all are connected.
  std::filesystem::path rendezvous{};
  /// "host:port" of a Redis server, or "rediss://user@host:port" by TLS, with the files that
  /// PLAIT_REDIS_CA, PLAIT_REDIS_CERT, PLAIT_REDIS_KEY and PLAIT_REDIS_PASSWORD_FILE name; where it
  /// is given the processes meet there and not by a folder.
  /// Jobs are told apart by what their launcher calls them, see process_ranks.
  std::string redis{};
  /// The network interface that connections go over; if empty, that in PLAIT_INTERFACE or
  /// GLOO_SOCKET_IFNAME, else the loopback if all ranks are on one host.
  std::string interface{};
};

namespace detail {

class gloo_engine final : public process_engine {
 public:
  explicit gloo_engine(gloo_options options) : options_(std::move(options)) {}

  process_ranks ranks(process_ranks const* told) override {
    if (told != nullptr) here_ = *told;
    if (!here_) here_ = read_process_ranks();
    auto const [rank, size] = std::pair{here_->rank, here_->world_size};
    if (rank < 0 || rank >= size)
      throw input_error({"processes: .ranks has the rank ", rank, " of ", size,
                         " processes; it must be from 0 and below"});
    return *here_;
  }

  void set_timeout(std::chrono::milliseconds timeout) override {
    timeout_ = timeout;
    for (auto* const each : {with_.get(), second_.get()}) {
      if (each == nullptr) continue;
      each->timeout = timeout;
      each->watch->forget_waits();
    }
  }

  std::unique_ptr<process_group> make_group(std::vector<int> const& members) override {
    if (with_ == nullptr) connect();
    return std::make_unique<gloo_group>(with_, members, groups_++);
  }
  /// A context of Gloo's is for one thread: the second one has connections of its own.
  std::unique_ptr<process_group> make_group_of_second_thread(std::vector<int> const& members,
                                                             call_pause&) override {
    if (with_ == nullptr) connect();
    if (second_ == nullptr) connect_second();
    return std::make_unique<gloo_group>(second_, members, groups_++);
  }
  [[nodiscard]] std::string why_one_thread() override { return ""; }

  void abandon() noexcept override {
    if (with_ != nullptr) with_->fail();
  }

  void begin_anew(process_ranks const& now, std::unique_ptr<rendezvous_store> where) override {
    abandon();
    std::scoped_lock const lock{mutex_};
    with_.reset();
    second_.reset();
    groups_ = 0;
    here_ = now;
    store_ = std::move(where);
    interrupted_ = false;
  }
  void interrupt() noexcept override {
    std::scoped_lock const lock{mutex_};
    interrupted_ = true;
    for (auto const* const each : {with_.get(), second_.get()})
      if (each != nullptr) each->watch->interrupt();
  }

  void hold_timeouts(bool on) noexcept override {
    std::scoped_lock const lock{mutex_};
    held_ = on;
    for (auto const* const each : {with_.get(), second_.get()})
      if (each != nullptr) each->watch->hold(on);
  }

 private:
  /// All processes with each other.
  void connect() {
    auto const here = ranks(nullptr);
    if (!secret_) secret_ = read_job_secret();  // once: an elastic job meets again and again
    gloo_rendezvous rendezvous(store_ != nullptr ? std::move(store_) : store(here), here, timeout_,
                               interrupted_, *secret_);
    try {
      auto const marks = rendezvous.meet();
      auto with = std::make_shared<gloo_connections>(
          gloo_device(options_.interface, marks, here.rank), rendezvous.identity(), here.rank,
          here.world_size, timeout_, rendezvous.left());
      connect_all(rendezvous, *with, here.rank);
      hold(with_, std::move(with));
      gloo_group(with_, everybody(), groups_++).barrier();
      rendezvous.end();
    } catch (error const& problem) {
      abandon();
      rendezvous.fail(problem.what());
      throw;
    } catch (std::exception const& problem) {  // of Gloo, where it opens its ends
      auto const text =
          concat({"gloo: rank ", here.rank, " cannot open its connections: ", gloo_words(problem)});
      rendezvous.fail(text);
      throw engine_error(text);
    }
  }
  static void connect_all(gloo_rendezvous& rendezvous, gloo_connections& with, int rank) {
    auto addresses = rendezvous.show("at", with.world->address());
    try {
      with.world->connect(with.identity, std::move(addresses), [&](auto const& now) {
        rendezvous.look(now.missing, now.text(with.world->address()));
      });
    } catch (engine_error const& problem) {
      if (problem.rank < 0) throw;
      throw engine_error(concat(
          {"gloo: rank ", rank, " cannot connect to rank ", problem.rank, ": ", problem.what()}));
    }
  }
  void hold(std::shared_ptr<gloo_connections>& as, std::shared_ptr<gloo_connections> with) {
    std::scoped_lock const lock{mutex_};
    if (interrupted_)
      throw engine_error("gloo: the start was ended, as the ranks of the job change");
    with->watch->hold(held_);
    as = std::move(with);
  }
  [[nodiscard]] std::vector<int> everybody() const {
    std::vector<int> all(static_cast<std::size_t>(with_->world->size));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  /// The second thread's, which find each other by the first's.
  void connect_second() {
    auto watch = std::make_shared<gloo_watch>();
    auto world = gloo_group(with_, everybody(), groups_++).connect_anew("second thread", watch);
    hold(second_, std::make_shared<gloo_connections>(*with_, std::move(watch), std::move(world)));
    second_->beside = with_;
    with_->beside = second_;
  }

  [[nodiscard]] std::unique_ptr<rendezvous_store> store(process_ranks const& here) const {
    if (!options_.redis.empty())
      return std::make_unique<gloo_redis>(options_.redis, here.job, timeout_);
    auto const place = find_store_place(here, options_.rendezvous, "gloo", "folder",
                                        ".redis to host:port of a server of Redis");
    return std::make_unique<gloo_folder>(place.path, place.is_of_one_start);
  }

  gloo_options options_;
  std::optional<process_ranks> here_;
  std::optional<std::string> secret_;
  std::atomic<std::chrono::milliseconds> timeout_{std::chrono::milliseconds{60'000}};
  std::shared_ptr<gloo_connections> with_, second_;  // of the rank's own thread, and of a second
  std::unique_ptr<rendezvous_store> store_{};        // of begin_anew
  std::atomic<bool> interrupted_{false};
  bool held_ = false;
  std::mutex mutex_;  // of what interrupt() and hold_timeouts() touch
  unsigned groups_ = 0;
};

}  // namespace detail

/// Processes that Gloo connects by TCP, for `processes{.engine = plait::gloo()}`: any launcher that
/// sets the variables of process_ranks will do, or none.
///
/// Cost:    a connection for each pair of processes, for any groups; two where ranks have a second
///          thread.
/// Errors:  a call that waits longer than the time-out throws communication_timeout with the rank
///          that it waits for; engine_error at once if another process fails or ends. Then all
///          connections of this process are closed, so that the others learn it.
/// Threads: Gloo has a thread of its own in each process; those that call it sleep while they wait.
/// Safety:  before the first call the ends of each connection show each other that they know the
///          secret of the job, a file that PLAIT_JOB_SECRET_FILE names, or else one that rank 0
///          leaves where the ranks meet. A peer that merely reaches a port is dropped. What is sent
///          after that is neither encrypted nor signed. See docs/processes.md.
[[nodiscard]] [[gnu::cold]] inline std::shared_ptr<ext::process_engine> gloo(
    gloo_options const& options = {}) {
  return std::make_shared<detail::gloo_engine>(options);
}

}  // namespace plait
