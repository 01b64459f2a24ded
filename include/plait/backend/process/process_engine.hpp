// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plait/backend/collective_call.hpp"
#include "plait/backend/process/rendezvous_store.hpp"
#include "plait/backend/process_ranks.hpp"
#include "plait/core/clock.hpp"
#include "plait/core/error.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"

namespace plait::ext {

/// An engine cannot go on: a process is gone, or a library says that a call has failed.
struct engine_error : error {
  explicit engine_error(std::string const& text, int with = -1) : error(text), rank(with) {}

  int rank;  ///< the one to which the connection was lost, -1 where that is not known
};

/// A call has ended since one of the rank's other thread has failed, whose error says why.
struct other_thread_failed : engine_error {
  using engine_error::engine_error;
};

/// A call was left under way: the library may still read and write the memory of the call, which is
/// not to be used again.
struct call_left : engine_error {
  using engine_error::engine_error;
};

/// A way to wait between two looks at a call that has not ended, for a thread that runs beside one
/// that computes.
class call_pause {
 public:
  call_pause() = default;
  call_pause(call_pause const&) = delete;
  call_pause& operator=(call_pause const&) = delete;
  virtual ~call_pause() = default;

  /// `looks`: how often it was called for this call before.
  virtual void pause(int looks) = 0;
};

/// The names by which messages call a group and its members.
struct group_names {
  std::vector<int> ranks{};          ///< numbers of the members, in their order
  std::vector<std::string> hosts{};  ///< their machines; none where nobody knows
  std::string axes{};                ///< "data x tensor"
  int member = 0;                    ///< which of them this process is
};

/// One member of a group of processes: how an engine carries bytes between them. Ranks are those
/// within the group.
///
/// Meaning: all members make the same calls in the same order with the same sizes, which
///          process_communicator has compared before. Buffers of a call do not overlap, but `send`
///          may be this member's own block of `receive` where blocks are gathered.
/// Errors:  engine_error, or communication_timeout if the others do not come in time; or the
///          process is ended with a sentence on standard error, where a library cannot be left in
///          the middle of a call. Afterwards the whole engine is of no more use.
/// Threads: used by one thread, see process_engine.
class process_group {
 public:
  /// `ranks` are what messages call the members; this process is member `member`.
  process_group(std::vector<int> ranks, int member)
      : names_{.ranks = std::move(ranks), .member = member} {}
  process_group(process_group const&) = delete;
  process_group& operator=(process_group const&) = delete;
  virtual ~process_group() = default;

  /// What messages are to call the group from now on.
  virtual void name(group_names names) { names_ = std::move(names); }
  /// What the next calls are made for; messages about a wait that is too long say it. Null: nothing
  /// that a communicator was asked for. It stays valid until it is replaced.
  virtual void serve(detail::collective_call const* call) { call_ = call; }

  virtual void barrier() = 0;
  /// `bytes` are of one block, here and below.
  virtual void all_gather(void const* send, void* receive, std::size_t bytes) = 0;
  /// The blocks of `send` are `stride` bytes apart.
  virtual void all_to_all(void const* send, std::size_t stride, void* receive,
                          std::size_t bytes) = 0;
  virtual void broadcast(void* inout, std::size_t bytes, int root) = 0;
  /// Messages of one member to another come in order. send may return before they are received.
  virtual void send(void const* data, std::size_t bytes, int to) = 0;
  virtual void receive(void* data, std::size_t bytes, int from) = 0;
  /// The same, but they only begin: the memory is lent until wait_for_posted(place, the other end)
  /// has returned, with what they return. Messages that are posted and those that are not come in
  /// one order.
  virtual std::size_t post_send(void const* data, std::size_t bytes, int to) = 0;
  virtual std::size_t post_receive(void* data, std::size_t bytes, int from) = 0;
  virtual void wait_for_posted(std::size_t place, int other) = 0;
  /// Lets posted messages go on, for an engine that does so in its calls alone.
  virtual void go_on() {}
  /// Posted messages are not waited for any more. False if the library may still use their memory.
  [[nodiscard]] virtual bool give_up_posted() noexcept = 0;
  /// The engine's own sum or maximum, in an order of its own, the same bits on all members. False
  /// if it has none for this type; then nothing has been sent.
  virtual bool all_reduce(void* inout, std::size_t count, detail::element_type type,
                          reduction operation) = 0;

 protected:
  /// "rank 0 on host a: all_reduce of 8 bytes on group {0,1} (data)"; `function` is the engine's
  /// name of a call that no communicator was asked for.
  [[nodiscard]] [[gnu::cold]] std::string call_text(char const* function) const;
  /// What messages call a member.
  [[nodiscard]] int world_rank(int member) const { return names_.ranks[std::size_t(member)]; }
  /// "rank 1 on host b"
  [[nodiscard]] [[gnu::cold]] std::string member_text(int member) const;
  /// What messages call the others where nobody knows which of them has not come.
  [[nodiscard]] [[gnu::cold]] std::string others_text() const {
    return names_.ranks.size() == 2 ? member_text(1 - names_.member) : "the other ranks";
  }

 private:
  group_names names_;
  detail::collective_call const* call_ = nullptr;
};

/// An engine carries bytes between the processes of a job: MPI, Gloo. A program makes one for each
/// launch by `mpi()` or `gloo()`, which stand in headers of their own; only the source file that
/// calls them sees those of the library.
///
/// Threads: the rank's own makes groups and calls them. A second thread may call groups that were
///          made for it, at the same time.
class process_engine {
 public:
  process_engine() = default;
  process_engine(process_engine const&) = delete;
  process_engine& operator=(process_engine const&) = delete;
  virtual ~process_engine() = default;

  /// Which rank of how many this process is; `told`, if it is not null, is what the program says,
  /// before a group is made. May start the library.
  ///
  /// Errors: input_error if nobody says it, or two contradict each other.
  virtual process_ranks ranks(process_ranks const* told = nullptr) = 0;
  /// How long a rank waits for others.
  virtual void set_timeout(std::chrono::milliseconds timeout) = 0;
  /// The group of `members`, ranks as ranks() counts them, of which this process is one; they are
  /// numbered in the order given. All processes call it, as many times, with disjoint groups that
  /// together are all.
  virtual std::unique_ptr<process_group> make_group(std::vector<int> const& members) = 0;
  /// This process will make no more calls, since it has failed: tells the others if the library
  /// can, and ends the call of a second thread, which throws within a moment. Never waits. It may
  /// be called twice.
  virtual void abandon() noexcept = 0;

  /// Says before ranks() whether a second thread is to make calls, for a library that has to know
  /// it when it starts.
  virtual void want_second_thread(bool /*wanted*/) {}
  /// Behind ranks(): why there can be no groups for a second thread; "" where there can.
  [[nodiscard]] virtual std::string why_one_thread() {
    return "the engine makes no groups for a second thread";
  }
  /// As make_group, a group whose calls a second thread makes. Where that has to look at a call
  /// again and again until it has ended, it calls `pause` in between, which outlives the group.
  ///
  /// Errors: engine_error where why_one_thread() has said why.
  virtual std::unique_ptr<process_group> make_group_of_second_thread(
      std::vector<int> const& members, call_pause& pause);

  /// Leaves the processes of before and makes ready to meet those of `now`, by notes in `where`.
  ///
  /// Errors: input_error if the library's processes are those that were started.
  virtual void begin_anew(process_ranks const& now,
                          std::unique_ptr<detail::rendezvous_store> where);
  /// Ends the calls of the other threads, if they wait, and those that they make from now on until
  /// begin_anew: they throw engine_error. Any thread may call it.
  virtual void interrupt() noexcept {}
  /// While `on`, the time that waits for others take does not count: they stand still for a reason
  /// that is known. Any thread may call it.
  virtual void hold_timeouts(bool /*on*/) noexcept {}
};

[[gnu::cold]] inline std::unique_ptr<process_group> process_engine::make_group_of_second_thread(
    std::vector<int> const& /*members*/, call_pause& /*pause*/) {
  throw engine_error(why_one_thread());
}
[[gnu::cold]] inline void process_engine::begin_anew(
    process_ranks const& now, std::unique_ptr<detail::rendezvous_store> where) {
  throw input_error({where->name(), ": rank ", now.rank,
                     " cannot meet others there, as the engine has the processes that were started "
                     "together; write .engine = plait::gloo()"});
}

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/backend/process/process_engine.ipp"
#endif
