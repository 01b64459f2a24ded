// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/process/process_mark.hpp"

#include <sys/utsname.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "plait/core/concat.hpp"
#include "plait/core/quote.hpp"

namespace plait::detail {

PLAIT_DECL process_mark process_mark::here() {
  process_mark out;
  out.pid = std::to_string(::getpid());
  out.start = start_of(out.pid);
  out.boot = first_word("/proc/sys/kernel/random/boot_id");
  out.pids = link("/proc/self/ns/pid");
  struct utsname names{};
  if (::uname(&names) == 0) out.host = names.nodename;
  out.net = link("/proc/self/ns/net");
  for (auto* const field : out.fields()) *field = field->empty() ? "?" : escaped(*field);
  return out;
}

PLAIT_DECL std::string process_mark::text() const {
  std::string out;
  for (auto* const field : const_cast<process_mark*>(this)->fields())  // NOLINT: only read
    out += (out.empty() ? "" : "\t") + *field;
  return out;
}

PLAIT_DECL process_mark process_mark::of(std::string_view text) {
  process_mark out;
  for (auto* const field : out.fields()) {
    auto const end = text.find('\t');
    *field = escaped(text.substr(0, end));
    text = end == std::string_view::npos ? "" : text.substr(end + 1);
  }
  return out;
}

PLAIT_DECL process_mark::state process_mark::look(process_mark const& me) const {
  if (boot != me.boot || pids != me.pids || boot == "?" || pids == "?") return state::unknown;
  return start_of(pid) == start && start != "?" ? state::alive : state::ended;
}

PLAIT_DECL std::string process_mark::start_of(std::string const& pid) {
  if (pid.empty() || pid.find_first_not_of("0123456789") != std::string::npos) return "";
  std::ifstream file(concat({"/proc/", pid, "/stat"}));
  std::string const all(std::istreambuf_iterator<char>(file), {});
  if (auto const state = field_of_stat(all, 0); state == "Z" || state == "X") return "";
  constexpr int start = 19;
  return field_of_stat(all, start);
}

PLAIT_DECL std::string process_mark::parent_of(std::string const& pid) {
  std::ifstream file(concat({"/proc/", pid, "/stat"}));
  return field_of_stat(std::string(std::istreambuf_iterator<char>(file), {}), 1);
}

PLAIT_DECL std::string process_mark::first_word(std::string const& path) {
  std::string word;
  std::ifstream(path) >> word;
  return word;
}

PLAIT_DECL std::string process_mark::link(char const* path) {
  std::error_code unused;
  return std::filesystem::read_symlink(path, unused).native();
}

PLAIT_DECL std::string process_mark::field_of_stat(std::string const& all, int index) {
  auto at = all.rfind(')');
  if (at == std::string::npos) return "";
  ++at;
  for (int i = 0; i < index && at != std::string::npos; ++i) at = all.find(' ', at + 1);
  if (at == std::string::npos || at >= all.size()) return "";
  return all.substr(at + 1, all.find(' ', at + 1) - at - 1);
}

}  // namespace plait::detail
