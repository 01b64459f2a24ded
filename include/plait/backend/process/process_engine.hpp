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

/// An engine cannot continue: a process has ended, or the library reports that a call has failed.
struct engine_error : error {
  explicit engine_error(std::string const& text, int with = -1) : error(text), rank(with) {}

  int rank;  ///< the rank to which the connection was lost, -1 if unknown
};

/// A call was ended because the rank's other thread has failed; the error of that thread says why.
struct other_thread_failed : engine_error {
  using engine_error::engine_error;
};

/// A call was abandoned while it was under way. The library may still read and write the memory of
/// the call, so it must not be used again.
struct call_left : engine_error {
  using engine_error::engine_error;
};

/// A way to wait between two polls of a call that has not ended, for a thread that shares the
/// processor with a computing thread.
class call_pause {
 public:
  call_pause() = default;
  call_pause(call_pause const&) = delete;
  call_pause& operator=(call_pause const&) = delete;
  virtual ~call_pause() = default;

  /// `looks`: number of earlier pauses for this call.
  virtual void pause(int looks) = 0;
};

/// The names of a group and its members in messages.
struct group_names {
  std::vector<int> ranks{};          ///< world ranks of the members, in group order
  std::vector<std::string> hosts{};  ///< the members' hosts; empty if unknown
  std::string axes{};                ///< "data x tensor"
  int member = 0;                    ///< the index of this process in `ranks`
};

/// One member of a group of processes: the way in which an engine carries bytes between them. Ranks
/// are numbers within the group.
///
/// Meaning: all members make the same calls in the same order with the same sizes;
///          process_communicator has compared them before. Buffers of a call do not overlap, except
///          that `send` may be this member's own block of `receive` in all_gather.
/// Errors:  engine_error, or communication_timeout if the other members do not arrive in time. If
///          the library cannot leave a call, the process is ended with a sentence on standard error
///          instead. After an error the whole engine is unusable.
/// Threads: used by one thread, see process_engine.
class process_group {
 public:
  /// `ranks` are the members' names in messages; this process is member `member`.
  process_group(std::vector<int> ranks, int member)
      : names_{.ranks = std::move(ranks), .member = member} {}
  process_group(process_group const&) = delete;
  process_group& operator=(process_group const&) = delete;
  virtual ~process_group() = default;

  /// Sets the names that messages use from now on.
  virtual void name(group_names names) { names_ = std::move(names); }
  /// Sets the call that the next operations carry out, which messages about a long wait name. It
  /// stays valid until it is replaced. Null: operations that no communicator was asked for.
  virtual void serve(detail::collective_call const* call) { call_ = call; }

  virtual void barrier() = 0;
  /// `bytes` is the size of one block, here and below.
  virtual void all_gather(void const* send, void* receive, std::size_t bytes) = 0;
  /// The blocks of `send` are `stride` bytes apart.
  virtual void all_to_all(void const* send, std::size_t stride, void* receive,
                          std::size_t bytes) = 0;
  virtual void broadcast(void* inout, std::size_t bytes, int root) = 0;
  /// Messages from one member to another arrive in order. send may return before they are received.
  virtual void send(void const* data, std::size_t bytes, int to) = 0;
  virtual void receive(void* data, std::size_t bytes, int from) = 0;
  /// Begins a message and returns its place. The memory must not be used before
  /// wait_for_posted(place, the other end) has returned. Posted messages and other messages arrive
  /// in one common order.
  virtual std::size_t post_send(void const* data, std::size_t bytes, int to) = 0;
  virtual std::size_t post_receive(void* data, std::size_t bytes, int from) = 0;
  virtual void wait_for_posted(std::size_t place, int other) = 0;
  /// Advances posted messages, for an engine that makes progress only inside its calls.
  virtual void go_on() {}
  /// Abandons posted messages. Returns false if the library may still use their memory.
  [[nodiscard]] virtual bool give_up_posted() noexcept = 0;
  /// Reduces in the engine's own order; all members get the same bits. Returns false, with nothing
  /// sent, if the engine does not have `operation` for this type.
  virtual bool all_reduce(void* inout, std::size_t count, detail::element_type type,
                          reduction operation) = 0;

 protected:
  /// "rank 0 on host a: all_reduce of 8 bytes on group {0,1} (data)". `function` is the engine's
  /// name for a call that no communicator was asked for.
  [[nodiscard]] [[gnu::cold]] std::string call_text(char const* function) const;
  /// The world rank of a member, its name in messages.
  [[nodiscard]] int world_rank(int member) const { return names_.ranks[std::size_t(member)]; }
  /// "rank 1 on host b"
  [[nodiscard]] [[gnu::cold]] std::string member_text(int member) const;
  /// The name of the members that are waited for, if it is unknown which of them has not arrived.
  [[nodiscard]] [[gnu::cold]] std::string others_text() const {
    return names_.ranks.size() == 2 ? member_text(1 - names_.member) : "the other ranks";
  }

 private:
  group_names names_;
  detail::collective_call const* call_ = nullptr;
};

/// Carries bytes between the processes of a job: MPI or Gloo. A program makes one for each launch
/// by `mpi()` or `gloo()`, whose headers it includes separately, so that only one source file sees
/// the library's headers.
///
/// Threads: the rank's own thread makes groups and calls them. A second thread may call, at the
///          same time, the groups that were made for it.
class process_engine {
 public:
  process_engine() = default;
  process_engine(process_engine const&) = delete;
  process_engine& operator=(process_engine const&) = delete;
  virtual ~process_engine() = default;

  /// Returns the rank of this process and the number of ranks. It is called before a group is made
  /// and may start the library. `told`, if it is not null, is the program's own statement of them.
  ///
  /// Errors: input_error if there is no statement of the rank, or two contradict each other.
  virtual process_ranks ranks(process_ranks const* told = nullptr) = 0;
  /// Sets how long a rank waits for others.
  virtual void set_timeout(std::chrono::milliseconds timeout) = 0;
  /// Makes the group of `members`, ranks as ranks() counts them, of which this process is one;
  /// members are numbered in the order given. All processes call it equally often. The groups of
  /// one round are disjoint and contain all processes.
  virtual std::unique_ptr<process_group> make_group(std::vector<int> const& members) = 0;
  /// Called when this process has failed and will make no more calls. Tells the other processes if
  /// the library can, and ends the call of a second thread, which then throws within a moment.
  /// Never waits. It may be called twice.
  virtual void abandon() noexcept = 0;

  /// Called before ranks(): a second thread will make calls, which some libraries have to know when
  /// they start.
  virtual void want_second_thread(bool /*wanted*/) {}
  /// Called after ranks(): the reason why a second thread can have no groups, or "".
  [[nodiscard]] virtual std::string why_one_thread() {
    return "the engine makes no groups for a second thread";
  }
  /// Makes a group, as make_group does, whose calls a second thread makes. If the engine has to
  /// poll a call until it has ended, it calls `pause` between two polls; `pause` outlives the
  /// group.
  ///
  /// Errors: engine_error if why_one_thread() is not "".
  virtual std::unique_ptr<process_group> make_group_of_second_thread(
      std::vector<int> const& members, call_pause& pause);

  /// Leaves the earlier processes and prepares to meet the processes `now`, by notes in `where`.
  ///
  /// Errors: input_error if the library can connect only the processes that were started together.
  virtual void begin_anew(process_ranks const& now,
                          std::unique_ptr<detail::rendezvous_store> where);
  /// Ends the calls in which other threads wait, and their further calls until begin_anew: these
  /// calls throw engine_error. Any thread may call it.
  virtual void interrupt() noexcept {}
  /// While `on`, waits for other ranks do not count towards the time-out, since the other ranks are
  /// paused for a known reason. Any thread may call it.
  virtual void hold_timeouts(bool /*on*/) noexcept {}
};

[[gnu::cold]] inline std::unique_ptr<process_group> process_engine::make_group_of_second_thread(
    std::vector<int> const& /*members*/, call_pause& /*pause*/) {
  throw engine_error(why_one_thread());
}
[[gnu::cold]] inline void process_engine::begin_anew(
    process_ranks const& now, std::unique_ptr<detail::rendezvous_store> where) {
  throw input_error({where->name(), ": rank ", now.rank,
                     " cannot meet others there, since the engine connects only processes that "
                     "were started together; write .engine = plait::gloo()"});
}

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/backend/process/process_engine.ipp"
#endif
