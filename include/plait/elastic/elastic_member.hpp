// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "plait/core/caught_signal.hpp"
#include "plait/core/clock.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/quote.hpp"
#include "plait/elastic/etcd.hpp"
#include "plait/elastic/etcd_access.hpp"
#include "plait/elastic/etcd_watch.hpp"
#include "plait/elastic/job_keys.hpp"
#include "plait/elastic/membership.hpp"
#include "plait/elastic/store_silence.hpp"

namespace plait::detail {

/// This process as a member of an elastic job: carries out what `membership` says, keeps its lease
/// alive, and watches the keys while a generation runs.
///
/// Threads: one thread calls it; a thread of its own keeps the lease and looks at the keys, and one
///          more waits for changes.
class elastic_member {
 public:
  /// `interrupt` ends the waits of the other thread, hold(true) lets time-outs of them stand still
  /// until hold(false); both may be called by any thread. Etcd is waited for as long as
  /// `store_wait`.
  [[gnu::cold]] elastic_member(std::string at, std::shared_ptr<etcd_access> access,
                               std::string const& job, std::string uid, std::string host,
                               job_keys::terms terms, membership_terms const& times,
                               std::chrono::milliseconds store_wait,
                               std::function<void()> interrupt, std::function<void(bool)> hold)
      : at_(std::move(at)),
        access_(std::move(access)),
        job_(job),
        keys_(job),
        host_(std::move(host)),
        terms_(std::move(terms)),
        times_(times),
        store_wait_(store_wait),
        interrupt_(std::move(interrupt)),
        hold_(std::move(hold)),
        etcd_(access_, call_time),
        protocol_(std::move(uid), times),
        silence_(concat({"etcd at ", at_})),
        watch_(access_, keys_.all(), [this] { wake(); }),
        keeper_([this](std::stop_token const& ends) { keep(ends); }) {}
  elastic_member(elastic_member const&) = delete;
  elastic_member& operator=(elastic_member const&) = delete;
  /// The others need not wait for the lease to end.
  ~elastic_member() {
    keeper_.request_stop();
    wake();
    keeper_.join();
    hold_(false);
    try {
      if (auto const lease = lease_.exchange(0); lease != 0) etcd_.revoke(lease);
    } catch (etcd_error const&) {
    }
  }

  [[nodiscard]] std::string const& at() const { return at_; }
  [[nodiscard]] std::shared_ptr<etcd_access> const& access() const { return access_; }
  [[nodiscard]] job_keys const& keys() const { return keys_; }
  [[nodiscard]] std::int64_t lease() const { return lease_; }
  /// What a process is told that has no place in the job.
  [[nodiscard]] std::string refusal(std::string const& why) const {
    return concat({"elastic: this process is refused by job ", in_quotes(job_), ": ", why});
  }
  /// "" before the first generation.
  [[nodiscard]] std::string const& job_id() const { return terms_.id; }

  /// Waits until this member is in a generation, or has no place in the job; it comes with what it
  /// says where it joins.
  ///
  /// Errors: input_error if the job has other terms, engine_error if etcd has lost the job or has
  ///         been waited for long enough.
  [[nodiscard]] [[gnu::cold]] membership::action next(join_entry mine) {
    {
      std::scoped_lock const lock{mutex_};
      is_training_ = false;
      protocol_.come_back(mine);
    }
    for (;;) {
      // From now on it is this that it waits for; a second one ends the process.
      if (int const signal = caught_signal::number().exchange(0); signal != 0) leaving_ = signal;
      if (leaving_ != mine.leaving) {
        mine.leaving = leaving_;
        std::scoped_lock const lock{mutex_};
        protocol_.come_back(mine);
      }
      auto const began = now();
      bool answers = false;
      try {
        auto const all = etcd_.read(keys_.all());
        answers = true;
        auto const state = keys_.read(all);
        heard(false);
        check(state);
        comes_late_ = state.view.done && terms_.id.empty();
        auto todo = decide(state.view);
        if (todo.what == membership::act::begin) {
          heard(true);
          has_announced_ = is_lost_ = is_over_ = has_failed_ = has_waited_ = false;
          std::scoped_lock const lock{mutex_};
          given_up_.clear();
          is_training_ = true;
          number_ = todo.next.number;
        }
        if (todo.what == membership::act::begin || todo.what == membership::act::end ||
            todo.what == membership::act::leave)
          return todo;
        carry_out(todo, state.view, mine);
        if (todo.what != membership::act::wait) heard(true);
      } catch (foreign_key_error const& problem) {
        throw engine_error(concat({"elastic: job ", in_quotes(job_), ": ", problem.what()}));
      } catch (etcd_error const& problem) {
        auto const lasts = not_heard(problem, began, answers);
        if (lasts >= store_wait_) throw engine_error(concat({"elastic: ", why_given_up()}));
        // The others see that the lease ends.
        if (leaving_ != 0 && lasts >= store_silence::said_after)
          return {.what = membership::act::leave};
        std::this_thread::sleep_for(std::chrono::milliseconds{100});
      }
    }
  }

  /// Whether the job had ended before this process came, which so far has seen nothing of it.
  [[nodiscard]] bool comes_late() const { return comes_late_; }
  /// The signal after which this member leaves, 0 for none.
  [[nodiscard]] int leaving() const { return leaving_; }
  /// While a generation runs: whether it is to end after a step, or the job.
  [[nodiscard]] bool has_announced() const {
    return has_announced_ || caught_signal::number() != 0;
  }
  /// Whether etcd has lost the job, or was waited for long enough; the sentence about it.
  [[nodiscard]] bool is_lost() const { return is_lost_ || has_waited_; }
  [[nodiscard]] [[gnu::cold]] std::string why_lost() {
    if (is_lost_) return "etcd has lost the data of the job";
    if (has_waited_) return why_given_up();
    // Members do not count from the same moment: who was the first to ask in vain ends the job.
    std::scoped_lock const lock{mutex_};
    if (silence_.is_away())
      return concat({silence_.text(), ", and another process of the job waits for it no longer"});
    return "another process of the job has lost etcd";
  }
  /// Whether etcd does not answer.
  [[nodiscard]] bool is_alone() {
    std::scoped_lock const lock{mutex_};
    return silence_.is_silent();
  }

  /// Returns when the lease is valid: others count on this member now. Where all part behind this
  /// step (`parts`), or this one wants to leave, it is not waited for: such a step is the last one.
  ///
  /// Errors: engine_error if they do not any more.
  void require_lease(bool parts) {
    while (boot_time() >= valid_until_.load(std::memory_order_relaxed) && !is_lost()) {
      if (is_over_ || lease_ == 0)
        throw engine_error(
            "elastic: this process was too long without etcd, which has given it up");
      if (parts || caught_signal::number() != 0) return;
      std::this_thread::sleep_for(std::chrono::milliseconds{5});
    }
  }

  /// The generation has failed; `named` is the member that this one could not reach, or "".
  [[gnu::cold]] void report_failure(std::string const& named) {
    has_failed_ = is_over_ = true;
    try {
      auto const view = keys_.read(etcd_.read(keys_.all())).view;
      if (view.number() != number_) return;
      etcd_.change(
          {{keys_.generation(), etcd_condition::of::modified, view.now_modified}},
          {{.key = keys_.failed(number_) + protocol_.uid(), .value = named, .lease = lease_}});
    } catch (etcd_error const&) {  // others see that the lease ends
    }
  }
  /// Members of the generation, with what they have brought: they have no place in the job.
  [[gnu::cold]] void refuse(std::vector<std::pair<std::string, std::string>> const& members) {
    is_over_ = has_failed_ = true;
    try {
      auto const view = keys_.read(etcd_.read(keys_.all())).view;
      if (view.number() != number_) return;
      std::vector<etcd_change> notes;
      for (auto const& [uid, why] : members)
        notes.push_back({.key = keys_.refused() + uid, .value = why});
      etcd_.change({{keys_.generation(), etcd_condition::of::modified, view.now_modified}}, notes);
    } catch (etcd_error const&) {  // they end by themselves
    }
  }
  /// Writes down that the job has ended for all, in a generation: `why` is "" or the reason.
  /// Processes that come late read it. After a failure it is kept for seconds only, as the job may
  /// soon be started again. After success it waits for etcd, since processes that did not read it
  /// would begin the job again.
  [[gnu::cold]] void finish(std::string const& why, generation_record const& in) {
    std::chrono::seconds const kept{why.empty() ? 600 : 10};
    for (auto began = now();; began = now()) try {
        auto const lease = etcd_.grant(kept);
        auto const of = etcd_condition::of::created;
        etcd_.change({{keys_.done(), of, 0}},
                     {{.key = keys_.done(), .value = why, .lease = lease},
                      {.key = keys_.last(), .value = job_keys::text(in), .lease = lease},
                      {.key = keys_.job()},
                      {.key = keys_.generation()},
                      {.key = concat({keys_.all(), "program/"}), .is_prefix = true},
                      {.key = keys_.refused(), .is_prefix = true}});
        heard(true);
        return;
      } catch (etcd_error const& problem) {
        auto const lasts = not_heard(problem, began, true);
        if (why.empty() && lasts < store_wait_ && caught_signal::number() == 0) {
          std::this_thread::sleep_for(std::chrono::milliseconds{100});
          continue;
        }
        std::fprintf(stderr, "plait: elastic: the end of the job was not written down: %s\n",
                     problem.what());
        return;
      }
  }
  /// The program of this process has thrown something. Twice in the same step it is the program
  /// that is wrong, and not a machine: then the job ends.
  [[gnu::cold]] void note_failed_program(std::int64_t step, std::string const& why,
                                         generation_record const& in) {
    auto const key = keys_.program(step);
    try {
      auto const first =
          etcd_.change({{key, etcd_condition::of::created, 0}}, {{.key = key, .value = why}});
      if (!first.done)
        finish(concat({"the program has failed twice in step ", step, ": ", why}), in);
    } catch (etcd_error const&) {
    }
  }

 private:
  static constexpr std::chrono::milliseconds call_time{1'500};
  static constexpr std::chrono::seconds time_to_live{2};  // etcd's least
  static constexpr std::chrono::milliseconds margin{200}, between_renewals{500};
  static constexpr std::chrono::milliseconds look_anyway{1'000};

  /// A clock that goes on while a machine sleeps, and that nobody sets.
  static std::int64_t boot_time() {
    timespec time{};
    ::clock_gettime(CLOCK_BOOTTIME, &time);
    return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  }
  static membership::time now() {
    return std::chrono::duration_cast<membership::time>(std::chrono::nanoseconds(boot_time()));
  }
  static std::int64_t in_nanoseconds(std::chrono::nanoseconds time) { return time.count(); }

  void wake() {
    {
      std::scoped_lock const lock{waking_};
      ++changes_;
    }
    wakes_.notify_all();
  }
  membership::action decide(membership_view const& view) {
    std::scoped_lock const lock{mutex_};
    return protocol_.decide(view, silence_.without(now()));
  }

  /// A call was answered, or not; \see store_silence. The second returns for how long that lasts.
  void heard(bool all) {
    std::string says;
    {
      std::scoped_lock const lock{mutex_};
      silence_.answered(all);
      hold_(silence_.is_silent());
      if (!silence_.is_away()) says = silence_.says("");
    }
    say(says);
  }
  [[gnu::cold]] membership::time not_heard(etcd_error const& problem, membership::time began,
                                           bool answers) {
    std::string says;
    membership::time lasts{};
    {
      std::scoped_lock const lock{mutex_};
      silence_.failed(began, now(), problem.words, answers);
      lasts = silence_.lasts();
      if (lasts >= store_wait_ && given_up_.empty())
        given_up_ = concat({silence_.text(), ", and is not waited for any longer (store_wait)"});
      if (lasts >= store_wait_ && is_training_) has_waited_ = true;
      hold_(silence_.is_silent() && lasts < store_wait_);
      says = silence_.says(!is_training_                ? "this process waits"
                           : boot_time() < valid_until_ ? "training goes on"
                                                        : "training waits");
    }
    say(says);
    return lasts;
  }
  static void say(std::string const& sentence) {
    if (!sentence.empty()) std::fprintf(stderr, "%s\n", sentence.c_str());
  }
  [[nodiscard]] [[gnu::cold]] std::string why_given_up() {
    std::scoped_lock const lock{mutex_};
    return given_up_;
  }

  /// Errors: input_error, engine_error.
  [[gnu::cold]] void check(job_keys::state const& state) {
    if (state.view.done) return;
    if (state.view.job.empty()) {
      if (!terms_.id.empty()) refuse_lost("it has no such job any more");
      return;
    }
    auto const& of = state.job;
    auto const refuse = [&](std::string const& what, std::string const& mine,
                            std::string const& theirs) {
      throw input_error({"elastic: job ", in_quotes(job_), " has another ", what, ": ", theirs,
                         " there, ", mine, " in this process"});
    };
    if (of.version != terms_.version)
      refuse("version of plait", terms_.version, in_quotes(of.version));
    if (of.plan != terms_.plan) refuse("plan", in_quotes(terms_.plan), in_quotes(of.plan));
    if (of.min != terms_.min || of.max != terms_.max)
      refuse("number of replicas", concat({terms_.min, " to ", terms_.max}),
             concat({of.min, " to ", of.max}));
    if (of.token != terms_.token) refuse("token", "one", "another");
    if (terms_.id.empty()) terms_.id = of.id;
    else if (of.id != terms_.id) refuse_lost("the job of this name is another one now");
  }
  [[noreturn]] [[gnu::cold]] void refuse_lost(std::string const& how) const {
    throw engine_error(
        concat({"elastic: etcd has lost the data of job ", in_quotes(job_), ": ", how}));
  }

  [[gnu::cold]] void carry_out(membership::action const& todo, membership_view const& view,
                               join_entry const& mine) {
    using of = etcd_condition::of;
    auto const& uid = protocol_.uid();
    switch (todo.what) {
      case membership::act::wait: return wait(todo.when);
      case membership::act::enter: return enter(view);
      case membership::act::join:
        etcd_.change({{keys_.generation(), of::modified, view.now_modified},
                      {keys_.member(uid), of::lease, lease_}},
                     {{.key = keys_.join(todo.number) + uid,
                       .value = job_keys::text(mine),
                       .lease = lease_}});
        return;
      case membership::act::propose: {
        std::vector<etcd_condition> conditions{
            {keys_.generation(), of::modified, view.now_modified}, {keys_.done(), of::created, 0}};
        for (auto const& one : todo.next.members)
          conditions.push_back({keys_.member(one), of::created, view.find(one)->created});
        auto const old = view.number();
        etcd_.change(conditions, {{.key = keys_.generation(), .value = job_keys::text(todo.next)},
                                  {.key = keys_.join(old), .is_prefix = true},
                                  {.key = keys_.failed(old), .is_prefix = true},
                                  {.key = keys_.rendezvous(old), .is_prefix = true}});
        return;
      }
      case membership::act::revoke:
        for (auto const& one : todo.who)
          if (auto const* const found = view.find(one)) etcd_.revoke(found->lease);
        return;
      default: return;
    }
  }
  [[gnu::cold]] void wait(membership::time when) {
    membership::time counted{};
    {
      std::scoped_lock const lock{mutex_};
      counted = silence_.without(now());
    }
    std::unique_lock lock{waking_};
    auto const left = std::clamp(when - counted, membership::time{1}, look_anyway);
    auto const end = std::chrono::steady_clock::now() + left;
    constexpr std::chrono::milliseconds for_signals{100};
    while (seen_ == changes_ && std::chrono::steady_clock::now() < end &&
           caught_signal::number() == 0)
      wakes_.wait_for(lock, for_signals);
    seen_ = changes_;
  }
  [[gnu::cold]] void enter(membership_view const& view) {
    using of = etcd_condition::of;
    if (view.job.empty()) {
      auto mine = terms_;
      std::uint64_t number = 0;  // members' names may be the same again when the job is
      if (::getentropy(&number, sizeof number) != 0)
        throw engine_error("elastic: the system gives no random numbers");
      mine.id = concat({protocol_.uid(), "-", number});
      etcd_.change({{keys_.job(), of::created, 0}, {keys_.done(), of::created, 0}},
                   {{.key = keys_.job(), .value = job_keys::text(mine)}});
      return;  // whoever was first: it is read again
    }
    auto const sent = boot_time();
    auto const lease = etcd_.grant(time_to_live);
    auto const key = keys_.member(protocol_.uid());
    if (!etcd_.change({{key, of::created, 0}}, {{.key = key, .value = host_, .lease = lease}})
             .done) {
      etcd_.revoke(lease);
      throw input_error({"elastic: job ", in_quotes(job_), " has a member ",
                         in_quotes(protocol_.uid()),
                         " already; PLAIT_MEMBER is another one in each process"});
    }
    lease_ = lease;
    valid_until_ = sent + in_nanoseconds(time_to_live - margin);
    wake();
  }

  // ---- The keeper's thread

  void keep(std::stop_token const& ends) {
    etcd mine(access_, call_time);
    auto next_renewal = now(), next_look = now();
    std::uint64_t seen = 0;
    while (!ends.stop_requested()) {
      {
        std::unique_lock lock{waking_};
        auto const left = std::min(next_renewal, next_look) - now();
        wakes_.wait_for(lock, std::clamp(left, membership::time{1}, between_renewals),
                        [&] { return seen != changes_; });
        if (seen != changes_) next_look = now();
        seen = changes_;
      }
      auto const began = now();
      try {
        if (now() >= next_renewal) {
          next_renewal = now() + between_renewals;
          if (lease_ != 0) renew(mine);
        }
        if (now() >= next_look) {
          look(mine);
          next_look = now() + look_anyway;
          end_if_it_hangs();
        }
      } catch (etcd_error const& problem) {
        not_heard(problem, began, false);
        std::this_thread::sleep_for(std::chrono::milliseconds{50});
      }
    }
  }
  void renew(etcd& with) {
    auto const sent = boot_time();
    auto const lease = lease_.load();
    auto const left = with.keep_alive(lease);
    heard(false);
    if (left.count() > 0) {
      valid_until_ = sent + in_nanoseconds(time_to_live - margin);
      return;
    }
    look(with);  // whether it is the lease that is gone, or all that etcd had
    auto expected = lease;
    if (lease_.compare_exchange_strong(expected, 0)) valid_until_ = 0;
  }
  /// Whose generation is over and who does not come back to say so is of no more use to anybody.
  [[gnu::cold]] void end_if_it_hangs() {
    {
      std::scoped_lock const lock{mutex_};
      auto const counted = silence_.without(now());
      if (!is_training_ || !is_over_ || has_failed_) over_since_.reset();
      else if (!over_since_) over_since_ = counted;
      if (!over_since_ || counted - *over_since_ < 2 * times_.timeout) return;
    }
    std::fprintf(
        stderr,
        "plait: elastic: the generation of this process has been over for %lld ms, and its "
        "program has not noticed; the process is ended, as it hangs\n",
        static_cast<long long>(2 * times_.timeout.count()));
    std::_Exit(1);
  }
  void look(etcd& with) {
    auto const running = [this] { return is_training_ ? number_ : 0; };
    int number = 0;
    {
      std::scoped_lock const lock{mutex_};
      number = running();
    }
    if (number == 0) return;
    auto const all = with.read(keys_.all());
    heard(false);
    auto const state = keys_.read(all);
    std::scoped_lock const lock{mutex_};
    if (running() != number) return;  // what was read is older than the generation
    using verdict = membership::verdict;
    switch (protocol_.look(state.view, terms_.id, silence_.without(now()))) {
      case verdict::go_on: break;
      case verdict::announce: has_announced_ = true; break;
      case verdict::over:
        is_over_ = true;
        interrupt_();
        break;
      case verdict::lost: is_lost_ = true; break;
    }
  }

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
  std::mutex mutex_;  // of protocol_, silence_, is_training_ and number_
  membership protocol_;
  store_silence silence_;
  std::string given_up_{};  // why has_waited_
  bool is_training_ = false;
  int number_ = 0;
  std::atomic<std::int64_t> lease_{0}, valid_until_{0};
  std::atomic<bool> has_announced_{false}, is_lost_{false}, is_over_{false};
  std::atomic<bool> has_waited_{false};  // for etcd, long enough
  std::atomic<bool> has_failed_{false};  // this member has noticed
  std::optional<membership::time> over_since_{};
  int leaving_ = 0;
  bool comes_late_ = false;
  std::mutex waking_;
  std::condition_variable wakes_;
  std::uint64_t changes_ = 0, seen_ = 0;  // of the keys, and those that next() has seen
  etcd_watch watch_;
  std::jthread keeper_;
};

}  // namespace plait::detail
