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

/// Represents this process as a member of an elastic job. It carries out the decisions of
/// `membership`, keeps the process's lease in etcd alive, and watches the keys while a generation
/// runs. The other members consider a process dead when its lease of 2 s ends, so the lease is
/// renewed every 500 ms.
///
/// Threads: one thread calls the methods. The object has two threads: the keeper renews the lease
///          and reads the keys, the other waits for changes of the keys.
class elastic_member {
 public:
  /// The object calls `interrupt` to end the waits of the program's thread for other ranks, and
  /// `hold` to stop the time-outs of these waits: from hold(true) to hold(false). Any thread may
  /// call both. `store_wait` is the longest time without an answer from etcd.
  [[gnu::cold]] elastic_member(std::string at, std::shared_ptr<etcd_access> access,
                               std::string const& job, std::string uid, std::string host,
                               job_keys::terms terms, membership_terms const& times,
                               std::chrono::milliseconds store_wait,
                               std::function<void()> interrupt, std::function<void(bool)> hold);
  elastic_member(elastic_member const&) = delete;
  elastic_member& operator=(elastic_member const&) = delete;
  /// Revokes the lease, so that the other members need not wait until it expires.
  ~elastic_member();

  [[nodiscard]] std::string const& at() const { return at_; }
  [[nodiscard]] std::shared_ptr<etcd_access> const& access() const { return access_; }
  [[nodiscard]] job_keys const& keys() const { return keys_; }
  [[nodiscard]] std::int64_t lease() const { return lease_; }
  /// Returns the error text for a process that the job refuses for the reason `why`.
  [[nodiscard]] std::string refusal(std::string const& why) const;
  /// The job's random number, which differs for each start of the job; "" before the first
  /// generation.
  [[nodiscard]] std::string const& job_id() const { return terms_.id; }

  /// Waits until this member is in a generation, or until the job has ended or refuses this member.
  /// `mine` is the entry with which the member joins.
  ///
  /// Errors: input_error if the job's terms differ from this process's; engine_error if etcd has
  ///         lost the job's data, or has not answered for `store_wait`.
  [[nodiscard]] [[gnu::cold]] membership::action next(join_entry mine);

  /// True if the job had ended before this process joined it.
  [[nodiscard]] bool comes_late() const { return comes_late_; }
  /// The number of the signal after which this member leaves the job, or 0.
  [[nodiscard]] int leaving() const { return leaving_; }
  /// True if it is decided that the running generation, or the job, ends after the current step.
  [[nodiscard]] bool has_announced() const {
    return has_announced_ || caught_signal::number() != 0;
  }
  /// True if etcd has lost the job's data, or has not answered for `store_wait`; why_lost() returns
  /// the reason.
  [[nodiscard]] bool is_lost() const { return is_lost_ || has_waited_; }
  [[nodiscard]] [[gnu::cold]] std::string why_lost();
  /// True if etcd answers none of this process's calls.
  [[nodiscard]] bool is_alone();

  /// Waits until the lease is valid, so that the other members still count this member as alive. It
  /// does not wait if this step is the last one for this member: if all members leave the
  /// generation after the step (`parts` is true), or if this member wants to leave.
  ///
  /// Errors: engine_error if the lease has expired, so that the other members consider this member
  ///         dead.
  void require_lease(bool parts);

  /// Reports in etcd that the generation has failed; `named` is the uid of the member that this
  /// member could not reach, or "".
  [[gnu::cold]] void report_failure(std::string const& named);
  /// Refuses `members`, pairs of a uid and a reason: these processes may not join the job again.
  [[gnu::cold]] void refuse(std::vector<std::pair<std::string, std::string>> const& members);
  /// Records in etcd that the job has ended for all members, in generation `in`: `why` is "" after
  /// success, else the reason. Processes that start late read the record. After a failure the
  /// record is kept for only 10 s, since the job may soon be started again. After success it is
  /// kept for 10 minutes, and the call waits until etcd has it, because a process that finds no
  /// record would begin the job from the start.
  [[gnu::cold]] void finish(std::string const& why, generation_record const& in);
  /// Records an exception of this process's program in a step. If the same step fails twice, the
  /// cause is the program and not a machine, so the job ends.
  [[gnu::cold]] void note_failed_program(std::int64_t step, std::string const& why,
                                         generation_record const& in);

 private:
  static constexpr std::chrono::milliseconds call_time{1'500};
  static constexpr std::chrono::seconds time_to_live{2};  // the shortest that etcd accepts
  static constexpr std::chrono::milliseconds margin{200}, between_renewals{500};
  static constexpr std::chrono::milliseconds look_anyway{1'000};

  /// Reads a clock that also advances while the machine is suspended, and that cannot be set.
  static std::int64_t boot_time();
  static membership::time now() {
    return std::chrono::duration_cast<membership::time>(std::chrono::nanoseconds(boot_time()));
  }
  static std::int64_t in_nanoseconds(std::chrono::nanoseconds time) { return time.count(); }

  void wake();
  membership::action decide(membership_view const& view);

  /// heard() is called when etcd has answered a call, not_heard() when a call has failed. Both
  /// update silence_. not_heard() returns for how long etcd has not answered.
  void heard(bool all);
  [[gnu::cold]] membership::time not_heard(etcd_error const& problem, membership::time began,
                                           bool answers);
  static void say(std::string const& sentence) {
    if (!sentence.empty()) std::fprintf(stderr, "%s\n", sentence.c_str());
  }
  [[nodiscard]] [[gnu::cold]] std::string why_given_up();

  /// Checks that the settings of the job in etcd equal the settings of this process, and that etcd
  /// still has the job that this process has joined.
  ///
  /// Errors: input_error, engine_error.
  [[gnu::cold]] void check(job_keys::state const& state);
  [[noreturn]] [[gnu::cold]] void refuse_lost(std::string const& how) const;

  [[gnu::cold]] void carry_out(membership::action const& todo, membership_view const& view,
                               join_entry const& mine);
  [[gnu::cold]] void wait(membership::time when);
  [[gnu::cold]] void enter(membership_view const& view);

  // The keeper's thread calls these methods.

  void keep(std::stop_token const& ends);
  void renew(etcd& with);
  /// Ends the process if its generation has been over for twice the time-out and the program has
  /// not noticed. Such a program hangs, and the process would occupy its machine in vain.
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
  std::string given_up_{};  // the text of the error when has_waited_ is true
  bool is_training_ = false;
  int number_ = 0;
  std::atomic<std::int64_t> lease_{0}, valid_until_{0};
  std::atomic<bool> has_announced_{false}, is_lost_{false}, is_over_{false};
  std::atomic<bool> has_waited_{false};  // etcd has not answered for store_wait
  std::atomic<bool> has_failed_{false};  // this member has noticed that the generation failed
  std::optional<membership::time> over_since_{};
  int leaving_ = 0;
  bool comes_late_ = false;
  std::mutex waking_;
  std::condition_variable wakes_;
  // The number of changes of the keys until now, and the number of changes when next() last read
  // the keys.
  std::uint64_t changes_ = 0, seen_ = 0;
  etcd_watch watch_;
  std::jthread keeper_;
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/elastic/elastic_member.ipp"
#endif
