// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>

#include "plait/backend/communicator.hpp"
#include "plait/backend/process/flight_ring.hpp"
#include "plait/backend/process/process_engine.hpp"
#include "plait/backend/process_ranks.hpp"
#include "plait/core/error.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/shared_file.hpp"
#include "plait/mesh/groups.hpp"

namespace plait::detail {

/// Records the calls of this process's rank in a file that other processes can read while the
/// process runs and after it was killed. The file has the last 256 calls of each thread that makes
/// calls, and a time stamp that another thread renews every 10 ms. For example, if a job of 64
/// ranks hangs, scripts/flight reads the 64 files and reports which rank failed or is stopped, and
/// which ranks wait for it. A job that ends without an error removes its files.
///
/// The file is FOLDER/JOB/rank-N.flight. FOLDER is the constructor's argument `wanted` if it is not
/// empty, else the environment variable PLAIT_FLIGHT_RECORD, else plait-flight-USER in the
/// temporary folder; "off" in either turns the record off.
///
/// Cost:    for each call see flight_ring; in addition, a thread that wakes up a hundred times a
///          second.
/// Errors:  none: if no record can be written, a message on standard error gives the reason.
class flight_record {
 public:
  /// All processes of the job call the constructor together; process 0 chooses the name of the
  /// job's folder. `rank` is this process's rank in the plan; `threads` is the number of threads of
  /// the process that make calls.
  [[gnu::cold]] flight_record(std::string const& wanted, process_ranks const& here, int rank,
                              process_group& world, mesh_groups const& groups, int threads = 1);
  flight_record(flight_record const&) = delete;
  flight_record& operator=(flight_record const&) = delete;
  /// Records that the rank has failed, unless during() has ended.
  ~flight_record();

  /// Returns the log for the communicator of groups.sets()[group]; thread `thread` (0 or 1) of the
  /// process makes its calls.
  [[nodiscard]] flight_log log(int group, int thread = 0) {
    return ring_ ? flight_log(*ring_, group, thread) : flight_log();
  }

  /// Calls work() and records how it ends: normally, or with which error.
  template <class Work>
  std::invoke_result_t<Work> during(Work work) {
    auto const finish = [this](flight_state how, char const* text) {
      ended_well_ = how == flight_state::ended;
      if (ring_) ring_->finish(how, text);
    };
    try {
      auto out = work();
      finish(flight_state::ended, "");
      return out;
    } catch (job_ended const& end) {
      finish(flight_state::ended, end.what());
      throw;
    } catch (engine_error const& problem) {
      finish(flight_state::cut_off, problem.what());
      throw;
    } catch (wait_stopped_by_signal const& problem) {
      finish(flight_state::cut_off, problem.what());
      throw;
    } catch (communication_timeout const& problem) {
      finish(flight_state::cut_off, problem.what());
      throw;
    } catch (std::exception const& problem) {
      finish(flight_state::failed, problem.what());
      throw;
    } catch (...) {
      finish(flight_state::failed, "an exception that is not a std::exception");
      throw;
    }
  }

 private:
  static constexpr std::string_view kind = "flight record";

  /// Returns the folder for the records of all jobs; nullopt if the record is off.
  static std::optional<std::filesystem::path> base_folder(std::string const& wanted);
  /// Returns a new name for the folder of this job, such as "20260131-235959.123-4711.1-host":
  /// time, pid, number and host. Names sort by time.
  static std::string new_name();
  static bool is_of_name(char c);

  void start(std::filesystem::path const& base, std::string const& name, process_ranks const& here,
             int rank, mesh_groups const& groups, std::size_t threads);

  void keep_beating();

  std::optional<own_folder> folder_;
  std::optional<shared_file> file_;
  std::optional<flight_ring> ring_;
  bool ended_well_ = false, ends_ = false;
  std::mutex mutex_;
  std::condition_variable wakes_;
  std::thread thread_;
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/process/flight_record.ipp"
#endif
