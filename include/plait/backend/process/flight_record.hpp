// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "plait/backend/communicator.hpp"
#include "plait/backend/process/flight_ring.hpp"
#include "plait/backend/process/process_engine.hpp"
#include "plait/backend/process/process_mark.hpp"
#include "plait/backend/process_ranks.hpp"
#include "plait/core/clock.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/shared_file.hpp"
#include "plait/mesh/axis.hpp"
#include "plait/mesh/groups.hpp"

namespace plait::detail {

/// What the rank of this process does, in a file that others can read while it runs and after it
/// was killed: the last 256 calls of each of its threads, and a sign of life. scripts/flight reads
/// the files of a job and says who failed and who waits for whom. The file is removed after a job
/// that ends well.
///
/// It is rank-N.flight in a folder of the job, below the folder that is asked for: `wanted`, or
/// PLAIT_FLIGHT_RECORD, or plait-flight-USER among the temporary files. "off" is none.
///
/// Cost:    see flight_ring; a thread that wakes up a hundred times a second.
/// Errors:  none: where there can be no record, a sentence on standard error says why.
class flight_record {
 public:
  /// All processes of the job call it together; process 0 names the folder. `rank` is that of the
  /// plan, `threads` is how many of its threads make calls.
  [[gnu::cold]] flight_record(std::string const& wanted, process_ranks const& here, int rank,
                              process_group& world, mesh_groups const& groups, int threads = 1) {
    std::array<char, 128> name{};
    if (here.rank == 0) flight_ring::put(name, new_name());
    if (here.world_size > 1) world.broadcast(name.data(), name.size(), 0);
    name.back() = '\0';
    auto const base = base_folder(wanted);
    if (!base) return;
    try {
      start(*base, name.data(), here, rank, groups, static_cast<std::size_t>(threads));
    } catch (std::exception const& problem) {
      ring_.reset();
      if (file_) file_->remove();
      file_.reset();
      if (folder_) folder_->remove_if_empty();
      folder_.reset();
      std::fprintf(stderr, "plait: rank %d writes no flight record: %s\n", rank, problem.what());
    }
  }
  flight_record(flight_record const&) = delete;
  flight_record& operator=(flight_record const&) = delete;
  /// A rank that comes here without an end of `during` has failed.
  ~flight_record() {
    if (!ring_) return;
    flight_ring::of_process().store(nullptr);
    {
      std::scoped_lock const lock{mutex_};
      ends_ = true;
    }
    wakes_.notify_one();
    thread_.join();
    if (!ended_well_) return;
    file_->remove();
    folder_->remove_if_empty();
  }

  /// For the communicator of groups.sets()[group]; `thread`, from 0 on, makes its calls.
  [[nodiscard]] flight_log log(int group, int thread = 0) {
    return ring_ ? flight_log(*ring_, group, thread) : flight_log();
  }

  /// Calls work() and writes down how it ends.
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
      finish(flight_state::failed, "an exception that is no std::exception");
      throw;
    }
  }

 private:
  static constexpr std::string_view kind = "flight record";

  /// None: off.
  static std::optional<std::filesystem::path> base_folder(std::string const& wanted) {
    char const* const said = std::getenv("PLAIT_FLIGHT_RECORD");
    std::string const folder = !wanted.empty() ? wanted : said != nullptr ? said : "";
    if (folder == "off") return std::nullopt;
    if (!folder.empty()) return folder;
    std::error_code code;
    auto const temporary = std::filesystem::temp_directory_path(code);
    if (!code) return temporary / concat({"plait-flight-", ::geteuid()});
    std::fprintf(
        stderr,
        "plait: there are no flight records: the temporary folder (TMPDIR) cannot be used: "
        "%s\n",
        code.message().c_str());
    return std::nullopt;
  }
  /// "20260131-235959.123-4711.1-host": later jobs come later.
  static std::string new_name() {
    auto const time = std::chrono::system_clock::now();
    auto const milliseconds =
        std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count() %
        1000;
    auto const seconds = std::chrono::system_clock::to_time_t(time);
    std::tm parts{};
    ::gmtime_r(&seconds, &parts);
    char text[56] = {};
    auto const written = std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &parts);
    static std::atomic<int> jobs{0};  // two may begin in one millisecond
    std::snprintf(text + written, sizeof text - written, ".%03d-%d.%d-",
                  static_cast<int>(milliseconds), static_cast<int>(::getpid()), ++jobs);
    auto host = process_mark::here().host.substr(0, 64);
    std::ranges::replace_if(host, [](char c) { return !is_of_name(c); }, '_');
    return text + host;
  }
  static bool is_of_name(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
           c == '-' || c == '_';
  }

  void start(std::filesystem::path const& base, std::string const& name, process_ranks const& here,
             int rank, mesh_groups const& groups, std::size_t threads) {
    if (name.empty() || name.front() == '.' || !std::ranges::all_of(name, is_of_name))
      throw input_error("process 0 has named no folder for it");
    own_folder const above(base, "folder of flight records");
    folder_.emplace(above.path() / name, "folder of flight records");
    std::vector<flight_ring::group_description> described;
    for (auto const over : groups.sets()) {
      described.push_back(
          {to_string(groups.grid().of_several_ranks(over)), groups.grid().group_of(rank, over)});
    }
    file_.emplace(*folder_, concat({"rank-", rank, ".flight"}),
                  flight_ring::bytes_for(described, threads), kind);
    auto const describe = [&](flight_header& head) {
      auto const mark = process_mark::here();
      head.rank = static_cast<std::uint32_t>(rank);
      head.world_size = static_cast<std::uint32_t>(here.world_size);
      head.pid = static_cast<std::uint64_t>(::getpid());
      flight_ring::put(head.started, mark.start);
      flight_ring::put(head.boot, mark.boot);
      flight_ring::put(head.pids, mark.pids);
      flight_ring::put(head.host, mark.host);
      flight_ring::put(head.job, here.job);
      flight_ring::put(head.folder, name);
    };
    ring_.emplace(file_->bytes(), described, describe, threads);
    thread_ = std::thread([this] { keep_beating(); });
    flight_ring::of_process().store(&*ring_);
  }

  void keep_beating() {
    std::unique_lock lock{mutex_};
    while (!wakes_.wait_for(lock, std::chrono::milliseconds{10}, [this] { return ends_; }))
      ring_->beat();
  }

  std::optional<own_folder> folder_;
  std::optional<shared_file> file_;
  std::optional<flight_ring> ring_;
  bool ended_well_ = false, ends_ = false;
  std::mutex mutex_;
  std::condition_variable wakes_;
  std::thread thread_;
};

}  // namespace plait::detail
