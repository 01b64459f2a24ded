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

/// The ranks of one generation of an elastic job.
struct generation_record {
  int number = 0;
  std::vector<std::string> members{};  ///< replica by replica, in the order of blocks
  std::int64_t step = 0;  ///< greatest number of steps that a member had done when it joined
  /// The reason why the job ends in this generation, which does no step, or ""; and the signal, if
  /// that is the reason.
  std::string closing{};
  int signal = 0;
  /// Number of consecutive earlier generations that ended although all members were alive.
  int unexplained = 0;

  [[nodiscard]] int rank_of(std::string const& uid) const;
};

/// A member's entry when it waits for the next generation.
struct join_entry {
  std::int64_t step = 0;  ///< steps that it has done, 0 without a state
  int block = -1;         ///< the part of the model whose state it has, or -1
  int leaving = 0;        ///< the signal that it has received, or 0
};

/// The keys of a job at one moment. Membership is a function of such a view; events are never
/// counted.
struct membership_view {
  struct member {
    std::string uid, host;
    std::int64_t created = 0;  ///< the revision at which it joined; members are ordered by it
    std::int64_t lease = 0;
  };
  std::int64_t revision = 0;
  std::string job{};              ///< the job's random number; "" if there is no job
  std::vector<member> members{};  ///< members with a lease, the oldest first
  std::optional<generation_record> now{};
  std::int64_t now_modified = 0;               ///< the revision of `now`, or 0
  std::map<std::string, join_entry> joined{};  ///< members that wait for the generation after `now`
  /// Members that have seen `now` fail, each with the member that it blames, or "".
  std::map<std::string, std::string> failed{};
  /// Members that have no place in the job, and why; they count as gone.
  std::map<std::string, std::string> refused{};
  std::optional<std::string> done{};  ///< "" or the reason why the job has ended

  [[nodiscard]] bool has(std::string const& uid) const { return find(uid) != nullptr; }
  [[nodiscard]] member const* find(std::string const& uid) const;
  [[nodiscard]] int number() const { return now ? now->number : 0; }
  /// Returns true if a member of the generation has kept its lease since the generation began.
  [[nodiscard]] bool has_stayed(std::string const& uid) const;
};

/// The possible numbers of replicas, and the longest waits.
struct membership_terms {
  int replica = 1;  ///< members of a replica: tensor ranks times stages
  int min = 1, max = 1;
  std::chrono::milliseconds gather{5'000};    ///< longest wait for more than min, at first
  std::chrono::milliseconds timeout{60'000};  ///< longest wait for a member that does not join
  std::chrono::milliseconds wait_for_members{300'000};  ///< longest wait with fewer than min
  std::chrono::milliseconds wait_for_state{30'000};     ///< longest wait without the trained state
};

/// The protocol by which processes become the ranks of a job, from one member's point of view. It
/// is a value that reads views of the store and decides the next action. It neither communicates
/// nor has a clock, so that tests can drive it.
///
/// A generation ends for all when one member fails or a change is announced. Then each living
/// member writes that it joins. When all have joined, the oldest proposes the next generation, and
/// the store accepts one proposal for each. Example: of members a, b, c in generation 4, c dies.
/// When c's lease ends, a and b write join/4/a and join/4/b; a proposes generation 5 with members a
/// and b.
class membership {
 public:
  using time = std::chrono::milliseconds;  ///< since an arbitrary moment; never decreases

  /// The action after a view; after each of them except `wait` the caller reads the store again.
  enum class act {
    wait,     ///< wait for a change of the store, or until `when`
    enter,    ///< get a lease, and write a member's key
    join,     ///< write that this member joins the generation after `number`, and its state
    propose,  ///< write `next` if nothing has changed since the view
    revoke,   ///< revoke the leases of `who`, which have not joined
    begin,    ///< begin generation `next` as its rank `rank`
    leave,    ///< leave the job, as this member wished; the job continues
    end       ///< end: the job has ended, or refuses this member; `why`, "" after success
  };
  struct action {
    act what = act::wait;
    time when = time::max();
    int number = 0;
    generation_record next{};
    int rank = -1;
    std::vector<std::string> who{};
    std::string why{};
    bool is_refused = false;  ///< true if the job continues without this member after `end`
  };

  membership(std::string uid, membership_terms const& terms)
      : uid_(std::move(uid)), terms_(terms) {}

  [[nodiscard]] std::string const& uid() const { return uid_; }

  /// This member is in no generation now, and waits for the next one with this state.
  void come_back(join_entry const& mine);

  /// Returns the next action of a waiting member.
  [[nodiscard]] action decide(membership_view const& view, time now);

  /// The verdict on a running generation.
  enum class verdict {
    go_on,
    announce,  ///< the generation is to end after a step
    over,      ///< the generation has ended; no member must be waited for
    lost       ///< the store has lost data; the job is to end after a step
  };
  [[nodiscard]] verdict look(membership_view const& view, std::string const& job, time now);

 private:
  static constexpr time leaving_time{1'000};

  /// Returns for how long `is_so` has held in this member's sight; resets `begin` if it does not.
  static time since(std::optional<time>& begin, bool is_so, time now);
  void forget();

  /// Forms the next generation from the members that have joined.
  [[nodiscard]] action form(membership_view const& view, time now);

  /// Removes the member that is blamed most often.
  void leave_out(membership_view const& view, std::vector<replica_candidate>& staying) const;

  /// Proposes a generation if this member is the oldest that has joined; else waits.
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
