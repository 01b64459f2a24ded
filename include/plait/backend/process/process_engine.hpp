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

/// The exception of an engine that cannot continue: a process has ended, or the communication
/// library reports that a call has failed.
struct engine_error : error {
  explicit engine_error(std::string const& text, int with = -1) : error(text), rank(with) {}

  int rank;  ///< rank to which the connection was lost; -1 if unknown
};

/// The exception of a call that was ended because the rank's other thread has failed; the error of
/// that thread gives the reason.
struct other_thread_failed : engine_error {
  using engine_error::engine_error;
};

/// The exception of a call that was abandoned while it was under way. The library may still read
/// and write the memory of the call, so this memory must not be freed or used again.
struct call_left : engine_error {
  using engine_error::engine_error;
};

/// The function with which an engine's thread waits between two polls of a call. It leaves the
/// processor to the thread that computes.
class call_pause {
 public:
  call_pause() = default;
  call_pause(call_pause const&) = delete;
  call_pause& operator=(call_pause const&) = delete;
  virtual ~call_pause() = default;

  /// Waits for a short time. `looks`: number of earlier pauses in the same call.
  virtual void pause(int looks) = 0;
};

/// The names by which error messages describe a group and its members.
struct group_names {
  std::vector<int> ranks{};          ///< world ranks of the members, in group order
  std::vector<std::string> hosts{};  ///< hosts of the members; empty if unknown
  std::string axes{};                ///< text such as "data x tensor"
  int member = 0;                    ///< the index of this process in `ranks`
};

/// One member of a group of processes, implemented by an engine (MPI or Gloo): transfers bytes
/// between the members. A rank, in this class, is an index in the group.
///
/// Meaning: all members make the same calls in the same order with the same sizes;
///          process_communicator compares the calls first. The buffers of a call do not overlap,
///          except that `send` of all_gather may be this member's own block of `receive`.
/// Errors:  engine_error, or communication_timeout if the other members do not arrive in time. If
///          the library cannot return from a call, the process is ended instead, with a message on
///          standard error. After an error the whole engine is unusable.
/// Threads: used by one thread, see process_engine.
class process_group {
 public:
  /// `ranks`: numbers of the members in error messages; `member`: the index of this process among
  /// them.
  process_group(std::vector<int> ranks, int member)
      : names_{.ranks = std::move(ranks), .member = member} {}
  process_group(process_group const&) = delete;
  process_group& operator=(process_group const&) = delete;
  virtual ~process_group() = default;

  /// Sets the names that error messages use from now on.
  virtual void name(group_names names) { names_ = std::move(names); }
  /// Sets the call of a communicator to which the next operations belong; messages about a long
  /// wait name this call. The object must stay valid until the next serve(). Null: the next
  /// operations belong to no call of a communicator.
  virtual void serve(detail::collective_call const* call) { call_ = call; }

  virtual void barrier() = 0;
  /// Gathers the block `send` of each member into `receive`; `bytes` is the size of one block.
  virtual void all_gather(void const* send, void* receive, std::size_t bytes) = 0;
  /// Sends block j of `send` to member j, and stores the block from member i as block i of
  /// `receive`. Each block has `bytes` bytes; the blocks of `send` begin `stride` bytes apart.
  virtual void all_to_all(void const* send, std::size_t stride, void* receive,
                          std::size_t bytes) = 0;
  virtual void broadcast(void* inout, std::size_t bytes, int root) = 0;
  /// Messages from one member to another arrive in order. send may return before the message is
  /// received.
  virtual void send(void const* data, std::size_t bytes, int to) = 0;
  virtual void receive(void* data, std::size_t bytes, int from) = 0;
  /// Begins to send a message and returns a handle of the message, called its place. The memory
  /// must not be used until wait_for_posted(place, peer) has returned. Posted messages and messages
  /// of send() arrive in one common order.
  virtual std::size_t post_send(void const* data, std::size_t bytes, int to) = 0;
  virtual std::size_t post_receive(void* data, std::size_t bytes, int from) = 0;
  virtual void wait_for_posted(std::size_t place, int other) = 0;
  /// Lets posted messages progress, for an engine that progresses only inside its calls.
  virtual void go_on() {}
  /// Gives up all posted messages. Returns false if the library may still use the memory of the
  /// messages.
  [[nodiscard]] virtual bool give_up_posted() noexcept = 0;
  /// Reduces `inout` over the members, in an order that the engine chooses; all members get the
  /// same bits. Returns false, and communicates nothing, if the engine does not have `operation`
  /// for this type.
  virtual bool all_reduce(void* inout, std::size_t count, detail::element_type type,
                          reduction operation) = 0;

 protected:
  /// Returns text such as "rank 0 on host a: all_reduce of 8 bytes on group {0,1} (data)".
  /// `function` is the name of the library's function, for an operation that belongs to no call of
  /// a communicator.
  [[nodiscard]] [[gnu::cold]] std::string call_text(char const* function) const;
  /// Returns the world rank of a member, which names it in messages.
  [[nodiscard]] int world_rank(int member) const { return names_.ranks[std::size_t(member)]; }
  /// Returns text such as "rank 1 on host b".
  [[nodiscard]] [[gnu::cold]] std::string member_text(int member) const;
  /// Returns the text for the members that this one waits for, if it is unknown which of them has
  /// not arrived.
  [[nodiscard]] [[gnu::cold]] std::string others_text() const {
    return names_.ranks.size() == 2 ? member_text(1 - names_.member) : "the other ranks";
  }

 private:
  group_names names_;
  detail::collective_call const* call_ = nullptr;
};

/// An engine transfers bytes between the processes of a job with a communication library, MPI or
/// Gloo. A program makes an engine for each launch with `mpi()` or `gloo()`. It includes the
/// headers of these functions separately, so that only one of its source files includes the
/// library's headers.
///
/// Threads: the rank's own thread makes groups and calls their functions. At the same time, a
///          second thread may call the functions of the groups that were made for it.
class process_engine {
 public:
  process_engine() = default;
  process_engine(process_engine const&) = delete;
  process_engine& operator=(process_engine const&) = delete;
  virtual ~process_engine() = default;

  /// Returns the rank of this process and the number of ranks. The function is called before a
  /// group is made, and may initialise the library. `told`: the rank and the number of ranks that
  /// the program has set, or null.
  ///
  /// Errors: input_error if neither the program nor a launcher states the rank, or if two
  ///         statements contradict each other.
  virtual process_ranks ranks(process_ranks const* told = nullptr) = 0;
  /// Sets the longest time that a rank waits for other ranks in a call.
  virtual void set_timeout(std::chrono::milliseconds timeout) = 0;
  /// Makes a group of the processes `members`, in group order; this process must be one of them.
  /// The numbers are process numbers as in ranks(). All processes call this function equally often,
  /// and the groups of the k-th calls are disjoint and together contain all processes.
  virtual std::unique_ptr<process_group> make_group(std::vector<int> const& members) = 0;
  /// Called when this process has failed and will make no more calls. Notifies the other processes,
  /// if the library can, and ends the call of a second thread, which then soon throws. Never waits,
  /// and may be called twice.
  virtual void abandon() noexcept = 0;

  /// Called before ranks(). `wanted`: true if a second thread will make calls, since some libraries
  /// must know this when they are initialised.
  virtual void want_second_thread(bool /*wanted*/) {}
  /// Returns the reason why no groups can be made for a second thread, or "" if they can; called
  /// after ranks().
  [[nodiscard]] virtual std::string why_one_thread() {
    return "the engine makes no groups for a second thread";
  }
  /// Makes a group like make_group, for calls by a second thread. If the engine has to poll until a
  /// call has ended, it calls pause.pause() between two polls; `pause` outlives the group.
  ///
  /// Errors: engine_error if why_one_thread() is not "".
  virtual std::unique_ptr<process_group> make_group_of_second_thread(
      std::vector<int> const& members, call_pause& pause);

  /// For an elastic job: disconnects from the earlier processes and prepares to connect to the
  /// processes of the next generation. `now`: the new rank of this process and the new number of
  /// ranks; `where`: the store through which the processes exchange addresses.
  ///
  /// Errors: input_error if the library can connect only processes that were started together.
  virtual void begin_anew(process_ranks const& now,
                          std::unique_ptr<detail::rendezvous_store> where);
  /// Makes the calls in which other threads wait, and all later calls until begin_anew(), throw
  /// engine_error. Any thread may call this function.
  virtual void interrupt() noexcept {}
  /// Pauses the time-outs of waits for other ranks while `on` is true, because the other ranks are
  /// stopped for a known reason. Any thread may call this function.
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
