// SPDX-License-Identifier: Apache-2.0
// The files of /proc and /sys: pieces of a byte that chooses a file, a length of two bytes, and its
// text. An empty text removes the file. The settings that such a file changes are read again, and
// all rules look at them. The use of the processors is computed between the files with and without
// the change, in both directions. A first byte of 255: the rest are settings that another rank has
// sent.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "doctor/planted_tree.hpp"
#include "fuzz/fuzzing.hpp"
#include "plait/doctor/activity_rules.hpp"
#include "plait/doctor/host_activity.hpp"
#include "plait/doctor/setting_rules.hpp"
#include "plait/doctor/settings_text.hpp"

namespace {

using plait::ext::host_settings;

// Reads the part of the settings that is in a file again; reading everything takes too long.
void read_part(plait::ext::system_files const& files, std::string_view path, host_settings& out) {
  namespace detail = plait::detail::doctor;
  auto const is_in = [&](auto... folders) { return (path.starts_with(folders) || ...); };
  if (is_in("/proc/thread-self")) out.cpus = detail::read_affinity(files);
  if (is_in("/proc/thread-self", "/sys/devices/system/cpu"))
    out.governors = detail::read_governors(files, out.cpus);
  if (is_in("/proc/self/mountinfo", "/proc/self/cgroup", "/sys/fs"))
    out.quota = detail::read_quota(files);
  if (is_in("/proc/self/mountinfo", "/proc/self/cgroup", "/sys/fs", "/proc/meminfo",
            "/proc/self/status"))
    detail::read_memory(files, out);
  if (is_in("/proc/stat")) detail::read_ticks(files, out);
  if (is_in("/sys/devices/system/node")) out.numa_nodes = detail::read_nodes(files);
  if (is_in("/proc/self/numa_maps")) out.bytes_on_node = detail::read_bytes_on_node(files);
  if (is_in("/proc/cpuinfo")) detail::read_processor(files, out);
  if (is_in("/sys/module")) out.driver = detail::read_driver(files);
  if (is_in("/proc/self/limits")) {
    out.most_open_files = detail::read_limit(files, "Max open files");
    out.most_locked_bytes = detail::read_limit(files, "Max locked memory");
  }
  if (is_in("/sys/class/infiniband")) out.rdma_devices = detail::read_rdma_devices(files);
  if (is_in("/sys/class/net")) out.interfaces = detail::read_interfaces(files);
  if (is_in("/proc/net/route")) out.interface = detail::interface_of_default_route(files);
}

void check(host_settings const& healthy, host_settings const& of) {
  for (auto const& each : plait::ext::check_settings({healthy, of})) {
    fuzzing::expect(!each.id.empty() && !each.ranks.empty(), "a finding of no rule or no rank");
    fuzzing::expect_message(each.text());
    fuzzing::expect_message(each.json());
  }
}

bool is_of_activity(std::string_view path) {
  return path == "/proc/stat" || path == "/proc/1000/stat" || path == "/proc/7/stat";
}

// Looks at the use of the processors of three ranks, two of which share processors.
void check_use(plait::ext::host_activity const& before, plait::ext::host_activity const& after) {
  plait::ext::measured_job job{.hosts = {"a", "a", "a"},
                               .cpus = {{0, 1}, {1}, {3}},
                               .work = {{.name = "copies", .together = {1, 2, 3}}}};
  std::vector<plait::ext::rank_place> ranks;
  for (auto const& each : job.cpus) ranks.push_back({1000, {each.begin(), each.end()}});
  ranks[2].process = 7;
  job.use = plait::ext::use_between(before, after, ranks);
  fuzzing::expect(job.use.size() == 3 && job.use[0] == job.use[1], "ranks that share differ");
  bool is_known = true;
  for (auto const& each : job.use) {
    is_known = is_known && each.others.is_known();
    if (each.others.is_known())
      fuzzing::expect(std::isfinite(each.others.value()) && each.others.value() >= 0,
                      "the use is not a number");
    else fuzzing::expect_message(each.others.problem());
    fuzzing::expect(each.processes.size() <= 4, "too many processes");
    for (auto const& other : each.processes)
      fuzzing::expect(other.number != 7 && other.number != 1000 && other.cpus >= 0.02,
                      "a process of the job is named, or an idle one");
  }
  auto const found = plait::ext::activity_rules::busy_cpu(job);
  fuzzing::expect(plait::ext::is_quiet(job) == (is_known && found.empty()), "busy and quiet");
  for (auto const& each : found) {
    fuzzing::expect_message(each.text());
    fuzzing::expect_message(each.json());
  }
}

// Numbers may be NaN, which differs from itself, so texts are compared.
void expect_same_text(host_settings const& of) {
  auto const text = plait::ext::to_text(of);
  fuzzing::expect(plait::ext::to_text(plait::ext::settings_from_text(text)) == text,
                  "settings change on their way");
}

}  // namespace

int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  static std::vector<planted::file> const files(planted::healthy_files());
  static planted::tree const tree;
  static auto const healthy = planted::read(tree, 0, "a"), second = planted::read(tree, 1, "b");
  static auto const idle = plait::ext::read_host_activity(tree.files());
  static std::set<std::size_t> changed;
  std::span<std::uint8_t const> bytes(data, size);
  if (size > 0 && data[0] == 255) {
    std::string const text(reinterpret_cast<char const*>(data) + 1, size - 1);
    fuzzing::accepts([&] {
      auto const of = plait::ext::settings_from_text(text);
      expect_same_text(of);
      check(healthy, of);
    });
    return 0;
  }
  for (auto const number : changed) tree.plant(files[number].first, files[number].second);
  changed.clear();
  auto of = second;
  bool is_active = false;
  for (int i = 0; i < 3 && !bytes.empty(); ++i) {
    auto const number = static_cast<std::size_t>(fuzzing::take(bytes, 1)) % files.size();
    auto const& path = files[number].first;
    auto const length = static_cast<std::size_t>(fuzzing::take(bytes, 2));
    auto const text = bytes.subspan(0, std::min(length, bytes.size()));
    bytes = bytes.subspan(text.size());
    changed.insert(number);
    if (text.empty()) tree.remove(path);
    else tree.plant(path, {reinterpret_cast<char const*>(text.data()), text.size()});
    read_part(tree.files(), path, of);
    is_active = is_active || is_of_activity(path);
  }
  if (is_active) {
    auto const busy = plait::ext::read_host_activity(tree.files());
    check_use(idle, busy);
    check_use(busy, idle);
  }
  expect_same_text(of);
  check(healthy, of);
  return 0;
}
