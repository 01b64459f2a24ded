// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/elastic/membership.hpp"

#include <algorithm>

#include "plait/core/concat.hpp"

namespace plait::detail {

PLAIT_DECL int generation_record::rank_of(std::string const& uid) const {
  auto const found = std::ranges::find(members, uid);
  return found == members.end() ? -1 : static_cast<int>(found - members.begin());
}

PLAIT_DECL membership_view::member const* membership_view::find(std::string const& uid) const {
  auto const found = std::ranges::find(members, uid, &member::uid);
  return found == members.end() ? nullptr : &*found;
}

PLAIT_DECL bool membership_view::has_stayed(std::string const& uid) const {
  auto const* const one = find(uid);
  return one != nullptr && one->created < now_modified && !refused.contains(uid);
}

PLAIT_DECL void membership::come_back(join_entry const& mine) {
  mine_ = mine;
  joined_.reset();
}

PLAIT_DECL membership::action membership::decide(membership_view const& view, time now) {
  if (view.done) return {.what = act::end, .why = *view.done};
  if (auto const why = view.refused.find(uid_); why != view.refused.end())
    return {.what = act::end, .why = why->second, .is_refused = true};
  auto const begun = view.now ? view.now->rank_of(uid_) : -1;
  if (begun >= 0 && view.number() > last_) {
    last_ = view.number();
    forget();
    return {.what = act::begin, .next = *view.now, .rank = begun};
  }
  if (!view.has(uid_)) {
    joined_.reset();
    if (mine_.leaving != 0) return {.what = act::leave};
    return {.what = act::enter};
  }
  last_ = std::max(last_, view.number());
  auto const said = view.joined.find(uid_);
  if (joined_ != view.number() || said == view.joined.end()) {
    joined_ = view.number();
    return {.what = act::join, .number = view.number()};
  }
  return form(view, now);
}

PLAIT_DECL membership::verdict membership::look(membership_view const& view, std::string const& job,
                                                time now) {
  if (view.done) return verdict::over;
  if (view.job != job || view.number() < last_) return verdict::lost;
  if (view.number() != last_ || !view.failed.empty()) return verdict::over;
  bool has_joined = false;
  for (auto const& uid : view.now->members) {
    if (!view.has_stayed(uid)) return verdict::over;
    has_joined = has_joined || view.joined.contains(uid);
  }
  // If another member has already joined the next generation, this member is about to do so, too.
  // After `leaving_time` the generation is over for this member without a further step.
  if (has_joined && since(roll_began_, true, now) > leaving_time) return verdict::over;
  if (!view.now->closing.empty()) return verdict::go_on;
  int const ranks = static_cast<int>(view.now->members.size());
  int joining = 0;
  for (auto const& one : view.members) {
    auto const entry = view.joined.find(one.uid);
    if (view.now->rank_of(one.uid) < 0 && entry != view.joined.end() &&
        entry->second.leaving == 0 && !view.refused.contains(one.uid))
      ++joining;
  }
  bool const grows =
      std::min(terms_.max, (ranks + joining) / terms_.replica) * terms_.replica > ranks;
  return grows ? verdict::announce : verdict::go_on;
}

PLAIT_DECL membership::time membership::since(std::optional<time>& begin, bool is_so, time now) {
  if (!is_so) begin.reset();
  else if (!begin) begin = now;
  return begin ? now - *begin : time{0};
}

PLAIT_DECL void membership::forget() {
  roll_began_.reset();
  few_began_.reset();
  stateless_began_.reset();
  gather_began_.reset();
  joined_.reset();
}

PLAIT_DECL membership::action membership::form(membership_view const& view, time now) {
  // Living members of the last generation that have not joined the next one.
  std::vector<std::string> absent;
  bool is_all_there = true;  // true if no member of the last generation is gone
  if (view.now)
    for (auto const& uid : view.now->members) {
      is_all_there = is_all_there && view.has_stayed(uid);
      if (view.has(uid) && !view.joined.contains(uid) && !view.refused.contains(uid))
        absent.push_back(uid);
    }
  // The last generation is still running if all its members have stayed and none has joined the
  // next one or reported a failure. Members that have joined are then spares and wait.
  bool const has_ended = !view.now || std::ranges::any_of(view.now->members, [&](auto const& uid) {
    return !view.has_stayed(uid) || view.joined.contains(uid) || view.failed.contains(uid);
  });
  auto const waited = since(roll_began_, has_ended && view.now.has_value(), now);
  if (!has_ended) return {};
  if (!absent.empty()) {
    if (waited >= terms_.timeout) return {.what = act::revoke, .who = absent};
    return {.when = *roll_began_ + terms_.timeout};
  }

  std::vector<replica_candidate> staying, all;
  std::int64_t newest = 0;
  for (auto const& [uid, entry] : view.joined)
    if (view.has(uid) && !view.refused.contains(uid)) newest = std::max(newest, entry.step);
  for (auto const& one : view.members) {
    auto const entry = view.joined.find(one.uid);
    if (entry == view.joined.end() || view.refused.contains(one.uid)) continue;
    // A member that is one step behind the newest counts as trained, since it may be able to catch
    // up.
    bool const counts = entry->second.step > 0 && entry->second.step + 1 >= newest;
    replica_candidate const each{one.uid, one.host, counts ? entry->second.block : -1};
    all.push_back(each);
    if (entry->second.leaving == 0) staying.push_back(each);
  }
  bool const explained = !is_all_there || view.failed.empty();
  int const unexplained = explained ? 0 : view.now->unexplained + 1;
  if (unexplained > 1) leave_out(view, staying);

  // If a member of a generation that begins at step 0 is still here and no step is done, no state
  // can be missing.
  bool const has_begun =
      newest > 0 ||
      (view.now && (view.now->step > 0 || std::ranges::none_of(staying, [&](auto const& one) {
                      return view.now->rank_of(one.uid) >= 0;
                    })));
  bool const is_left = !has_begun || has_all_blocks(staying, terms_.replica);
  bool const needs_leaving = !is_left && has_all_blocks(all, terms_.replica);
  if (mine_.leaving != 0 && !needs_leaving) return {.what = act::leave};
  if (needs_leaving) {
    int signal = 0;
    for (auto const& one : all) signal = std::max(signal, view.joined.at(one.uid).leaving);
    if (signal != 0)
      return propose(view, all, newest, unexplained, "a signal has ended the job", signal);
  }

  int const replicas = std::min(terms_.max, static_cast<int>(staying.size()) / terms_.replica);
  auto const few = since(few_began_, replicas < terms_.min, now);
  if (replicas < terms_.min) {
    if (few < terms_.wait_for_members) return {.when = *few_began_ + terms_.wait_for_members};
    auto const why = concat({"there were fewer than ", terms_.min, " replicas for ",
                             terms_.wait_for_members.count(), " ms"});
    if (newest > 0 && has_all_blocks(staying, terms_.replica))
      return propose(view, staying, newest, unexplained, why, 0, 1);
    return {.what = act::end, .why = why};
  }
  auto const stateless = since(stateless_began_, view.now.has_value() && !is_left, now);
  if (stateless_began_ && stateless < terms_.wait_for_state)
    return {.when = *stateless_began_ + terms_.wait_for_state};
  auto const gathered = since(gather_began_, !view.now.has_value(), now);
  if (gather_began_ && gathered < terms_.gather && replicas < terms_.max)
    return {.when = *gather_began_ + terms_.gather};
  return propose(view, staying, newest, unexplained, "", 0);
}

PLAIT_DECL void membership::leave_out(membership_view const& view,
                                      std::vector<replica_candidate>& staying) const {
  std::map<std::string, int> votes;
  for (auto const& [who, named] : view.failed)
    if (!named.empty()) ++votes[named];
  auto worst = staying.end();
  // Among members that are blamed equally often, the youngest is left out.
  for (auto one = staying.begin(); one != staying.end(); ++one)
    if (votes[one->uid] > 0 && (worst == staying.end() || votes[one->uid] >= votes[worst->uid]))
      worst = one;
  if (worst != staying.end()) staying.erase(worst);
}

PLAIT_DECL membership::action membership::propose(membership_view const& view,
                                                  std::vector<replica_candidate> const& of,
                                                  std::int64_t newest, int unexplained,
                                                  std::string const& closing, int signal,
                                                  int replicas) const {
  auto const oldest = std::ranges::find_if(view.members, [&](auto const& one) {
    return view.joined.contains(one.uid) && !view.refused.contains(one.uid);
  });
  if (oldest->uid != uid_) return {};
  if (replicas == 0) replicas = std::min(terms_.max, static_cast<int>(of.size()) / terms_.replica);
  action out{.what = act::propose};
  out.next = {.number = view.number() + 1,
              .members = make_replicas(of, terms_.replica, std::max(replicas, 1)),
              .step = newest,
              .closing = closing,
              .signal = signal,
              .unexplained = unexplained};
  return out;
}

}  // namespace plait::detail
