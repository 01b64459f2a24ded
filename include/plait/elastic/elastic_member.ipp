// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/elastic/elastic_member.hpp"

#include <time.h>

#include <algorithm>
#include <cstdlib>

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/quote.hpp"

namespace plait::detail {

PLAIT_DECL elastic_member::elastic_member(std::string at, std::shared_ptr<etcd_access> access,
                                          std::string const& job, std::string uid, std::string host,
                                          job_keys::terms terms, membership_terms const& times,
                                          std::chrono::milliseconds store_wait,
                                          std::function<void()> interrupt,
                                          std::function<void(bool)> hold)
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

PLAIT_DECL elastic_member::~elastic_member() {
  keeper_.request_stop();
  wake();
  keeper_.join();
  hold_(false);
  try {
    if (auto const lease = lease_.exchange(0); lease != 0) etcd_.revoke(lease);
  } catch (etcd_error const&) {
  }
}

PLAIT_DECL std::string elastic_member::refusal(std::string const& why) const {
  return concat({"elastic: this process is refused by job ", in_quotes(job_), ": ", why});
}

PLAIT_DECL membership::action elastic_member::next(join_entry mine) {
  {
    std::scoped_lock const lock{mutex_};
    is_training_ = false;
    protocol_.come_back(mine);
  }
  for (;;) {
    // next() treats the first signal as a request to leave; a second signal ends the process.
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
      // The member can leave without etcd, because the other members see that its lease expires.
      if (leaving_ != 0 && lasts >= store_silence::said_after)
        return {.what = membership::act::leave};
      std::this_thread::sleep_for(std::chrono::milliseconds{100});
    }
  }
}

PLAIT_DECL std::string elastic_member::why_lost() {
  if (is_lost_) return "etcd has lost the data of the job";
  if (has_waited_) return why_given_up();
  // Members begin to measure etcd's silence at different moments. The first member whose time is
  // over ends the job for all.
  std::scoped_lock const lock{mutex_};
  if (silence_.is_away())
    return concat({silence_.text(), ", and another process of the job has stopped waiting for it"});
  return "another process of the job has stopped waiting for etcd";
}

PLAIT_DECL bool elastic_member::is_alone() {
  std::scoped_lock const lock{mutex_};
  return silence_.is_silent();
}

PLAIT_DECL void elastic_member::require_lease(bool parts) {
  while (boot_time() >= valid_until_.load(std::memory_order_relaxed) && !is_lost()) {
    if (is_over_ || lease_ == 0)
      throw engine_error(
          "elastic: this process had no answer from etcd for too long, and its lease has expired");
    if (parts || caught_signal::number() != 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  }
}

PLAIT_DECL void elastic_member::report_failure(std::string const& named) {
  has_failed_ = is_over_ = true;
  try {
    auto const view = keys_.read(etcd_.read(keys_.all())).view;
    if (view.number() != number_) return;
    etcd_.change(
        {{keys_.generation(), etcd_condition::of::modified, view.now_modified}},
        {{.key = keys_.failed(number_) + protocol_.uid(), .value = named, .lease = lease_}});
  } catch (etcd_error const&) {  // the other members see that this member's lease expires
  }
}

PLAIT_DECL void elastic_member::refuse(
    std::vector<std::pair<std::string, std::string>> const& members) {
  is_over_ = has_failed_ = true;
  try {
    auto const view = keys_.read(etcd_.read(keys_.all())).view;
    if (view.number() != number_) return;
    std::vector<etcd_change> notes;
    for (auto const& [uid, why] : members)
      notes.push_back({.key = keys_.refused() + uid, .value = why});
    etcd_.change({{keys_.generation(), etcd_condition::of::modified, view.now_modified}}, notes);
  } catch (etcd_error const&) {  // the refused members end by themselves
  }
}

PLAIT_DECL void elastic_member::finish(std::string const& why, generation_record const& in) {
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
      std::fprintf(stderr, "plait: elastic: the end of the job could not be recorded in etcd: %s\n",
                   problem.what());
      return;
    }
}

PLAIT_DECL void elastic_member::note_failed_program(std::int64_t step, std::string const& why,
                                                    generation_record const& in) {
  auto const key = keys_.program(step);
  try {
    auto const first =
        etcd_.change({{key, etcd_condition::of::created, 0}}, {{.key = key, .value = why}});
    if (!first.done) finish(concat({"the program has failed twice in step ", step, ": ", why}), in);
  } catch (etcd_error const&) {
  }
}

PLAIT_DECL std::int64_t elastic_member::boot_time() {
  timespec time{};
  ::clock_gettime(CLOCK_BOOTTIME, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

PLAIT_DECL void elastic_member::wake() {
  {
    std::scoped_lock const lock{waking_};
    ++changes_;
  }
  wakes_.notify_all();
}

PLAIT_DECL membership::action elastic_member::decide(membership_view const& view) {
  std::scoped_lock const lock{mutex_};
  return protocol_.decide(view, silence_.without(now()));
}

PLAIT_DECL void elastic_member::heard(bool all) {
  std::string says;
  {
    std::scoped_lock const lock{mutex_};
    silence_.answered(all);
    hold_(silence_.is_silent());
    if (!silence_.is_away()) says = silence_.says("");
  }
  say(says);
}

PLAIT_DECL membership::time elastic_member::not_heard(etcd_error const& problem,
                                                      membership::time began, bool answers) {
  std::string says;
  membership::time lasts{};
  {
    std::scoped_lock const lock{mutex_};
    silence_.failed(began, now(), problem.words, answers);
    lasts = silence_.lasts();
    if (lasts >= store_wait_ && given_up_.empty())
      given_up_ =
          concat({silence_.text(), ", and this process has stopped waiting for it (store_wait)"});
    if (lasts >= store_wait_ && is_training_) has_waited_ = true;
    hold_(silence_.is_silent() && lasts < store_wait_);
    says = silence_.says(!is_training_                ? "this process waits"
                         : boot_time() < valid_until_ ? "training continues"
                                                      : "training waits");
  }
  say(says);
  return lasts;
}

PLAIT_DECL std::string elastic_member::why_given_up() {
  std::scoped_lock const lock{mutex_};
  return given_up_;
}

PLAIT_DECL void elastic_member::check(job_keys::state const& state) {
  if (state.view.done) return;
  if (state.view.job.empty()) {
    if (!terms_.id.empty()) refuse_lost("it no longer has this job");
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
  else if (of.id != terms_.id) refuse_lost("another job has this name now");
}

PLAIT_DECL void elastic_member::refuse_lost(std::string const& how) const {
  throw engine_error(
      concat({"elastic: etcd has lost the data of job ", in_quotes(job_), ": ", how}));
}

PLAIT_DECL void elastic_member::carry_out(membership::action const& todo,
                                          membership_view const& view, join_entry const& mine) {
  using of = etcd_condition::of;
  auto const& uid = protocol_.uid();
  switch (todo.what) {
    case membership::act::wait: return wait(todo.when);
    case membership::act::enter: return enter(view);
    case membership::act::join:
      etcd_.change(
          {{keys_.generation(), of::modified, view.now_modified},
           {keys_.member(uid), of::lease, lease_}},
          {{.key = keys_.join(todo.number) + uid, .value = job_keys::text(mine), .lease = lease_}});
      return;
    case membership::act::propose: {
      std::vector<etcd_condition> conditions{{keys_.generation(), of::modified, view.now_modified},
                                             {keys_.done(), of::created, 0}};
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

PLAIT_DECL void elastic_member::wait(membership::time when) {
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

PLAIT_DECL void elastic_member::enter(membership_view const& view) {
  using of = etcd_condition::of;
  if (view.job.empty()) {
    auto mine = terms_;
    // Makes the id unique, since the members' uids may be the same when a job is started again.
    std::uint64_t number = 0;
    if (::getentropy(&number, sizeof number) != 0)
      throw engine_error("elastic: the system provides no random numbers");
    mine.id = concat({protocol_.uid(), "-", number});
    etcd_.change({{keys_.job(), of::created, 0}, {keys_.done(), of::created, 0}},
                 {{.key = keys_.job(), .value = job_keys::text(mine)}});
    return;  // the caller reads the job's key, which another process may have written first
  }
  auto const sent = boot_time();
  auto const lease = etcd_.grant(time_to_live);
  auto const key = keys_.member(protocol_.uid());
  if (!etcd_.change({{key, of::created, 0}}, {{.key = key, .value = host_, .lease = lease}}).done) {
    etcd_.revoke(lease);
    throw input_error({"elastic: job ", in_quotes(job_), " has a member ",
                       in_quotes(protocol_.uid()),
                       " already; PLAIT_MEMBER must differ between processes"});
  }
  lease_ = lease;
  valid_until_ = sent + in_nanoseconds(time_to_live - margin);
  wake();
}

PLAIT_DECL void elastic_member::keep(std::stop_token const& ends) {
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

PLAIT_DECL void elastic_member::renew(etcd& with) {
  auto const sent = boot_time();
  auto const lease = lease_.load();
  auto const left = with.keep_alive(lease);
  heard(false);
  if (left.count() > 0) {
    valid_until_ = sent + in_nanoseconds(time_to_live - margin);
    return;
  }
  look(with);  // finds out if only the lease has expired, or if etcd has lost all data
  auto expected = lease;
  if (lease_.compare_exchange_strong(expected, 0)) valid_until_ = 0;
}

PLAIT_DECL void elastic_member::end_if_it_hangs() {
  {
    std::scoped_lock const lock{mutex_};
    auto const counted = silence_.without(now());
    if (!is_training_ || !is_over_ || has_failed_) over_since_.reset();
    else if (!over_since_) over_since_ = counted;
    if (!over_since_ || counted - *over_since_ < 2 * times_.timeout) return;
  }
  std::fprintf(stderr,
               "plait: elastic: the generation of this process has been over for %lld ms, but its "
               "program has not noticed; the process hangs and is ended\n",
               static_cast<long long>(2 * times_.timeout.count()));
  std::_Exit(1);
}

PLAIT_DECL void elastic_member::look(etcd& with) {
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
  if (running() != number) return;  // a generation has begun or ended since `state` was read
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

}  // namespace plait::detail
