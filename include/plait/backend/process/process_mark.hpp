// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>

#include "plait/core/concat.hpp"
#include "plait/core/quote.hpp"

namespace plait::detail {

/// Which process has written something, so that others can tell whether it is still there and
/// whether it shares the loopback interface with them. As a text it is one line.
struct process_mark {
  std::string pid, start;  ///< of the process; the start tells it from a later one of its number
  std::string boot, pids;  ///< the boot of its kernel and the name space of its number
  std::string host, net;   ///< the host's name and the name space of its interfaces

  enum class state { alive, ended, unknown };

  [[nodiscard]] static process_mark here() {
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

  [[nodiscard]] std::string text() const {
    std::string out;
    for (auto* const field : const_cast<process_mark*>(this)->fields())  // NOLINT: only read
      out += (out.empty() ? "" : "\t") + *field;
    return out;
  }
  [[nodiscard]] static process_mark of(std::string_view text) {
    process_mark out;
    for (auto* const field : out.fields()) {
      auto const end = text.find('\t');
      *field = escaped(text.substr(0, end));
      text = end == std::string_view::npos ? "" : text.substr(end + 1);
    }
    return out;
  }

  /// Whether the process runs; `me` is that which asks.
  [[nodiscard]] state look(process_mark const& me) const {
    if (boot != me.boot || pids != me.pids || boot == "?" || pids == "?") return state::unknown;
    return start_of(pid) == start && start != "?" ? state::alive : state::ended;
  }
  /// When a process was started; "" if there is none of this number, or nothing of it but its exit
  /// code.
  [[nodiscard]] static std::string start_of(std::string const& pid) {
    if (pid.empty() || pid.find_first_not_of("0123456789") != std::string::npos) return "";
    std::ifstream file(concat({"/proc/", pid, "/stat"}));
    std::string const all(std::istreambuf_iterator<char>(file), {});
    if (auto const state = field_of_stat(all, 0); state == "Z" || state == "X") return "";
    constexpr int start = 19;
    return field_of_stat(all, start);
  }
  /// The number of a process's parent; "" if there is no such process.
  [[nodiscard]] static std::string parent_of(std::string const& pid) {
    std::ifstream file(concat({"/proc/", pid, "/stat"}));
    return field_of_stat(std::string(std::istreambuf_iterator<char>(file), {}), 1);
  }
  [[nodiscard]] bool shares_loopback_with(process_mark const& other) const {
    return boot == other.boot && host == other.host && net == other.net;
  }

 private:
  std::array<std::string*, 6> fields() { return {&pid, &start, &boot, &pids, &host, &net}; }

  static std::string first_word(std::string const& path) {
    std::string word;
    std::ifstream(path) >> word;
    return word;
  }
  static std::string link(char const* path) {
    std::error_code unused;
    return std::filesystem::read_symlink(path, unused).native();
  }
  // Of what /proc/PID/stat says behind the program's name, which may have blanks.
  static std::string field_of_stat(std::string const& all, int index) {
    auto at = all.rfind(')');
    if (at == std::string::npos) return "";
    ++at;
    for (int i = 0; i < index && at != std::string::npos; ++i) at = all.find(' ', at + 1);
    if (at == std::string::npos || at >= all.size()) return "";
    return all.substr(at + 1, all.find(' ', at + 1) - at - 1);
  }
};

}  // namespace plait::detail
