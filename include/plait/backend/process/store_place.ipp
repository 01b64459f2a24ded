// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/process/store_place.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <system_error>

#include "plait/backend/process/process_mark.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/hash.hpp"

namespace plait::detail {

// Returns the pid of the launcher that has started this job's processes on this machine: the
// nearest ancestor process whose environment does not state this rank. (A script that the launcher
// starts and that starts this program states the same rank.) Returns "" if the launcher cannot be
// found, or has ended.
PLAIT_DECL std::string launcher_process(process_ranks const& here) {
  auto const was_told_the_same = [&](std::string const& pid) {
    std::ifstream file(concat({"/proc/", pid, "/environ"}), std::ios::binary);
    std::string const all(std::istreambuf_iterator<char>(file), {});
    std::map<std::string, std::string, std::less<>> variables;
    for (std::string_view rest(all); !rest.empty();) {
      auto const one = rest.substr(0, rest.find('\0'));
      rest.remove_prefix(std::min(one.size() + 1, rest.size()));
      if (auto const equals = one.find('='); equals != std::string_view::npos)
        variables.emplace(one.substr(0, equals), one.substr(equals + 1));
    }
    try {
      return here == read_process_ranks([&](char const* name) -> char const* {
               auto const found = variables.find(name);
               return found == variables.end() ? nullptr : found->second.c_str();
             });
    } catch (input_error const&) {
      return false;
    }
  };
  auto pid = std::to_string(::getppid());
  constexpr int most = 64;
  for (int i = 0; i < most && !pid.empty() && pid != "0"; ++i) {
    if (!was_told_the_same(pid)) return pid;
    pid = process_mark::parent_of(pid);
  }
  return "";
}

// Returns a path in the temporary folder that is unique to this launch of the job. All processes of
// the launch compute the same path without communication. Returns nullopt unless one launcher has
// started all processes of the job on this machine.
PLAIT_DECL std::optional<std::filesystem::path> place_of_one_machine(process_ranks const& here,
                                                                     std::string_view user) {
  if (!here.launched || here.local_size != here.world_size) return std::nullopt;
  auto const launcher = launcher_process(here);
  auto const start = process_mark::start_of(launcher);
  auto const mine = process_mark::here();
  if (start.empty() || mine.boot == "?" || mine.pids == "?") return std::nullopt;
  hash of_job;
  for (auto const& text : {launcher, start, mine.boot, mine.pids, here.job})
    of_job.add(text).add("\xff");
  auto const digits = of_job.text();
  std::error_code code;
  auto const folder = std::filesystem::temp_directory_path(code);
  if (code) throw input_error({"the temporary folder (TMPDIR) cannot be used: ", code.message()});
  return folder / concat({"plait-", user, "-", ::geteuid(), "-", launcher, "-", digits});
}

PLAIT_DECL std::filesystem::path store_place_of_user(std::filesystem::path const& given) {
  char const* const path = std::getenv("PLAIT_RENDEZVOUS");
  return !given.empty() || path == nullptr ? given : std::filesystem::path(path);
}

PLAIT_DECL store_place find_store_place(process_ranks const& here,
                                        std::filesystem::path const& given, std::string_view user,
                                        std::string_view kind, std::string_view otherwise) {
  if (auto path = store_place_of_user(given); !path.empty()) return {path};
  if (auto path = place_of_one_machine(here, user)) return {*path, true};
  throw input_error({user,
                     ": the ranks do not know where to meet; set PLAIT_RENDEZVOUS, or "
                     ".rendezvous, to the path of a new ",
                     kind, " in a place that all processes see, or ", otherwise, " (this is ",
                     here.text(),
                     "; without a path they can meet only if one launcher states that it has "
                     "started all of them on this machine)"});
}

}  // namespace plait::detail
