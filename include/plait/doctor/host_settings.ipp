// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/doctor/host_settings.hpp"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <utility>

#include "plait/core/concat.hpp"
#include "plait/core/quote.hpp"
#include "plait/doctor/control_groups.hpp"
#include "plait/doctor/host_activity.hpp"
#include "plait/version.hpp"

namespace plait::detail::doctor {

PLAIT_DECL reading<std::vector<int>> read_affinity(system_files const& files) {
  using result = reading<std::vector<int>>;
  std::string const path = "/proc/thread-self/status";
  auto const status = files.text(path);
  if (!status.is_known()) return result::unknown(status.problem());
  auto const list = value_of_key(status.value(), "Cpus_allowed_list");
  if (!list || list->empty())
    return result::unknown(garbage_in(path, "there is no line 'Cpus_allowed_list'"));
  return cpu_list(*list, path);
}

PLAIT_DECL reading<cpu_quota> read_quota(system_files const& files) {
  auto const groups = groups_of(files, "cpu");
  if (!groups.is_known()) return reading<cpu_quota>::unknown(groups.problem());
  auto const least = least_quota(files, groups.value());
  if (!least.is_known()) return reading<cpu_quota>::unknown(least.problem());
  cpu_quota out{.cpus = least.value().value, .group = least.value().folder};
  out.periods = out.throttled_periods = std::uint64_t{0};
  if (out.group.empty()) return out;
  auto const path = concat({out.group, "/cpu.stat"});
  auto const text = files.text(path);
  // The lines are "nr_periods 12", without colons.
  auto const number = [&](std::string_view key) {
    using result = reading<std::uint64_t>;
    if (!text.is_known()) return result::unknown(text.problem());
    for (std::string_view rest = text.value(); !rest.empty();) {
      auto line = take_until(rest, '\n');
      if (take_word(line) != key) continue;
      if (auto const found = whole_number(without_blanks(line))) return result(*found);
      break;
    }
    return result::unknown(garbage_in(path, concat({"it has no number '", key, "'"})));
  };
  out.periods = number("nr_periods");
  out.throttled_periods = number("nr_throttled");
  return out;
}

PLAIT_DECL reading<std::vector<std::string>> read_governors(system_files const& files,
                                                            reading<std::vector<int>> const& cpus) {
  using result = reading<std::vector<std::string>>;
  if (!cpus.is_known()) return result::unknown(cpus.problem());
  std::vector<std::string> out;
  for (int const cpu : cpus.value()) {
    auto const found =
        files.line(concat({"/sys/devices/system/cpu/cpu", cpu, "/cpufreq/scaling_governor"}));
    if (!found.is_known()) return result::unknown(found.problem());
    out.push_back(in_quotes(found.value()));
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

// The link is "pid:[4026531836]".
PLAIT_DECL reading<std::uint64_t> read_pid_namespace(system_files const& files) {
  std::string const path = "/proc/self/ns/pid";
  auto const text = files.link(path);
  if (!text.is_known()) return reading<std::uint64_t>::unknown(text.problem());
  std::string_view rest = text.value();
  bool const is_named = take_until(rest, '[') == "pid:" && rest.ends_with(']');
  if (auto const number = whole_number(take_until(rest, ']')); is_named && number && rest.empty())
    return *number;
  return reading<std::uint64_t>::unknown(
      garbage_in(path, concat({in_quotes(text.value()), " is not the number of a name space"})));
}

PLAIT_DECL void read_ticks(system_files const& files, host_settings& out) {
  std::string const path = "/proc/stat";
  auto const text = files.text(path, system_files::most_bytes);
  auto problem = text.problem();
  if (text.is_known()) {
    problem = garbage_in(path, "its first line is not 'cpu' and at least 8 numbers");
    auto line = std::string_view(text.value()).substr(0, text.value().find('\n'));
    bool const is_sum = take_word(line) == "cpu";
    if (auto const found = ticks_in(line); is_sum && found) {
      out.ticks = found->all, out.stolen_ticks = found->stolen;
      return;
    }
  }
  out.ticks = out.stolen_ticks = reading<std::uint64_t>::unknown(std::move(problem));
}

PLAIT_DECL void read_memory(system_files const& files, host_settings& out) {
  std::string const path = "/proc/meminfo", own_path = "/proc/self/status";
  auto const text = files.text(path);
  out.memory_bytes = bytes_of_key(text, "MemTotal", path);
  auto const swap = bytes_of_key(text, "SwapTotal", path),
             free = bytes_of_key(text, "SwapFree", path);
  if (!swap.is_known() || !free.is_known())
    out.swap_bytes =
        reading<std::uint64_t>::unknown(swap.is_known() ? free.problem() : swap.problem());
  else if (swap.value() < free.value())
    out.swap_bytes =
        reading<std::uint64_t>::unknown(garbage_in(path, "SwapFree is greater than SwapTotal"));
  else out.swap_bytes = swap.value() - free.value();
  out.own_swap_bytes = bytes_of_key(files.text(own_path), "VmSwap", own_path);

  auto const groups = groups_of(files, "memory");
  out.memory_limit_bytes = groups.is_known() ? least_memory(files, groups.value())
                                             : reading<std::uint64_t>::unknown(groups.problem());
}

PLAIT_DECL reading<std::vector<numa_node>> read_nodes(system_files const& files) {
  using result = reading<std::vector<numa_node>>;
  std::string const folder = "/sys/devices/system/node";
  auto const names = files.names(folder);
  if (!names.is_known()) return result::unknown(names.problem());
  std::vector<numa_node> out;
  for (auto const& name : names.value()) {
    auto const number = name.starts_with("node") ? whole_number(name.substr(4)) : std::nullopt;
    if (!number || *number > 4095) continue;  // other files
    auto const path = concat({folder, "/", name, "/cpulist"});
    // A node that has memory but no processors has an empty list.
    auto const list = files.text(path);
    if (!list.is_known()) return result::unknown(list.problem());
    auto cpus = cpu_list(list.value(), path);
    if (!cpus.is_known()) return result::unknown(cpus.problem());
    out.push_back({static_cast<int>(*number), std::move(cpus.value())});
  }
  if (out.empty()) return result::unknown(garbage_in(folder, "it has no folder node0"));
  std::sort(out.begin(), out.end(),
            [](auto const& a, auto const& b) { return a.number < b.number; });
  return out;
}

PLAIT_DECL reading<std::vector<std::uint64_t>> read_bytes_on_node(system_files const& files) {
  using result = reading<std::vector<std::uint64_t>>;
  std::string const path = "/proc/self/numa_maps";
  auto const text = files.text(path, system_files::most_bytes);
  if (!text.is_known()) return result::unknown(text.problem());
  std::vector<std::uint64_t> out;
  for (std::string_view rest = text.value(); !rest.empty();) {
    auto const line = take_until(rest, '\n');
    if (line.find(" file=") != std::string_view::npos) continue;
    // The size of the pages is the last word of a line, so there are two passes over its words.
    std::uint64_t page = 0;
    for (auto words = line; !words.empty();) {
      auto word = take_word(words);
      if (take_until(word, '=') == "kernelpagesize_kB") page = whole_number(word).value_or(0);
    }
    for (auto words = line; !words.empty();) {
      auto word = take_word(words);
      auto const key = take_until(word, '=');
      if (!key.starts_with('N') || word.empty()) continue;
      auto const node = whole_number(key.substr(1)), pages = whole_number(word);
      constexpr std::uint64_t most_pages = std::uint64_t{1} << 44, most_page = 1u << 24;
      if (!node || *node > 4095 || !pages || *pages > most_pages || page == 0 || page > most_page)
        return result::unknown(
            garbage_in(path, concat({in_quotes(line), " does not give its pages and their size"})));
      out.resize(std::max(out.size(), static_cast<std::size_t>(*node) + 1));
      auto& sum = out[static_cast<std::size_t>(*node)];
      // A sum that would overflow becomes the greatest number.
      auto const bytes =
          *pages > (no_limit - sum) / (page * 1024) ? no_limit - sum : *pages * page * 1024;
      sum += bytes;
    }
  }
  if (out.empty()) return result::unknown(garbage_in(path, "it has no pages of a node"));
  return out;
}

PLAIT_DECL void read_processor(system_files const& files, host_settings& out) {
  std::string const path = "/proc/cpuinfo";
  auto const text = files.text(path, system_files::most_bytes);
  auto const value = [&](std::initializer_list<std::string_view> keys) {
    if (!text.is_known()) return text;
    for (auto const key : keys)
      if (auto const found = value_of_key(text.value(), key); found && !found->empty())
        return reading<std::string>(escaped(found->substr(0, 8192)));
    return reading<std::string>::unknown(
        garbage_in(path, concat({"there is no line '", *keys.begin(), "'"})));
  };
  out.processor = value({"model name", "cpu", "CPU part"});  // x86, POWER, Arm
  out.processor_flags = value({"flags", "Features"});
  auto const vendor = value({"vendor_id"});
  out.is_amd =
      vendor.is_known() && (vendor.value() == "AuthenticAMD" || vendor.value() == "HygonGenuine");
}

PLAIT_DECL reading<std::uint64_t> read_limit(system_files const& files, std::string_view name) {
  using result = reading<std::uint64_t>;
  std::string const path = "/proc/self/limits";
  auto const text = files.text(path);
  if (!text.is_known()) return result::unknown(text.problem());
  for (std::string_view rest = text.value(); !rest.empty();) {
    auto line = take_until(rest, '\n');
    if (!line.starts_with(name)) continue;
    line.remove_prefix(name.size());
    auto const soft = take_word(line);
    if (soft == "unlimited") return no_limit;
    if (auto const number = whole_number(soft)) return *number;
    break;
  }
  return result::unknown(garbage_in(path, concat({"it has no limit '", name, "'"})));
}

PLAIT_DECL reading<std::vector<std::string>> read_rdma_devices(system_files const& files) {
  std::string const folder = "/sys/class/infiniband";
  // The folder exists only if a driver of such a device is loaded.
  if (files.has("/sys/class") && !files.has(folder)) return std::vector<std::string>{};
  return files.names(folder);
}

// Drivers that do not know the speed, such as virtual ones, refuse the question or answer -1.
PLAIT_DECL reading<std::uint64_t> read_speed(system_files const& files, std::string const& path) {
  auto const text = files.line(path);
  if (!text.is_known()) return reading<std::uint64_t>::unknown(text.problem());
  if (text.value() == "-1")
    return reading<std::uint64_t>::unknown(concat({escaped(path), ": not known to the driver"}));
  return files.number(path);
}

PLAIT_DECL reading<std::vector<network_interface>> read_interfaces(system_files const& files) {
  using result = reading<std::vector<network_interface>>;
  std::string const folder = "/sys/class/net";
  auto const names = files.names(folder);
  if (!names.is_known()) return result::unknown(names.problem());
  std::vector<network_interface> out;
  for (auto const& name : names.value()) {
    auto const path = concat({folder, "/", name, "/"});
    auto const flags_path = concat({path, "flags"});
    // The folder also has files, such as the switches of bonds.
    if (!files.has(flags_path)) continue;
    auto const flags = files.line(flags_path);
    if (!flags.is_known()) return result::unknown(flags.problem());
    constexpr std::string_view digits = "0123456789abcdefABCDEF";
    auto const& word = flags.value();
    if (!word.starts_with("0x") || word.size() < 3 ||
        word.find_first_not_of(digits, 2) != std::string::npos)
      return result::unknown(
          garbage_in(flags_path, concat({in_quotes(word), " is not a hexadecimal number"})));
    constexpr std::string_view with_loopback = "89abcdefABCDEF";  // digits with bit 3, IFF_LOOPBACK
    network_interface each{.name = escaped(name)};
    each.is_loopback = with_loopback.find(word.back()) != std::string_view::npos;
    each.mtu_bytes = files.number(concat({path, "mtu"}));
    each.megabits = read_speed(files, concat({path, "speed"}));
    out.push_back(std::move(each));
  }
  return out;
}

PLAIT_DECL reading<std::string> interface_of_default_route(system_files const& files) {
  using result = reading<std::string>;
  std::string const path = "/proc/net/route";
  auto const text = files.text(path, system_files::most_bytes);
  if (!text.is_known()) return text;
  std::string best;
  auto least = no_limit;
  std::string_view rest = text.value();
  auto head = take_until(rest, '\n');
  if (take_word(head) != "Iface")
    return result::unknown(garbage_in(path, "its first line does not begin with 'Iface'"));
  while (!rest.empty()) {
    auto line = take_until(rest, '\n');
    auto const name = take_word(line), to = take_word(line);
    for (int i = 0; i < 4; ++i) static_cast<void>(take_word(line));
    auto const metric = whole_number(take_word(line));
    auto const mask = take_word(line);
    if (to != "00000000" || mask != "00000000" || !metric || name.empty()) continue;
    if (!best.empty() && *metric >= least) continue;
    best = escaped(name);
    least = *metric;
  }
  if (best.empty()) return result::unknown(concat({path, ": there is no default route"}));
  return best;
}

PLAIT_DECL reading<std::string> read_driver(system_files const& files) {
  if (files.has("/sys/module") && !files.has("/sys/module/nvidia")) return std::string("none");
  auto const found = files.line("/sys/module/nvidia/version");
  return found.is_known() ? reading<std::string>(escaped(found.value())) : found;
}

// Returns the increase of a counter.
PLAIT_DECL void subtract(reading<std::uint64_t>& now, reading<std::uint64_t> const& earlier) {
  if (!now.is_known()) return;
  if (!earlier.is_known()) now = reading<std::uint64_t>::unknown(earlier.problem());
  else if (now.value() < earlier.value())
    now = reading<std::uint64_t>::unknown("a counter became smaller between two readings");
  else now = now.value() - earlier.value();
}

}  // namespace plait::detail::doctor

namespace plait::ext {

PLAIT_DECL void host_settings::count_from(host_settings const& earlier) {
  detail::doctor::subtract(ticks, earlier.ticks);
  detail::doctor::subtract(stolen_ticks, earlier.stolen_ticks);
  if (!quota.is_known()) return;
  // If the group has changed, its counters are not the counters of the earlier group.
  if (!earlier.quota.is_known() || earlier.quota.value().group != quota.value().group) return;
  detail::doctor::subtract(quota.value().periods, earlier.quota.value().periods);
  detail::doctor::subtract(quota.value().throttled_periods,
                           earlier.quota.value().throttled_periods);
}

PLAIT_DECL bool host_settings::has_flag(std::string_view flag) const {
  if (!processor_flags.is_known()) return false;
  std::string_view words = processor_flags.value();
  while (!words.empty())
    if (detail::doctor::take_word(words) == flag) return true;
  return false;
}

PLAIT_DECL host_settings read_host_settings(system_files const& files,
                                            settings_request const& request) {
  host_settings out;
  out.rank = request.rank;
  out.host = detail::escaped(request.host);
  out.process = static_cast<std::uint64_t>(::getpid());
  out.pid_namespace = detail::doctor::read_pid_namespace(files);
  out.cpus = detail::doctor::read_affinity(files);
  out.quota = detail::doctor::read_quota(files);
  out.governors = detail::doctor::read_governors(files, out.cpus);
  detail::doctor::read_ticks(files, out);
  detail::doctor::read_memory(files, out);
  out.numa_nodes = detail::doctor::read_nodes(files);
  // A host with one node has all memory there, and some kernels have no numa_maps.
  if (!out.numa_nodes.is_known() || out.numa_nodes.value().size() > 1)
    out.bytes_on_node = detail::doctor::read_bytes_on_node(files);
  detail::doctor::read_processor(files, out);

  out.blas_code = request.blas.code;
  out.blas_threads = request.blas.threads;
  out.plait = concat({PLAIT_VERSION_MAJOR, ".", PLAIT_VERSION_MINOR, ".", PLAIT_VERSION_PATCH});
  out.build = request.build;
  out.blas = request.blas.version;
  out.mpi = request.mpi;
  out.nccl = request.nccl;
  out.cuda = request.cuda;
  out.driver = detail::doctor::read_driver(files);

  struct timespec now{};
  if (::clock_gettime(CLOCK_REALTIME, &now) == 0)
    out.clock_s = static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
  out.shared_memory = files.space("/dev/shm");
  out.most_open_files = detail::doctor::read_limit(files, "Max open files");
  out.most_locked_bytes = detail::doctor::read_limit(files, "Max locked memory");
  out.rdma_devices = detail::doctor::read_rdma_devices(files);
  out.interfaces = detail::doctor::read_interfaces(files);
  out.interface = request.interface.empty()
                      ? detail::doctor::interface_of_default_route(files)
                      : reading<std::string>(detail::escaped(request.interface));
  out.uses_gpu = !request.gpu_bus.empty();
  out.device_memory_bytes = request.device_memory_bytes;
  if (out.uses_gpu) out.gpu = read_gpu(request.gpu_bus, request.nvml);
  return out;
}

}  // namespace plait::ext
