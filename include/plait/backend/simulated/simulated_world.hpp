// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "plait/backend/host/run_ranks.hpp"
#include "plait/backend/simulated/operation_order.hpp"
#include "plait/backend/simulated/simulated_rank.hpp"
#include "plait/core/error.hpp"
#include "plait/core/header_only.hpp"
#include "plait/mesh/stream.hpp"
#include "plait/plan/schedule/synchronization.hpp"

namespace plait::detail {

// All ranks of a simulated job. The threads of the ranks only put operations into queues. When all
// threads wait, the last of them executes operations of all ranks, one at a time, until some rank
// can continue.
//
// Threads: the thread of a rank calls synchronize(), barrier() and run() for its rank.
// Errors:  after the first error the world stays broken: every wait of every rank throws this
//          error.
class simulated_world {
 public:
  struct group {
    std::vector<int> members;
    stream on = stream::compute;
  };

  simulated_world(int ranks, simulated_order order, std::uint64_t seed,
                  std::optional<wait_site> const& without);

  int add_group(std::vector<int> members, stream on);
  [[nodiscard]] group const& group_at(int id) const { return groups_[std::size_t(id)]; }
  [[nodiscard]] simulated_rank& rank(int number) { return *ranks_[std::size_t(number)]; }

  // Returns when all operations that the rank has enqueued have been executed.
  void synchronize(int rank) { block(rank, nowhere); }
  // Waits as synchronize() does, for all members of group `id`; returns on no member before the
  // last member has called it.
  void barrier(int rank, int id) { block(rank, id); }

  // Runs one rank's program; if it throws, breaks the world, so that the other ranks throw, too.
  template <class Program>
  void run(int rank, Program&& program) {
    try {
      std::forward<Program>(program)();
    } catch (job_ended const&) {  // each rank throws job_ended at the end of its own work
      std::scoped_lock const lock{mutex_};
      keep_first_failure(rank);
      finish(rank);
      throw;
    } catch (...) {
      std::scoped_lock const lock{mutex_};
      keep_first_failure(rank);
      break_world<job_aborted>(failure_text(std::current_exception(), rank));
      finish(rank);
      throw;
    }
    std::scoped_lock const lock{mutex_};
    finish(rank);
  }

  // Throws the first exception of a rank's program, or the error of an operation for which no rank
  // has waited. Called after all ranks have ended.
  void rethrow_failure();

  [[nodiscard]] std::set<wait_site> sites() const;
  [[nodiscard]] std::uint64_t executed() const;

 private:
  static constexpr int nowhere = -1;  // the rank does not wait in the barrier of a group
  enum class doing { running, waiting, finished };

  struct rank_thread {
    doing now = doing::running;
    int barrier = nowhere;
    std::condition_variable bell;
  };

  void block(int rank, int barrier);

  // The caller of each function below holds the mutex.

  void keep_first_failure(int rank);

  [[noreturn]] void throw_verdict();

  void finish(int rank);

  template <class Error>
  void break_world(std::string text) {
    if (throw_verdict_ != nullptr) return;  // only the first error is reported
    verdict_ = std::move(text);
    throw_verdict_ = [](std::string const& what) { throw Error(what); };
    for (auto& thread : threads_) thread.bell.notify_one();
  }

  // Executes operations until some rank can continue.
  void execute();

  static constexpr auto nothing = static_cast<std::size_t>(-1);
  static int rank_of(std::size_t number) {
    return static_cast<int>(number / operation_order::streams);
  }
  static stream stream_of(std::size_t number) {
    return static_cast<stream>(number % operation_order::streams);
  }

  // Returns the number of the stream that executes the next operation; `nothing` if no stream can.
  [[nodiscard]] std::size_t choose() const;

  [[nodiscard]] operation_note const& note_of(int rank, stream on) const;

  [[nodiscard]] bool can_begin(int rank, stream on) const;

  [[nodiscard]] stream_call_item const* call_at(int rank, stream on) const;
  static bool is_message(collective kind) {
    return kind == collective::send || kind == collective::receive;
  }
  [[nodiscard]] int partner_of(stream_call_item const& message) const {
    return group_at(message.group).members[std::size_t(message.call.other)];
  }
  // Returns the stream of the peer that contains the peer's call for a message; for a message on a
  // channel, this is the peer's channel in the opposite direction.
  [[nodiscard]] stream partner_stream(int rank, stream_call_item const& message) const;
  // Returns true if the next call of `other` receives the message that `rank` sends, or sends the
  // message that `rank` receives.
  [[nodiscard]] bool answers(int other, int rank, stream_call_item const& message) const;

  void execute(int number, stream on);

  // Carries out a collective or a message, whose calls are at the heads of the streams on[i] of
  // ranks members[i].
  void meet(std::vector<int> const& members, std::vector<stream> const& on, group const& with);

  // Lets all ranks continue whose waits are over; returns false if there are none.
  bool wake();

  bool end_barrier(int id);

  void resume(rank_thread& thread);

  // Returns true if no rank waits and all operations have been executed.
  [[nodiscard]] bool is_over() const;

  [[gnu::cold]] std::string deadlock_text() const;

  // Returns text such as ", stream tensor in all_reduce of 64 bytes on group {0,1}".
  [[nodiscard]] std::string head_text(int rank, stream on) const;

  operation_order order_;
  std::vector<std::unique_ptr<simulated_rank>> ranks_;
  std::vector<group> groups_;
  std::mutex mutex_;
  std::vector<rank_thread> threads_;
  int running_;
  std::string suspicion_;  // the text of a read of undefined values, see simulated_operation
  std::string verdict_;
  void (*throw_verdict_)(std::string const&) = nullptr;
  bool is_delivered_ = false;
  std::exception_ptr failure_;
  int failed_rank_ = -1;
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/simulated/simulated_world.ipp"
#endif
