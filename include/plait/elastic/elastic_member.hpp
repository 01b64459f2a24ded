// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "plait/core/caught_signal.hpp"
#include "plait/core/clock.hpp"
#include "plait/core/header_only.hpp"
#include "plait/elastic/etcd.hpp"
#include "plait/elastic/etcd_access.hpp"
#include "plait/elastic/etcd_watch.hpp"
#include "plait/elastic/job_keys.hpp"
#include "plait/elastic/membership.hpp"
#include "plait/elastic/store_silence.hpp"

namespace plait::detail {

/// This process as a member of an elastic job. It carries out the decisions of `membership`, keeps
/// its lease in etcd alive, and watches the keys while a generation runs. Other members know that a
/// process has ended when its lease of 2 s ends, so the lease is renewed every 500 ms.
///
/// Threads: one thread calls it. A thread of its own renews the lease and reads the keys, and one
///          more waits for changes.
class elastic_member {
 public:
  /// `interrupt` ends the waits of the other thread. hold(true) stops its time-outs until
  /// hold(false). Any thread may call both. `store_wait` is the longest wait for etcd.
  [[gnu::cold]] elastic_member(std::string at, std::shared_ptr<etcd_access> access,
                               std::string const& job, std::string uid, std::string host,
                               job_keys::terms terms, membership_terms const& times,
                               std::chrono::milliseconds store_wait,
                               std::function<void()> interrupt, std::function<void(bool)> hold);
  elastic_member(elastic_member const&) = delete;
  elastic_member& operator=(elastic_member const&) = delete;
  /// Revokes the lease, so that the other members need not wait for its end.
  ~elastic_member();

  [[nodiscard]] std::string const& at() const { return at_; }
  [[nodiscard]] std::shared_ptr<etcd_access> const& access() const { return access_; }
  [[nodiscard]] job_keys const& keys() const { return keys_; }
  [[nodiscard]] std::int64_t lease() const { return lease_; }
  /// The error text for a process that the job refuses.
  [[nodiscard]] std::string refusal(std::string const& why) const;
  /// "" before the first generation.
  [[nodiscard]] std::string const& job_id() const { return terms_.id; }

  /// Waits until this member is in a generation, or is refused by the job. `mine` is the entry that
  /// it joins with.
  ///
  /// Errors: input_error if the job has other terms; engine_error if etcd has lost the job, or was
  ///         away for `store_wait`.
  [[nodiscard]] [[gnu::cold]] membership::action next(join_entry mine);

  /// True if the job had ended before this process joined it.
  [[nodiscard]] bool comes_late() const { return comes_late_; }
  /// The signal after which this member leaves, or 0.
  [[nodiscard]] int leaving() const { return leaving_; }
  /// True if the running generation, or the job, is to end after a step.
  [[nodiscard]] bool has_announced() const {
    return has_announced_ || caught_signal::number() != 0;
  }
  /// True if etcd has lost the job, or was away for `store_wait`; why_lost() says which.
  [[nodiscard]] bool is_lost() const { return is_lost_ || has_waited_; }
  [[nodiscard]] [[gnu::cold]] std::string why_lost();
  /// True if etcd does not answer.
  [[nodiscard]] bool is_alone();

  /// Returns when the lease is valid, so that the other members still count on this one. It does
  /// not wait if all members leave after this step (`parts`), or this one wants to: such a step is
  /// the last one.
  ///
  /// Errors: engine_error if the other members have given this one up.
  void require_lease(bool parts);

  /// Reports that the generation has failed; `named` is the member that this one could not reach,
  /// or "".
  [[gnu::cold]] void report_failure(std::string const& named);
  /// Refuses `members`, pairs of a uid and the reason: they may not join the job again.
  [[gnu::cold]] void refuse(std::vector<std::pair<std::string, std::string>> const& members);
  /// Records that the job has ended for all members, in a generation: `why` is "" or the reason.
  /// Processes that start late read the record. After a failure it is kept for 10 s only, since the
  /// job may soon be started again. After success it is kept for 10 minutes, and the call waits for
  /// etcd: a process that cannot read the record would begin the job again.
  [[gnu::cold]] void finish(std::string const& why, generation_record const& in);
  /// Records an exception of this process's program. If the same step fails twice, the program is
  /// wrong rather than a machine, and the job ends.
  [[gnu::cold]] void note_failed_program(std::int64_t step, std::string const& why,
                                         generation_record const& in);

 private:
  static constexpr std::chrono::milliseconds call_time{1'500};
  static constexpr std::chrono::seconds time_to_live{2};  // the shortest that etcd accepts
  static constexpr std::chrono::milliseconds margin{200}, between_renewals{500};
  static constexpr std::chrono::milliseconds look_anyway{1'000};

  /// A clock that also runs while the machine is suspended, and that cannot be set.
  static std::int64_t boot_time();
  static membership::time now() {
    return std::chrono::duration_cast<membership::time>(std::chrono::nanoseconds(boot_time()));
  }
  static std::int64_t in_nanoseconds(std::chrono::nanoseconds time) { return time.count(); }

  void wake();
  membership::action decide(membership_view const& view);

  /// A call was answered, or was not; see store_silence. not_heard returns how long etcd has been
  /// away.
  void heard(bool all);
  [[gnu::cold]] membership::time not_heard(etcd_error const& problem, membership::time began,
                                           bool answers);
  static void say(std::string const& sentence) {
    if (!sentence.empty()) std::fprintf(stderr, "%s\n", sentence.c_str());
  }
  [[nodiscard]] [[gnu::cold]] std::string why_given_up();

  /// Errors: input_error, engine_error.
  [[gnu::cold]] void check(job_keys::state const& state);
  [[noreturn]] [[gnu::cold]] void refuse_lost(std::string const& how) const;

  [[gnu::cold]] void carry_out(membership::action const& todo, membership_view const& view,
                               join_entry const& mine);
  [[gnu::cold]] void wait(membership::time when);
  [[gnu::cold]] void enter(membership_view const& view);

  // The methods of the keeper's thread

  void keep(std::stop_token const& ends);
  void renew(etcd& with);
  /// Ends the process if its generation has been over for twice the time-out and the program has
  /// not noticed: a hung process holds its machine and is of no use.
  [[gnu::cold]] void end_if_it_hangs();
  void look(etcd& with);

  std::string at_;
  std::shared_ptr<etcd_access> access_;
  std::string job_;
  job_keys keys_;
  std::string host_;
  job_keys::terms terms_;
  membership_terms times_;
  std::chrono::milliseconds store_wait_;
  std::function<void()> interrupt_;
  std::function<void(bool)> hold_;
  etcd etcd_;
  std::mutex mutex_;  // guards protocol_, silence_, is_training_ and number_
  membership protocol_;
  store_silence silence_;
  std::string given_up_{};  // the reason for has_waited_
  bool is_training_ = false;
  int number_ = 0;
  std::atomic<std::int64_t> lease_{0}, valid_until_{0};
  std::atomic<bool> has_announced_{false}, is_lost_{false}, is_over_{false};
  std::atomic<bool> has_waited_{false};  // etcd was away for store_wait
  std::atomic<bool> has_failed_{false};  // this member has noticed that the generation failed
  std::optional<membership::time> over_since_{};
  int leaving_ = 0;
  bool comes_late_ = false;
  std::mutex waking_;
  std::condition_variable wakes_;
  std::uint64_t changes_ = 0, seen_ = 0;  // changes of the keys; those that next() saw
  etcd_watch watch_;
  std::jthread keeper_;
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/elastic/elastic_member.ipp"
#endif
