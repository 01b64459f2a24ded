// SPDX-License-Identifier: Apache-2.0
// The files of /proc and /sys: pieces of a byte that chooses a file, a length of two bytes, and its
// text. An empty text removes the file. The settings that such a file changes are read again, and
// all rules look at them. A first byte of 255: the rest are settings that another rank has sent.
#include <algorithm>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "doctor/planted_tree.hpp"
#include "fuzz/fuzzing.hpp"
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
  }
  expect_same_text(of);
  check(healthy, of);
  return 0;
}
