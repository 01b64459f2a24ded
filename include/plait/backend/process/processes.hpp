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

/// The thread that carries out a rank's calls over batch axes, which stream data holds.
enum class process_streams : int {
  concurrent,  ///< a second thread, while the rank's own continues
  in_turn      ///< the rank's own thread, at once
};

/// One rank in each process, on the processors of one machine or of many: `processes{.engine =
/// plait::mpi()}`, started by mpirun or another launcher as many times as the plan has ranks.
///
/// A program is compiled once for all engines. It keeps OpenBLAS at one thread while the job
/// runs and restores the setting afterwards.
/// Threads: the rank is the calling thread. If the mesh has batch axes of several ranks, a second
///          thread carries out the calls over them, see process_streams.
struct processes {
  /// Size of a data axis that the policy leaves to the launch. 0 takes the policy's number; for
  /// `all_processors` it takes the size that uses all processes that were started.
  int data_ranks = 0;
  /// The carrier of the bytes: plait::mpi() or plait::gloo(...).
  std::shared_ptr<ext::process_engine> engine{};
  /// The rank of this process; if empty, the launcher's variables say it, or MPI.
  std::optional<ext::process_ranks> ranks{};
  /// The time that a rank waits for others.
  std::chrono::milliseconds timeout{60'000};
  /// The time limit until all ranks have met in the program once; it is longer, since processes
  /// start, and finish reading their data, at different times.
  std::chrono::milliseconds start_timeout{300'000};
  /// The party that computes sums.
  process_reduction reduction = process_reduction::ranked;
  /// Tells if calls over batch axes run at the same time as computations. They run in turn if the
  /// engine serves one thread, or MPI was started so; rank 0 then says so on standard error.
  process_streams streams = process_streams::concurrent;
  /// Makes members compare their calls before each call. Without it, a program whose ranks make
  /// different calls hangs until the time-out or computes wrong numbers.
  bool compare_calls = true;
  /// A word that all processes of a job are given; it tells apart jobs that meet by mistake.
  std::string token{};
  /// Axes whose groups must each be on one host. Without it, a tensor group that crosses hosts is
  /// only a warning on standard error.
  ext::axis_set require_local{};
  /// Makes ranks equal to the process numbers, even if tensor groups then cross hosts.
  bool keep_numbers = false;
  /// The folder for records of each rank's calls, which scripts/flight reads after a failure; "off"
  /// for none. Empty: PLAIT_FLIGHT_RECORD, or a folder of this user in the temporary folder.
  std::string flight_record{};

  using concept_tag = ext::backend_tag;
  using rank_type = ext::rank_handle<ext::process_device, ext::process_communicator>;

  /// The number of processes that were started.
  [[nodiscard]] int processors() const;
  /// Every process is a rank.
  static constexpr bool processors_are_ranks = true;

  /// Returns the launcher's rank of this process, the number of ranks, and the source of both. The
  /// rank in the plan may be another, see run(). Starts MPI if it is the engine.
  ///
  /// Errors: input_error if there is no statement of the rank, or two contradict each other.
  [[nodiscard]] ext::process_ranks place() const {
    return place_in(checked_engine(), streams == process_streams::concurrent);
  }

  /// Calls program(rank) for the rank of this process and returns when it has ended. If tensor
  /// groups would cross hosts in the launcher's order and another order avoids it, the ranks of the
  /// plan take the other order.
  ///
  /// Errors: input_error if the number of processes is not the plan's number of ranks, if processes
  ///         were told different things, or if their hosts violate `require_local`; engine_error;
  ///         exceptions of the program. The other processes throw engine_error or
  ///         communication_timeout, or are ended.
  [[gnu::cold]] void run(ext::mesh_groups const& groups,
                         std::function<void(rank_type&)> const& program) const {
    host_maths::single_threaded_maths const guard;
    run_all(groups, program, host_maths::say_if_products_are_slow);
  }

 private:
  /// Does the work of run, except for the library of matrix products, which the program chooses and
  /// the runtime does not know. The root of the job calls `say_of_products`.
  [[gnu::cold]] void run_all(ext::mesh_groups const& groups,
                             std::function<void(rank_type&)> const& program,
                             void (*say_of_products)()) const;
  /// The second thread ends before the communicators that it calls.
  struct ends_first {
    detail::second_thread* second;
    explicit ends_first(detail::second_thread* one) : second(one) {}
    ends_first(ends_first const&) = delete;
    ends_first& operator=(ends_first const&) = delete;
    ~ends_first() {
      if (second != nullptr) second->end();
    }
  };

  /// Bounds `time`, since deadlines are sums of it and the time of day.
  static std::chrono::milliseconds in_bounds(std::chrono::milliseconds time);
  [[nodiscard]] [[gnu::cold]] ext::process_engine& checked_engine() const;

  [[nodiscard]] ext::process_ranks place_in(ext::process_engine& with, bool second_thread) const;
  [[gnu::cold]] static void say_in_turn(std::string const& why_here, int process);

  /// Abandons the engine on an error, except if all ranks end with it together, as with job_ended.
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

  /// Keys: true if a second thread calls the group, and the members in the launcher's order.
  using process_groups =
      std::map<std::pair<bool, std::vector<int>>, std::shared_ptr<ext::process_group>>;

  static std::vector<int> everybody(int processes);
  static std::unique_ptr<ext::process_group> group_of_all(ext::process_engine& with, int processes);

  /// The communicator of the set `index`. Sets of equal members share a group if one thread calls
  /// both. The set of the world shares the group in which the processes have met, if both have the
  /// same order.
  [[nodiscard]] ext::process_communicator member(
      ext::process_engine& with, ext::mesh_groups const& groups, int index,
      detail::process_places const& places, process_groups& made,
      std::shared_ptr<detail::second_thread> const& second, detail::flight_record& record) const;
};

}  // namespace plait

#if PLAIT_HEADER_ONLY
#include "plait/backend/process/processes.ipp"
#endif
