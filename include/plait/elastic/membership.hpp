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
  std::vector<std::string> members{};  ///< by replica, then by block
  std::int64_t step = 0;               ///< the newest that any of them had done at first
  /// Not "": why the job ends in this generation, which does no step; and the signal, if it is one.
  std::string closing{};
  int signal = 0;
  /// How many generations in a row, this one not counted, have ended though nobody was gone.
  int unexplained = 0;

  [[nodiscard]] int rank_of(std::string const& uid) const;
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
  [[nodiscard]] member const* find(std::string const& uid) const;
  [[nodiscard]] int number() const { return now ? now->number : 0; }
  /// Whether a member of the generation has been one all the time.
  [[nodiscard]] bool has_stayed(std::string const& uid) const;
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
  void come_back(join_entry const& mine);

  /// What a member that waits does.
  [[nodiscard]] action decide(membership_view const& view, time now);

  /// What a member of a running generation learns.
  enum class verdict {
    go_on,
    announce,  ///< it is to end after a step
    over,      ///< it has ended: nobody is to be waited for
    lost       ///< the store is not what it was: the job is to end after a step
  };
  [[nodiscard]] verdict look(membership_view const& view, std::string const& job, time now);

 private:
  static constexpr time leaving_time{1'000};

  /// How long something has been so, as this member has seen it.
  static time since(std::optional<time>& begin, bool is_so, time now);
  void forget();

  /// What is to become of those who have joined.
  [[nodiscard]] action form(membership_view const& view, time now);

  /// Of those that others cannot reach, the one that is named most often.
  void leave_out(membership_view const& view, std::vector<replica_candidate>& staying) const;

  /// The oldest of those who have joined proposes.
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
