// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "plait/backend/backend.hpp"
#include "plait/backend/host/maths/blas.hpp"
#include "plait/backend/process/flight_record.hpp"
#include "plait/backend/process/process_communicator.hpp"
#include "plait/backend/process/process_device.hpp"
#include "plait/backend/process/process_engine.hpp"
#include "plait/backend/process/process_places.hpp"
#include "plait/backend/process/second_thread.hpp"
#include "plait/backend/process_ranks.hpp"
#include "plait/backend/rank.hpp"
#include "plait/core/clock.hpp"
#include "plait/core/error.hpp"
#include "plait/core/header_only.hpp"
#include "plait/mesh/axis.hpp"
#include "plait/mesh/groups.hpp"

namespace plait {

/// The thread that carries out a rank's collectives over batch axes (stream data), such as the sums
/// of gradients.
enum class process_streams : int {
  concurrent,  ///< a second thread, while the rank's own thread computes
  in_turn      ///< the rank's own thread, during the call
};

/// The backend whose ranks are processes, on the processors of one machine or of several machines:
/// `processes{.engine = plait::mpi()}`, started by mpirun or another launcher as many times as the
/// plan has ranks.
///
/// A program is compiled once for all engines. The BLAS library runs with one thread while the job
/// runs; its setting is restored afterwards.
/// Threads: the rank is the calling thread. If the mesh has several ranks along batch axes, a
///          second thread carries out the collectives over these axes, see process_streams.
struct processes {
  /// The size of the data axis if the policy leaves it to the launch; 0 and `all_processors` select
  /// the size that uses all processes that were started.
  int data_ranks = 0;
  /// The communication library: plait::mpi() or plait::gloo(...).
  std::shared_ptr<ext::process_engine> engine{};
  /// The rank of this process and the number of ranks; if empty, MPI or the launcher's environment
  /// variables state them.
  std::optional<ext::process_ranks> ranks{};
  /// The longest time that a rank waits for other ranks in a call.
  std::chrono::milliseconds timeout{60'000};
  /// The longest wait until all ranks have made their first common call in the program. It is
  /// longer than `timeout`, since processes start, and finish reading their data, at different
  /// times.
  std::chrono::milliseconds start_timeout{300'000};
  /// The component that computes sums: plait or the engine's library.
  process_reduction reduction = process_reduction::ranked;
  /// Decides if collectives over batch axes run at the same time as computations. They run in turn
  /// in any case if the engine supports one thread only, or MPI was initialised so; rank 0 then
  /// prints the reason to standard error.
  process_streams streams = process_streams::concurrent;
  /// True if the members of a group compare their calls at the beginning of each call. If false, a
  /// program whose ranks make different calls hangs until the time-out or computes wrong numbers.
  bool compare_calls = true;
  /// A text that must be equal in all processes of a job, to detect processes of different jobs
  /// that connect to each other by mistake.
  std::string token{};
  /// Axes whose groups must each be on one host; a group that crosses hosts is an error. Otherwise
  /// a tensor group that crosses hosts only causes a warning on standard error.
  ext::axis_set require_local{};
  /// True if each process's rank in the plan is the rank that the launcher has given it, even if
  /// tensor groups then cross hosts.
  bool keep_numbers = false;
  /// The folder for records of each rank's calls, which scripts/flight reads after a failure; "off"
  /// turns the records off. If empty, the folder is PLAIT_FLIGHT_RECORD or, if that is not set, a
  /// folder of this user in the temporary folder.
  std::string flight_record{};

  using concept_tag = ext::backend_tag;
  using rank_type = ext::rank_handle<ext::process_device, ext::process_communicator>;

  /// The number of processes that were started.
  [[nodiscard]] int processors() const;
  /// Every process is a rank.
  static constexpr bool processors_are_ranks = true;

  /// Returns the rank that the launcher has given this process, the number of ranks, and the source
  /// of these numbers. The rank in the plan may differ, see run(). Initialises MPI if it is the
  /// engine.
  ///
  /// Errors: input_error if neither the program nor a launcher states the rank, or if two
  ///         statements contradict each other.
  [[nodiscard]] ext::process_ranks place() const {
    return place_in(checked_engine(), streams == process_streams::concurrent);
  }

  /// Calls program(rank) for the rank of this process and returns when the program has ended. The
  /// rank is the rank that the launcher has given the process, unless tensor groups would then
  /// cross hosts and another order of the ranks avoids this.
  ///
  /// Errors: input_error if the number of processes is not the plan's number of ranks, if the
  ///         settings of two processes differ, or if their hosts violate `require_local`;
  ///         engine_error; exceptions of the program. If one process fails, the other processes
  ///         throw engine_error or communication_timeout, or are ended.
  [[gnu::cold]] void run(ext::mesh_groups const& groups,
                         std::function<void(rank_type&)> const& program) const {
    host_maths::single_threaded_maths const guard;
    run_all(groups, program, host_maths::say_if_products_are_slow);
  }

 private:
  /// Does the work of run() that does not depend on the BLAS library: run() is compiled with the
  /// program, which chooses that library, and this function may be compiled into plait's library.
  /// Rank 0 calls `say_of_products`.
  [[gnu::cold]] void run_all(ext::mesh_groups const& groups,
                             std::function<void(rank_type&)> const& program,
                             void (*say_of_products)()) const;
  /// A guard whose destructor ends the second thread, before the communicators that it calls are
  /// destroyed.
  struct ends_first {
    detail::second_thread* second;
    explicit ends_first(detail::second_thread* one) : second(one) {}
    ends_first(ends_first const&) = delete;
    ends_first& operator=(ends_first const&) = delete;
    ~ends_first() {
      if (second != nullptr) second->end();
    }
  };

  /// Returns `time` clamped to [1 ms, 1 year], since deadlines are sums of this time and the
  /// current time and must not overflow.
  static std::chrono::milliseconds in_bounds(std::chrono::milliseconds time);
  [[nodiscard]] [[gnu::cold]] ext::process_engine& checked_engine() const;

  [[nodiscard]] ext::process_ranks place_in(ext::process_engine& with, bool second_thread) const;
  [[gnu::cold]] static void say_in_turn(std::string const& why_here, int process);

  /// Calls work(). If it throws, abandons the engine. After a job_ended this is not necessary,
  /// because all ranks end together.
  template <class Work>
  static std::invoke_result_t<Work> or_abandon(ext::process_engine& with, Work work) {
    try {
      return work();
    } catch (job_ended const&) {
      throw;
    } catch (...) {
      with.abandon();
      throw;
    }
  }

  /// The groups that have been made. The key of a group has two parts: true if the second thread
  /// calls the group, and the process numbers of the members.
  using process_groups =
      std::map<std::pair<bool, std::vector<int>>, std::shared_ptr<ext::process_group>>;

  static std::vector<int> everybody(int processes);
  static std::unique_ptr<ext::process_group> group_of_all(ext::process_engine& with, int processes);

  /// Returns this rank's communicator for set of axes `index`. Two sets whose groups have equal
  /// members share a process_group if the same thread calls both. The set of all ranks uses the
  /// group that was made at the start if ranks and processes have the same order.
  [[nodiscard]] ext::process_communicator member(
      ext::process_engine& with, ext::mesh_groups const& groups, int index,
      detail::process_places const& places, process_groups& made,
      std::shared_ptr<detail::second_thread> const& second, detail::flight_record& record) const;
};

}  // namespace plait

#if PLAIT_HEADER_ONLY
#include "plait/backend/process/processes.ipp"
#endif
