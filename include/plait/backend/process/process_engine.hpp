// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include "plait/backend/collective_call.hpp"
#include "plait/backend/process/process_ranks.hpp"
#include "plait/core/error.hpp"

namespace plait {

/// An engine cannot go on: a process is gone, or a library says that a call has failed.
struct engine_error : error {
  using error::error;
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
/// Threads: used by one thread.
class process_group {
 public:
  process_group() = default;
  process_group(process_group const&) = delete;
  process_group& operator=(process_group const&) = delete;
  virtual ~process_group() = default;

  /// What the next calls are made for; messages about a wait that is too long say it. Null: nothing
  /// that a communicator was asked for. It stays valid until it is replaced.
  virtual void serve(detail::collective_call const* call) = 0;

  virtual void barrier() = 0;
  /// `bytes` are of one block, here and below.
  virtual void all_gather(void const* send, void* receive, std::size_t bytes) = 0;
  virtual void all_to_all(void const* send, void* receive, std::size_t bytes) = 0;
  virtual void broadcast(void* inout, std::size_t bytes, int root) = 0;
  virtual void gather(void const* send, void* receive, std::size_t bytes, int root) = 0;
  virtual void scatter(void const* send, void* receive, std::size_t bytes, int root) = 0;
  /// Messages of one member to another come in order. send may return before they are received.
  virtual void send(void const* data, std::size_t bytes, int to) = 0;
  virtual void receive(void* data, std::size_t bytes, int from) = 0;
  /// The engine's own sum or maximum, in an order of its own, the same bits on all members. False
  /// if it has none for this type; then nothing has been sent.
  virtual bool all_reduce(void* inout, std::size_t count, detail::element_type type,
                          reduction operation) = 0;
};

/// What carries bytes between the processes of a job: MPI, Gloo. A program makes one for each
/// launch by `mpi()` or `gloo()`, which stand in headers of their own; only the source file that
/// calls them sees those of the library.
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
  /// The group `members` of world ranks, of which this process is one. All processes of the world
  /// call it, as many times, with disjoint groups that together are the world.
  virtual std::unique_ptr<process_group> make_group(std::vector<int> const& members) = 0;
  /// This process will make no more calls, since it has failed: tells the others if the library
  /// can. Never waits.
  virtual void abandon() noexcept = 0;
};

}  // namespace plait
