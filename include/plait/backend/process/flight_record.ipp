// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/process/flight_record.hpp"
#include "plait/core/clock.hpp"

#include <unistd.h>
#include <system_error>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "plait/backend/process/process_mark.hpp"
#include "plait/core/concat.hpp"
#include "plait/mesh/axis.hpp"

namespace plait::detail {

PLAIT_DECL flight_record::flight_record(std::string const& wanted, process_ranks const& here,
                                        int rank, process_group& world, mesh_groups const& groups,
                                        int threads) {
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

PLAIT_DECL flight_record::~flight_record() {
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

PLAIT_DECL std::optional<std::filesystem::path> flight_record::base_folder(
    std::string const& wanted) {
  char const* const said = std::getenv("PLAIT_FLIGHT_RECORD");
  std::string const folder = !wanted.empty() ? wanted : said != nullptr ? said : "";
  if (folder == "off") return std::nullopt;
  if (!folder.empty()) return folder;
  std::error_code code;
  auto const temporary = std::filesystem::temp_directory_path(code);
  if (!code) return temporary / concat({"plait-flight-", ::geteuid()});
  std::fprintf(stderr,
               "plait: there are no flight records: the temporary folder (TMPDIR) cannot be used: "
               "%s\n",
               code.message().c_str());
  return std::nullopt;
}

PLAIT_DECL std::string flight_record::new_name() {
  auto const time = std::chrono::system_clock::now();
  auto const milliseconds =
      std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count() % 1000;
  auto const seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[56] = {};
  auto const written = std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &parts);
  static std::atomic<int> jobs{0};  // tells apart two jobs that begin in the same millisecond
  std::snprintf(text + written, sizeof text - written, ".%03d-%d.%d-",
                static_cast<int>(milliseconds), static_cast<int>(::getpid()), ++jobs);
  auto host = process_mark::here().host.substr(0, 64);
  std::ranges::replace_if(host, [](char c) { return !is_of_name(c); }, '_');
  return text + host;
}

PLAIT_DECL bool flight_record::is_of_name(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
         c == '-' || c == '_';
}

PLAIT_DECL void flight_record::start(std::filesystem::path const& base, std::string const& name,
                                     process_ranks const& here, int rank, mesh_groups const& groups,
                                     std::size_t threads) {
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

PLAIT_DECL void flight_record::keep_beating() {
  std::unique_lock lock{mutex_};
  while (!wakes_.wait_for(lock, std::chrono::milliseconds{10}, [this] { return ends_; }))
    ring_->beat();
}

}  // namespace plait::detail
