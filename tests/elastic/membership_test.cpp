// SPDX-License-Identifier: Apache-2.0
// test: timeout=120 seconds=8 optimise header_only
//
// The protocol of an elastic job against a simulated store. Members are killed, stopped, cut off
// and dismissed at any moment, and time passes between their reads and writes. At times no member
// can reach the store.
#include "plait/elastic/membership.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace {

using namespace plait::detail;
using act = membership::act;
using verdict = membership::verdict;
using std::chrono::milliseconds;

// ---- The pure function that makes replicas

TEST(Replicas, KeepWhoHasTheStateAndFillUpWithTheOthers) {
  std::vector<replica_candidate> const of{
      {"a", "x", 1}, {"b", "x", -1}, {"c", "y", 0}, {"d", "y", -1}, {"e", "x", 0}};
  EXPECT_EQ(make_replicas(of, 2, 2), (std::vector<std::string>{"c", "a", "e", "b"}));
  EXPECT_EQ(make_replicas(of, 2, 1), (std::vector<std::string>{"c", "a"}));
  EXPECT_EQ(make_replicas(of, 1, 5), (std::vector<std::string>{"c", "e", "b", "d", "a"}));
}

TEST(Replicas, AreOnOneHostWhereTheyCan) {
  std::vector<replica_candidate> const of{
      {"a", "x"}, {"b", "y"}, {"c", "x"}, {"d", "y"}, {"e", "z"}};
  EXPECT_EQ(make_replicas(of, 2, 2), (std::vector<std::string>{"a", "c", "b", "d"}));
}

// ---- The simulated store, and the actions of members besides the protocol

struct simulated_store {
  std::int64_t revision = 1;
  std::string job = "j";
  std::map<std::string, membership_view::member> members;
  std::optional<generation_record> now;
  std::int64_t now_modified = 0;
  std::map<std::string, join_entry> joined;
  std::map<std::string, std::string> failed;
  std::map<std::string, std::string> refused;
  std::optional<std::string> done;

  [[nodiscard]] membership_view view() const {
    membership_view out{.revision = revision,
                        .job = job,
                        .now = now,
                        .now_modified = now_modified,
                        .joined = joined,
                        .failed = failed,
                        .refused = refused,
                        .done = done};
    for (auto const& [uid, one] : members) out.members.push_back(one);
    std::ranges::sort(out.members, {}, &membership_view::member::created);
    return out;
  }
  void lose(std::string const& uid) {
    ++revision;
    members.erase(uid);
    joined.erase(uid);  // the entry is bound to the lease
    failed.erase(uid);
  }
};

/// The exchanges of the ranks of a generation, as barriers: number b is complete when all ranks
/// have reached it.
struct simulated_generation {
  struct options {
    bool are_accepted;
    int which;
  };
  generation_record record;
  std::map<std::string, options> brought{};
  std::map<std::string, int> arrived{};  // the number of barriers that each rank has reached
  std::map<std::string, std::pair<std::int64_t, bool>>
      shown{};                   // step + 1 (0: none), and true if ready
  std::set<std::string> sent{};  // ranks that have sent their state to the others of their block
  [[nodiscard]] bool is_complete(int barrier) const {
    return std::ranges::all_of(record.members, [&](auto const& uid) {
      auto const found = arrived.find(uid);
      return found != arrived.end() && found->second >= barrier;
    });
  }
};

enum class mutant {
  none,
  no_swap,
  no_transfer,
  no_watch,
  overwritten,
  no_lease_check,
  events,
  outages_count,
  not_compared,
  taken_again
};

struct process {
  enum phase { waiting, rendezvous, receiving, training, gone };
  std::string uid;
  membership of;
  phase where = waiting;
  bool is_stopped = false;
  bool is_cut_off = false;
  int leaving = 0;
  // The state, which outlives generations.
  std::int64_t step = 0;
  bool is_whole = true, is_ready = false, has_arrived = false;
  int block = -1;
  // The view that was read, and the action that follows from it.
  std::optional<membership_view> read{};
  std::optional<membership::action> todo{};
  std::int64_t created = 0;  // the revision of the key under which it was a member
  int generation = 0, rank = -1, barrier = 0;
  std::int64_t waits_since = 0, deaf_until = 0;
  bool could_catch_up = false;  // true if it could catch up when its state was given up
  int options = 0;              // the options with which it joins
  bool is_accepted = false, hangs = false;
};

class simulation {
 public:
  static constexpr std::int64_t last_step = 15;
  static constexpr char const* not_waited = "the job has ended as if members had been waited for";
  simulation(std::uint64_t seed, mutant which) : random_(seed), mutant_(which) {
    terms_.replica = pick(3) == 0 ? 2 : 1;
    terms_.min = 1 + pick(2);
    terms_.max = terms_.min + pick(3);
    terms_.gather = milliseconds{20};
    terms_.timeout = milliseconds{400};
    terms_.wait_for_members = milliseconds{20000};  // longer than any event except outages
    terms_.wait_for_state = milliseconds{3000};
    int const count = terms_.replica * terms_.min + pick(3);
    for (int i = 0; i < count; ++i) add();
  }

  /// Returns the first problem, or "".
  std::string run() {
    constexpr int faulty = 1000, most = 40000;
    for (int turn = 0; turn < most && problem_.empty(); ++turn) {
      now_ += milliseconds{1 + (pick(50) == 0 ? pick(100) : 0)};
      if (turn < faulty && pick(10) == 0) fault();
      if (is_away_ && (turn >= faulty || pick(25) == 0)) end_outage();
      if (turn == faulty) mend();
      if (turn > faulty && pick(100) == 0)
        for (auto const& uid : dead_leases_) lose(uid);
      std::erase_if(processes_, [](auto const& one) { return one->where == process::gone; });
      if (!processes_.empty()) act_one(*processes_[std::size_t(pick(int(processes_.size())))]);
      std::erase_if(processes_, [](auto const& one) { return one->where == process::gone; });
      if (turn > faulty && processes_.empty()) return "";
      // A launcher starts the missing processes.
      if (turn >= faulty && !store_.done && int(processes_.size()) < terms_.replica * terms_.min)
        add();
    }
    if (std::getenv("PLAIT_TRACE") != nullptr) std::printf("%s\n", trace_.c_str());
    return problem_.empty() ? "no end: " + state() : problem_;
  }
  [[nodiscard]] int generations() const { return int(generations_.size()); }
  [[nodiscard]] bool has_lost() const { return lost_ > 0; }

 private:
  int pick(int below) { return int(random_() % std::uint64_t(below)); }
  void add() {
    auto const uid = "m" + std::to_string(next_++);
    processes_.push_back(std::make_unique<process>(process{uid, membership(uid, terms_)}));
    for (auto const& one : processes_)
      if (one->is_accepted) processes_.back()->options = one->options;
  }
  process* any() {
    return processes_.empty() ? nullptr
                              : processes_[std::size_t(pick(int(processes_.size())))].get();
  }
  [[nodiscard]] std::string state() const {
    std::string out = "generation " + std::to_string(store_.now ? store_.now->number : 0);
    for (auto const& one : processes_)
      out +=
          " " + one->uid + ":" + std::to_string(int(one->where)) + "/" + std::to_string(one->step);
    return out;
  }

  void lose(std::string const& uid) {
    if (over_since_ == 0 && store_.now && store_.now->rank_of(uid) >= 0) over_since_ = now_.count();
    store_.lose(uid);
  }

  /// The time that members count.
  [[nodiscard]] membership::time counted() const {
    return mutant_ == mutant::outages_count ? now_ : now_ - away_;
  }
  void begin_outage() {
    is_away_ = true;
    away_since_ = now_;
  }
  /// After an outage either all leases have ended, or the store has restarted with its data and
  /// prolongs them.
  void end_outage() {
    now_ += milliseconds{1000 * pick(40)};
    auto const lasted = now_ - away_since_;
    is_away_ = false;
    away_ += lasted;
    for (auto& one : processes_) {
      one->waits_since += lasted.count();
      one->deaf_until = now_.count();
    }
    if (pick(2) == 0)
      for (auto const& one : store_.view().members) lose(one.uid);
  }

  void fault() {
    if (is_away_) return;
    if (pick(20) == 0) return begin_outage();
    auto* const one = any();
    switch (pick(9)) {
      case 0:
        if (one != nullptr) kill(*one);
        break;
      case 1:
        if (one != nullptr) one->is_stopped = true;
        break;
      case 2:
        if (one != nullptr) one->is_stopped = false;
        break;
      case 3:  // a lease that was not renewed in time
        if (one != nullptr && (one->is_stopped || one->is_cut_off)) lose(one->uid);
        break;
      case 4:
        if (one != nullptr && pick(4) == 0) one->leaving = 15;
        break;
      case 5:
        if (one != nullptr) one->is_cut_off = !one->is_cut_off;
        break;
      default:
        if (processes_.size() >= 9) break;
        add();
        if (pick(4) == 0 && std::ranges::any_of(processes_, &process::is_accepted,
                                                [](auto const& of) -> process& { return *of; }))
          processes_.back()->options ^= 1;
    }
    for (auto const& uid : dead_leases_)
      if (pick(2) == 0) lose(uid);
  }
  void kill(process& one) {
    one.where = process::gone;
    if (pick(2) == 0) lose(one.uid);  // a launcher ends it
    else dead_leases_.insert(one.uid);
  }
  void mend() {
    is_mended_ = true;
    for (auto& one : processes_) {
      one->is_stopped = one->is_cut_off = false;
      if (one->hangs) kill(*one);
    }
    for (auto const& uid : dead_leases_) lose(uid);
  }

  void act_one(process& me) {
    if (me.is_stopped || me.is_cut_off) me.deaf_until = now_.count();
    if (me.is_stopped || me.hangs) return;
    if (me.where == process::waiting) {
      if (me.is_cut_off || is_away_) return;
      if (me.todo) return carry_out(me);
      if (me.leaving != 0 && pick(2) == 0) come_back(me);
      me.read = store_.view();
      if (mutant_ == mutant::taken_again) me.read->refused.clear();
      me.todo = me.of.decide(*me.read, counted());
      if (mutant_ == mutant::events && me.todo->what == act::join && me.generation > 0)
        me.todo->number += 1;  // counts the changes that it has seen
      return;
    }
    if (!me.is_cut_off && !is_away_ && mutant_ != mutant::no_watch && pick(2) == 0) {
      auto const what = me.of.look(store_.view(), "j", counted());
      if (what == verdict::over || what == verdict::lost) return come_back(me);
      announced_ = announced_ || what == verdict::announce;
    }
    train(me);
  }

  void come_back(process& me) {
    me.where = process::waiting;
    me.todo.reset();
    me.of.come_back({.step = me.is_whole ? me.step : 0,
                     .block = me.is_whole && me.step > 0 ? me.block : -1,
                     .leaving = me.leaving});
  }

  void carry_out(process& me) {
    auto const todo = *std::exchange(me.todo, std::nullopt);
    if (trace_.size() < 20000)
      trace_ +=
          me.uid + ":" + std::to_string(int(todo.what)) + "@" + std::to_string(now_.count()) + " ";
    bool const is_member = store_.members.contains(me.uid);
    switch (todo.what) {
      case act::wait: break;
      case act::enter:
        if (!is_member) {
          store_.members[me.uid] = {me.uid, "h" + std::to_string(me.uid.size() % 2),
                                    ++store_.revision};
          dead_leases_.erase(me.uid);
        }
        break;
      case act::join:
        if (is_member && (store_.now ? store_.now->number : 0) == todo.number) {
          ++store_.revision;
          store_.joined[me.uid] = {.step = me.is_whole ? me.step : 0,
                                   .block = me.is_whole && me.step > 0 ? me.block : -1,
                                   .leaving = me.leaving};
        }
        break;
      case act::propose: {
        if (todo.next.closing.starts_with("there were fewer")) problem_ = not_waited;
        bool fits = store_.now_modified == me.read->now_modified && !store_.done;
        for (auto const& uid : todo.next.members) {
          auto const* const seen = me.read->find(uid);
          fits = fits && store_.members.contains(uid) &&
                 store_.members.at(uid).created == seen->created;
        }
        if (mutant_ == mutant::no_swap) fits = true;
        if (!fits) break;
        if (store_.now && todo.next.number <= store_.now->number) {
          problem_ = "generation " + std::to_string(todo.next.number) + " begins twice";
          break;
        }
        for (auto const& uid : todo.next.members)
          if (store_.refused.contains(uid)) problem_ = uid + " is refused, and in a generation";
        store_.now = todo.next;
        store_.now_modified = ++store_.revision;
        store_.joined.clear();
        store_.failed.clear();
        generations_[todo.next.number].record = todo.next;
        announced_ = false;
        over_since_ = 0;
        break;
      }
      case act::revoke:
        for (auto const& uid : todo.who) lose(uid);
        break;
      case act::begin:
        me.where = process::rendezvous;
        me.generation = todo.next.number;
        me.rank = todo.rank;
        me.barrier = 1;
        me.created = store_.members.contains(me.uid) ? store_.members.at(me.uid).created : 0;
        me.waits_since = now_.count();
        if (me.step > 0 && me.block != todo.rank % terms_.replica) me.is_whole = false;
        me.block = todo.rank % terms_.replica;
        break;
      case act::leave:
        if (me.leaving == 0) problem_ = "a member leaves that has not wished to";
        kill(me);
        break;
      case act::end:
        if (todo.why.starts_with("there were fewer")) problem_ = not_waited;
        if (todo.is_refused && me.is_accepted)
          problem_ = me.uid + " is refused, and has trained the job";
        kill(me);
    }
  }

  bool pass(process& me, simulated_generation& here) {
    if (here.arrived[me.uid] < me.barrier) {
      here.arrived[me.uid] = me.barrier;
      me.waits_since = now_.count();
    }
    if (here.is_complete(me.barrier)) {
      ++me.barrier;
      return true;
    }
    // The wait has timed out.
    if (now_.count() - me.waits_since > 1000 && !me.is_cut_off && !is_away_) {
      if (over_since_ > 0 && now_.count() - std::max(over_since_, me.deaf_until) > 900 &&
          store_.now->number == me.generation)
        problem_ = "nobody has told " + me.uid + " that its generation is over";
      if (store_.now && store_.now->number == me.generation && store_.members.contains(me.uid)) {
        ++store_.revision;
        store_.failed[me.uid] = "";
      }
      come_back(me);
    }
    return false;
  }

  void train(process& me) {
    auto& here = generations_[me.generation];
    if (here.record.rank_of(me.uid) < 0) problem_ = me.uid + " trains outside its generation";
    switch (me.where) {
      case process::rendezvous: {
        here.shown[me.uid] = {me.is_whole ? me.step + 1 : 0, me.is_ready};
        here.brought[me.uid] = {me.is_accepted, me.options};
        if (!pass(me, here)) return;
        if (mutant_ != mutant::not_compared && !compare(me, here)) return;
        std::int64_t newest = 0;
        for (auto const& [uid, shown] : here.shown) newest = std::max(newest, shown.first);
        if (newest <= 1) return start_at(me, 0);
        auto const has = [&](std::string const& uid) {
          auto const [step, ready] = here.shown.at(uid);
          return step == newest || (step + 1 == newest && ready);
        };
        for (int block = 0; block < terms_.replica; ++block) {
          bool found = false;
          for (std::size_t i = std::size_t(block); i < here.record.members.size();
               i += std::size_t(terms_.replica))
            found = found || has(here.record.members[i]);
          if (!found) {
            check_lost(here);
            return start_at(me, 0);
          }
        }
        if (has(me.uid) && !(mutant_ == mutant::overwritten && me.step + 1 < newest)) {
          start_at(me, newest - 1);
          here.sent.insert(me.uid);
          return;
        }
        me.could_catch_up = me.is_whole && me.step > 0 && has(me.uid);
        me.is_whole = false;
        me.step = newest - 1;
        me.where = process::receiving;
        me.waits_since = now_.count();
        return;
      }
      case process::receiving:
        for (std::size_t i = std::size_t(me.block); i < here.record.members.size();
             i += std::size_t(terms_.replica))
          if (here.sent.contains(here.record.members[i])) return start_at(me, me.step);
        if (now_.count() - me.waits_since > 300 && !is_away_) come_back(me);
        return;
      case process::training: {
        // Without a lease no member updates, nor is the end recorded.
        if (is_away_ && now_ - away_since_ > milliseconds{100}) return;
        if (!here.record.closing.empty()) {
          if (is_away_ || !pass(me, here)) return;
          store_.done = here.record.closing;
          ++store_.revision;
          return kill(me);
        }
        if (me.step == last_step) {
          if (is_away_ || !pass(me, here)) return;
          store_.done = "";
          ++store_.revision;
          return kill(me);
        }
        me.is_ready = true;
        if (mutant_ != mutant::no_transfer) {
          if (!me.has_arrived && !pass(me, here)) return;
          me.has_arrived = true;
        }
        bool const counts =
            store_.members.contains(me.uid) && store_.members.at(me.uid).created == me.created;
        if (!counts && mutant_ != mutant::no_lease_check) return come_back(me);
        if (!counts) problem_ = me.uid + " updates without a lease";
        commit(me, here);
        return;
      }
      default: return;
    }
  }
  /// Returns false if the generation ends because members have joined with different options.
  bool compare(process& me, simulated_generation& here) {
    auto const& all = here.brought;
    bool const is_same =
        std::ranges::all_of(all, [&](auto const& one) { return one.second.which == me.options; });
    if (is_same) return true;
    std::set<int> accepted;
    for (auto const& [uid, what] : all)
      if (what.are_accepted) accepted.insert(what.which);
    if (accepted.size() != 1) {  // all members end
      store_.done = "members differ";
      ++store_.revision;
      kill(me);
      return false;
    }
    if (store_.now->number == me.generation && !me.is_cut_off && !is_away_)
      for (auto const& [uid, what] : all)
        if (what.which != *accepted.begin()) {
          store_.refused[uid] = "other options";
          ++store_.revision;
        }
    if (me.options == *accepted.begin()) come_back(me);
    else if (is_mended_ || pick(2) == 0) kill(me);
    else me.hangs = true;
    return false;
  }
  void start_at(process& me, std::int64_t step) {
    me.step = step;
    me.is_whole = true;
    me.is_ready = me.has_arrived = false;
    me.where = process::training;
    me.waits_since = now_.count();
  }
  void commit(process& me, simulated_generation& here) {
    ++me.step;
    me.is_ready = me.has_arrived = false;
    me.is_accepted = true;
    for (auto const& [uid, what] : here.brought)
      if (what.are_accepted && what.which != me.options)
        problem_ = me.uid + " trains with other options than " + uid;
    for (auto const& one : processes_)
      if (one->generation == me.generation && one->where == process::training && one.get() != &me)
        if (std::abs(one->step - me.step) > 1) problem_ = "members are two steps apart";
    for (auto const& one : processes_)  // a member that is late must be able to catch up
      if (one->generation == me.generation && one->where == process::training &&
          one->step + 1 == me.step && !one->is_ready)
        problem_ = one->uid + " is behind and cannot catch up";
    if (announced_ && pick(2) == 0) come_back(me);
  }
  /// Counts a block whose members are all gone. No member that could have continued may have given
  /// up its state.
  void check_lost(simulated_generation const& here) {
    ++lost_;
    for (auto const& one : processes_)
      if (one->could_catch_up && here.record.rank_of(one->uid) >= 0)
        problem_ = one->uid + " has given up its state, and nobody has it now";
  }

  std::mt19937_64 random_;
  mutant mutant_;
  membership_terms terms_;
  simulated_store store_;
  std::map<int, simulated_generation> generations_;
  std::vector<std::unique_ptr<process>> processes_;
  std::set<std::string> dead_leases_;
  membership::time now_{1}, away_{0}, away_since_{0};
  bool is_away_ = false, is_mended_ = false;
  bool announced_ = false;
  std::int64_t over_since_ = 0;
  int next_ = 0, lost_ = 0;
  std::string problem_, trace_;
};

struct tally {
  int problems = 0, generations = 0, lost = 0;
  std::string first, texts;  // texts of problems
};
tally run(int seeds, mutant which) {
  tally out;
  char const* const only = std::getenv("PLAIT_SEED");
  for (int seed = only == nullptr ? 0 : std::atoi(only); seed < seeds; ++seed) {
    simulation one(std::uint64_t(seed) + 1, which);
    auto const problem = one.run();
    out.generations += one.generations();
    out.lost += one.has_lost();
    if (problem.empty()) continue;
    out.texts += problem + "\n";
    if (out.problems++ == 0) out.first = "seed " + std::to_string(seed) + ": " + problem;
  }
  return out;
}

int schedules() {
  char const* const wanted = std::getenv("PLAIT_SCHEDULES");
  return wanted == nullptr ? 3000 : std::atoi(wanted);
}

TEST(Membership, HoldsOnRandomSchedules) {
  auto const got = run(schedules(), mutant::none);
  EXPECT_EQ(got.problems, 0) << got.first;
  std::printf("%d schedules, %d generations, %d began anew\n", schedules(), got.generations,
              got.lost);
  EXPECT_GT(got.generations, 2 * schedules());
}

TEST(Membership, ItsMutantsAreFound) {
  std::vector<std::pair<mutant, std::string>> const all{
      {mutant::no_swap, "begins twice"},
      {mutant::no_transfer, "members are two steps apart"},
      {mutant::no_watch, "nobody has told"},
      {mutant::overwritten, "has given up its state"},
      {mutant::no_lease_check, "updates without a lease"},
      {mutant::events, "no end"},
      {mutant::outages_count, "as if members had been waited for"},
      {mutant::not_compared, "trains with other options than"},
      {mutant::taken_again, "is refused, and in a generation"}};
  for (auto const& [which, says] : all) {
    bool const is_rare = which == mutant::overwritten || which == mutant::events;
    auto const got = run(is_rare ? 4000 : 400, which);
    EXPECT_GT(got.problems, 0) << says;
    EXPECT_NE(got.texts.find(says), std::string::npos) << says << " is not: " << got.first;
  }
}

}  // namespace
