// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plait/core/clock.hpp"
#include "plait/core/concat.hpp"
#include "plait/elastic/replicas.hpp"

namespace plait::detail {

/// The ranks of one generation of an elastic job.
struct generation_record {
  int number = 0;
  std::vector<std::string> members{};  ///< by replica, then by block
  std::int64_t step = 0;               ///< the newest that any of them had done at first
  /// Not "": why the job ends in this generation, which does no step; and the signal, if it is one.
  std::string closing{};
  int signal = 0;
  /// How many generations in a row, this one not counted, have ended though nobody was gone.
  int unexplained = 0;

  [[nodiscard]] int rank_of(std::string const& uid) const {
    auto const found = std::ranges::find(members, uid);
    return found == members.end() ? -1 : static_cast<int>(found - members.begin());
  }
};

/// What a member says of itself when it waits for the next generation.
struct join_entry {
  std::int64_t step = 0;  ///< steps that it has done, 0 if it has no state
  int block = -1;         ///< which part of the model it has the state of, -1 for none
  int leaving = 0;        ///< the signal that it has got, 0 for none
};

/// The keys of a job as they were at one moment. Membership is read as such a state and never
/// counted as events.
struct membership_view {
  struct member {
    std::string uid, host;
    std::int64_t created = 0;  ///< the revision at which it has come; the order of members
    std::int64_t lease = 0;
  };
  std::int64_t revision = 0;
  std::string job{};              ///< the number of the job; "" if there is none
  std::vector<member> members{};  ///< those with a lease, the oldest first
  std::optional<generation_record> now{};
  std::int64_t now_modified = 0;                ///< the revision of `now`, 0 if there is none
  std::map<std::string, join_entry> joined{};   ///< of `now`
  std::map<std::string, std::string> failed{};  ///< who has seen `now` fail, and whom it names
  /// Who has no place in the job, and why; it is as if they had gone.
  std::map<std::string, std::string> refused{};
  std::optional<std::string> done{};  ///< "" or what has ended the job

  [[nodiscard]] bool has(std::string const& uid) const { return find(uid) != nullptr; }
  [[nodiscard]] member const* find(std::string const& uid) const {
    auto const found = std::ranges::find(members, uid, &member::uid);
    return found == members.end() ? nullptr : &*found;
  }
  [[nodiscard]] int number() const { return now ? now->number : 0; }
  /// Whether a member of the generation has been one all the time.
  [[nodiscard]] bool has_stayed(std::string const& uid) const {
    auto const* const one = find(uid);
    return one != nullptr && one->created < now_modified && !refused.contains(uid);
  }
};

/// How many replicas a job may have, and how long is waited for what.
struct membership_terms {
  int replica = 1;  ///< members of a replica: tensor ranks times stages
  int min = 1, max = 1;
  std::chrono::milliseconds gather{5'000};              ///< for more than min, at first
  std::chrono::milliseconds timeout{60'000};            ///< for a member that does not join
  std::chrono::milliseconds wait_for_members{300'000};  ///< while there are fewer than min
  std::chrono::milliseconds wait_for_state{30'000};     ///< while nobody has what was trained
};

/// The protocol by which processes become the ranks of a job, as one of them follows it: a value
/// that sees the store's keys and says what to do. It neither talks nor has a clock.
///
/// A generation ends for all when one of them fails or when a change is announced. Then each member
/// that lives writes that it joins; when all have joined, the oldest proposes the next generation,
/// and the store takes one proposal for each.
class membership {
 public:
  using time = std::chrono::milliseconds;  ///< since any moment, going forward

  /// What to do about a view; after all but `wait` the store is looked at again.
  enum class act {
    wait,     ///< until the store changes, or `when`
    enter,    ///< get a lease, and write the key of a member
    join,     ///< write that this member joins the generation behind `number`, and what it brings
    propose,  ///< write `next` if nothing has changed since the view
    revoke,   ///< the leases of `who`, which have not joined
    begin,    ///< generation `next` as its rank `rank`
    leave,    ///< the job goes on without this member, as it has wished
    end       ///< the job has ended, or this member has no place in it: `why`, "" if it is done
  };
  struct action {
    act what = act::wait;
    time when = time::max();
    int number = 0;
    generation_record next{};
    int rank = -1;
    std::vector<std::string> who{};
    std::string why{};
    bool is_refused = false;  ///< of `end`: the job goes on
  };

  membership(std::string uid, membership_terms const& terms)
      : uid_(std::move(uid)), terms_(terms) {}

  [[nodiscard]] std::string const& uid() const { return uid_; }

  /// This member is in no generation now and waits for the next with this state.
  void come_back(join_entry const& mine) {
    mine_ = mine;
    joined_.reset();
  }

  /// What a member that waits does.
  [[nodiscard]] action decide(membership_view const& view, time now) {
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

  /// What a member of a running generation learns.
  enum class verdict {
    go_on,
    announce,  ///< it is to end after a step
    over,      ///< it has ended: nobody is to be waited for
    lost       ///< the store is not what it was: the job is to end after a step
  };
  [[nodiscard]] verdict look(membership_view const& view, std::string const& job, time now) {
    if (view.done) return verdict::over;
    if (view.job != job || view.number() < last_) return verdict::lost;
    if (view.number() != last_ || !view.failed.empty()) return verdict::over;
    bool has_joined = false;
    for (auto const& uid : view.now->members) {
      if (!view.has_stayed(uid)) return verdict::over;
      has_joined = has_joined || view.joined.contains(uid);
    }
    // Who has left after a step need not wait for those that are about to.
    if (has_joined && since(roll_began_, true, now) > leaving_time) return verdict::over;
    if (!view.now->closing.empty()) return verdict::go_on;
    int const ranks = static_cast<int>(view.now->members.size());
    int newcomers = 0;
    for (auto const& one : view.members) {
      auto const entry = view.joined.find(one.uid);
      if (view.now->rank_of(one.uid) < 0 && entry != view.joined.end() &&
          entry->second.leaving == 0 && !view.refused.contains(one.uid))
        ++newcomers;
    }
    bool const grows =
        std::min(terms_.max, (ranks + newcomers) / terms_.replica) * terms_.replica > ranks;
    return grows ? verdict::announce : verdict::go_on;
  }

 private:
  static constexpr time leaving_time{1'000};

  /// How long something has been so, as this member has seen it.
  static time since(std::optional<time>& begin, bool is_so, time now) {
    if (!is_so) begin.reset();
    else if (!begin) begin = now;
    return begin ? now - *begin : time{0};
  }
  void forget() {
    roll_began_.reset();
    few_began_.reset();
    stateless_began_.reset();
    gather_began_.reset();
    joined_.reset();
  }

  /// What is to become of those who have joined.
  [[nodiscard]] action form(membership_view const& view, time now) {
    std::vector<std::string> absent;  // of the last generation, alive, and have not joined
    bool is_all_there = true;         // of those that it had
    if (view.now)
      for (auto const& uid : view.now->members) {
        is_all_there = is_all_there && view.has_stayed(uid);
        if (view.has(uid) && !view.joined.contains(uid) && !view.refused.contains(uid))
          absent.push_back(uid);
      }
    // While a generation runs, those who have joined are spares.
    bool const has_ended =
        !view.now || std::ranges::any_of(view.now->members, [&](auto const& uid) {
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
      // Who is one step behind may have what it takes to catch up.
      bool const counts = entry->second.step > 0 && entry->second.step + 1 >= newest;
      replica_candidate const each{one.uid, one.host, counts ? entry->second.block : -1};
      all.push_back(each);
      if (entry->second.leaving == 0) staying.push_back(each);
    }
    bool const explained = !is_all_there || view.failed.empty();
    int const unexplained = explained ? 0 : view.now->unexplained + 1;
    if (unexplained > 1) leave_out(view, staying);

    // Who was there at the first step and has done none knows that nothing can be missing.
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

  /// Of those that others cannot reach, the one that is named most often.
  void leave_out(membership_view const& view, std::vector<replica_candidate>& staying) const {
    std::map<std::string, int> votes;
    for (auto const& [who, named] : view.failed)
      if (!named.empty()) ++votes[named];
    auto worst = staying.end();
    for (auto one = staying.begin(); one != staying.end(); ++one)  // of equals the youngest
      if (votes[one->uid] > 0 && (worst == staying.end() || votes[one->uid] >= votes[worst->uid]))
        worst = one;
    if (worst != staying.end()) staying.erase(worst);
  }

  /// The oldest of those who have joined proposes.
  [[nodiscard]] action propose(membership_view const& view,
                               std::vector<replica_candidate> const& of, std::int64_t newest,
                               int unexplained, std::string const& closing, int signal,
                               int replicas = 0) const {
    auto const oldest = std::ranges::find_if(view.members, [&](auto const& one) {
      return view.joined.contains(one.uid) && !view.refused.contains(one.uid);
    });
    if (oldest->uid != uid_) return {};
    if (replicas == 0)
      replicas = std::min(terms_.max, static_cast<int>(of.size()) / terms_.replica);
    action out{.what = act::propose};
    out.next = {.number = view.number() + 1,
                .members = make_replicas(of, terms_.replica, std::max(replicas, 1)),
                .step = newest,
                .closing = closing,
                .signal = signal,
                .unexplained = unexplained};
    return out;
  }

  std::string uid_;
  membership_terms terms_;
  join_entry mine_{};
  int last_ = 0;  // the last generation that this member knows to have begun
  std::optional<int> joined_{};
  std::optional<time> roll_began_{}, few_began_{}, stateless_began_{}, gather_began_{};
};

}  // namespace plait::detail
