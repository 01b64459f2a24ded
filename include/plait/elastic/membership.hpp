// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plait/core/clock.hpp"
#include "plait/core/header_only.hpp"
#include "plait/elastic/replicas.hpp"

namespace plait::detail {

/// One generation of an elastic job, with its members in the order of their ranks.
struct generation_record {
  int number = 0;
  /// The uids of the members, replica by replica; within a replica, in the order of blocks.
  std::vector<std::string> members{};
  std::int64_t step = 0;  ///< the greatest number of steps that a member had done when it joined
  /// If the job ends in this generation, the generation does no step. `closing` is then the reason,
  /// and `signal` the number of the signal that is the reason, or 0. Otherwise `closing` is "" and
  /// `signal` is 0.
  std::string closing{};
  int signal = 0;
  /// The number of consecutive earlier generations that have failed although all members stayed
  /// alive.
  int unexplained = 0;

  [[nodiscard]] int rank_of(std::string const& uid) const;
};

/// The entry that a member writes when it waits for the next generation.
struct join_entry {
  std::int64_t step = 0;  ///< steps that the member has done; 0 without a trained state
  int block = -1;         ///< the block (part of the model) whose state the member has, or -1
  int leaving = 0;        ///< the number of the signal that the member has received, or 0
};

/// The keys of a job, as they are in the store at one moment. All decisions about membership are a
/// function of this view only; no events are counted.
struct membership_view {
  struct member {
    std::string uid, host;
    /// The revision of the store when this member joined; the oldest member has the smallest
    /// revision.
    std::int64_t created = 0;
    std::int64_t lease = 0;
  };
  std::int64_t revision = 0;
  std::string job{};              ///< the job's random number; "" if no job is in the store
  std::vector<member> members{};  ///< processes with a lease, the oldest first
  std::optional<generation_record> now{};
  std::int64_t now_modified = 0;  ///< the store's revision in which `now` was written, or 0
  /// Entries of members that wait for the generation after `now`.
  std::map<std::string, join_entry> joined{};
  /// Members that have reported that `now` has failed, each with the member that it blames, or "".
  std::map<std::string, std::string> failed{};
  /// Members that may not take part in the job, with the reasons; they are treated as gone.
  std::map<std::string, std::string> refused{};
  /// The reason for the end of the job, "" after success; nullopt if the job has not ended.
  std::optional<std::string> done{};

  [[nodiscard]] bool has(std::string const& uid) const { return find(uid) != nullptr; }
  [[nodiscard]] member const* find(std::string const& uid) const;
  [[nodiscard]] int number() const { return now ? now->number : 0; }
  /// Returns true if the member `uid` of the generation has kept its lease since the generation
  /// began.
  [[nodiscard]] bool has_stayed(std::string const& uid) const;
};

/// The possible numbers of replicas, and the longest waits, as in `elastic`.
struct membership_terms {
  int replica = 1;  ///< the number of members of a replica: tensor ranks times stages
  int min = 1, max = 1;
  /// Longest wait of the first generation for more than min replicas.
  std::chrono::milliseconds gather{5'000};
  /// Longest wait for a member of the last generation that does not join the next one.
  std::chrono::milliseconds timeout{60'000};
  /// Longest wait with fewer than min replicas.
  std::chrono::milliseconds wait_for_members{300'000};
  /// Longest wait if no member has the trained state.
  std::chrono::milliseconds wait_for_state{30'000};
};

/// The protocol by which processes become the ranks of a job, from one member's point of view. The
/// object gets views of the store and decides the member's next action. It neither communicates nor
/// has a clock, so that tests can run it step by step.
///
/// A generation ends for all when one member fails or a change is announced. Then each living
/// member writes that it joins the next one. When all have joined, the oldest member proposes the
/// next generation, and the store accepts only the first proposal. Example: of members a, b, c in
/// generation 4, c dies. When c's lease ends, a and b write join/4/a and join/4/b; a proposes
/// generation 5 with members a and b.
class membership {
 public:
  using time = std::chrono::milliseconds;  ///< time since an arbitrary moment; never decreases

  /// The action that a member takes next. After each action except `wait`, the caller reads the
  /// store again.
  enum class act {
    wait,   ///< wait for a change of the store, or until `when`
    enter,  ///< get a lease, and write this member's key
    join,   ///< write that this member joins the generation after `number`, and the member's state
    propose,  ///< write the generation `next`, if nothing has changed since the view
    revoke,   ///< revoke the leases of the members `who`, which have not joined in time
    begin,    ///< begin generation `next`, in which this member is rank `rank`
    leave,    ///< leave the job, as this member wished; the job continues without it
    end       ///< stop: the job has ended or refuses this member; `why` is "" after success
  };
  struct action {
    act what = act::wait;
    time when = time::max();
    int number = 0;
    generation_record next{};
    int rank = -1;
    std::vector<std::string> who{};
    std::string why{};
    bool is_refused = false;  ///< only after `end`: true if the job continues without this member
  };

  membership(std::string uid, membership_terms const& terms)
      : uid_(std::move(uid)), terms_(terms) {}

  [[nodiscard]] std::string const& uid() const { return uid_; }

  /// Records that this member is in no generation and waits for the next one; `mine` is its entry.
  void come_back(join_entry const& mine);

  /// Returns the next action of a member that waits for a generation.
  [[nodiscard]] action decide(membership_view const& view, time now);

  /// The result of looking at the store while a generation runs.
  enum class verdict {
    go_on,
    announce,  ///< the generation is to end after a step, so that members can join
    over,      ///< the generation has ended; the member must not wait for other members
    lost       ///< the store has lost data; the job is to end after a step
  };
  [[nodiscard]] verdict look(membership_view const& view, std::string const& job, time now);

 private:
  static constexpr time leaving_time{1'000};

  /// Returns for how long `is_so` has been true without interruption, as far as this member has
  /// seen; 0 if it is false. `begin` stores the time at which it became true, and is reset if
  /// `is_so` is false.
  static time since(std::optional<time>& begin, bool is_so, time now);
  void forget();

  /// Forms the next generation from the members that have joined.
  [[nodiscard]] action form(membership_view const& view, time now);

  /// Removes from `staying` the member that is blamed most often.
  void leave_out(membership_view const& view, std::vector<replica_candidate>& staying) const;

  /// Proposes a generation if this member is the oldest that has joined; otherwise waits for a
  /// proposal.
  [[nodiscard]] action propose(membership_view const& view,
                               std::vector<replica_candidate> const& of, std::int64_t newest,
                               int unexplained, std::string const& closing, int signal,
                               int replicas = 0) const;

  std::string uid_;
  membership_terms terms_;
  join_entry mine_{};
  int last_ = 0;  // the last generation that this member knows to have begun
  std::optional<int> joined_{};
  std::optional<time> roll_began_{}, few_began_{}, stateless_began_{}, gather_began_{};
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/elastic/membership.ipp"
#endif
