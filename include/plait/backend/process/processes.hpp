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

/// The thread of a rank that carries out what stream data is given: the calls over batch axes.
enum class process_streams : int {
  concurrent,  ///< a second one, while the rank goes on
  in_turn      ///< the rank's own, at once
};

/// One rank in each process, on the processors of one machine or of many: `processes{.engine =
/// plait::mpi()}`, started by mpirun or another launcher as many times as the plan has ranks.
///
/// A program is compiled once for all engines. It keeps OpenBLAS at one thread while the job
/// runs and restores the setting afterwards.
/// Threads: the rank is the calling thread. Where the mesh has batch axes of several ranks a second
///          one carries out the calls over them, see process_streams.
struct processes {
  /// Ranks of a data axis whose size the policy leaves to the launch; 0 takes the policy's number,
  /// or as many as the processes that were started make, as `all_processors` does.
  int data_ranks = 0;
  /// Who carries the bytes: plait::mpi() or plait::gloo(...).
  std::shared_ptr<ext::process_engine> engine{};
  /// Which rank this process is; if empty, the launcher says. MPI knows it by itself.
  std::optional<ext::process_ranks> ranks{};
  /// How long a rank waits for others,
  std::chrono::milliseconds timeout{60'000};
  /// and until all have met in the program once: processes do not start at one time, nor are they
  /// done with reading their data at one.
  std::chrono::milliseconds start_timeout{300'000};
  /// Who adds up.
  process_reduction reduction = process_reduction::ranked;
  /// Whether calls over batch axes and computations run at the same time. In turn where the engine,
  /// or MPI as a program has started it, serves one thread; rank 0 says so on standard error.
  process_streams streams = process_streams::concurrent;
  /// Whether members compare their calls before each. Without, a program whose ranks call different
  /// things hangs until the time-out or computes nonsense.
  bool compare_calls = true;
  /// A word that all processes of a job are given; it tells jobs apart that meet by mistake.
  std::string token{};
  /// Axes whose groups must each be on one host; without it a tensor group that is not is a warning
  /// on standard error.
  ext::axis_set require_local{};
  /// Whether ranks have the numbers of the processes, also where tensor groups cross hosts then.
  bool keep_numbers = false;
  /// The folder for records of what each rank does, which scripts/flight reads after a failure;
  /// "off" for none. Empty: PLAIT_FLIGHT_RECORD, or one for this user among the temporary files.
  std::string flight_record{};

  using concept_tag = ext::backend_tag;
  using rank_type = ext::rank_handle<ext::process_device, ext::process_communicator>;

  /// The processes that were started.
  [[nodiscard]] int processors() const;
  /// All of them are ranks.
  static constexpr bool processors_are_ranks = true;

  /// Which rank of how many this process is, as the launcher counts them, and who says so. The rank
  /// of the plan may be another, see run(). Starts MPI if that is the engine.
  ///
  /// Errors: input_error if nobody says it, or two contradict each other.
  [[nodiscard]] ext::process_ranks place() const {
    return place_in(checked_engine(), streams == process_streams::concurrent);
  }

  /// Calls program(rank) for the rank of this process and returns when it has ended. Where
  /// launchers number processes so that tensor groups cross hosts and another order avoids it, the
  /// ranks of the plan are in that order.
  ///
  /// Errors: input_error if the processes are not as many as the plan's ranks, were not all told
  ///         the same, or have hosts that `require_local` forbids; engine_error; what the program
  ///         throws. The other processes see it as engine_error or communication_timeout, or end.
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

  /// Deadlines are made by adding to the time of day.
  static std::chrono::milliseconds in_bounds(std::chrono::milliseconds time);
  [[nodiscard]] [[gnu::cold]] ext::process_engine& checked_engine() const;

  [[nodiscard]] ext::process_ranks place_in(ext::process_engine& with, bool second_thread) const;
  [[gnu::cold]] static void say_in_turn(std::string const& why_here, int process);

  /// What all ranks end with together, such as job_ended, leaves the engine as it is.
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

  /// By whether a second thread calls them and by their members, as the launcher numbers the
  /// processes.
  using process_groups =
      std::map<std::pair<bool, std::vector<int>>, std::shared_ptr<ext::process_group>>;

  static std::vector<int> everybody(int processes);
  static std::unique_ptr<ext::process_group> group_of_all(ext::process_engine& with, int processes);

  /// The set `index`. Sets of equal members share a group if one thread calls both, as that of the
  /// world takes the one in which the processes have met, if it has their order.
  [[nodiscard]] ext::process_communicator member(
      ext::process_engine& with, ext::mesh_groups const& groups, int index,
      detail::process_places const& places, process_groups& made,
      std::shared_ptr<detail::second_thread> const& second, detail::flight_record& record) const;
};

}  // namespace plait

#if PLAIT_HEADER_ONLY
#include "plait/backend/process/processes.ipp"
#endif
