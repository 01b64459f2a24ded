// SPDX-License-Identifier: Apache-2.0
// The files of /proc and /sys: pieces of a byte that chooses a file, and its text. An empty text
// removes the file. Then all rules look at the settings. A first byte of 255: the rest are settings
// that another rank has sent.
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "doctor/planted_tree.hpp"
#include "fuzz/fuzzing.hpp"
#include "plait/doctor/setting_rules.hpp"
#include "plait/doctor/settings_text.hpp"

namespace {

void check(std::vector<plait::ext::host_settings> const& all) {
  for (auto const& each : plait::ext::check_settings(all)) {
    fuzzing::expect(!each.id.empty() && !each.ranks.empty(), "a finding of no rule or no rank");
    fuzzing::expect_message(each.text());
    fuzzing::expect_message(each.json());
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  static std::vector<planted::file> const files(planted::healthy_files());
  static planted::tree const tree;
  static auto const healthy = planted::read(tree, 0, "a");
  static std::set<std::size_t> changed;
  std::span<std::uint8_t const> bytes(data, size);
  if (size > 0 && data[0] == 255) {
    std::string const text(reinterpret_cast<char const*>(data) + 1, size - 1);
    fuzzing::accepts([&] {
      auto const of = plait::ext::settings_from_text(text);
      fuzzing::expect(plait::ext::settings_from_text(plait::ext::to_text(of)) == of ||
                          plait::ext::to_text(of).size() > 0,
                      "settings change on their way");
      check({healthy, of});
    });
    return 0;
  }
  for (auto const number : changed) tree.plant(files[number].first, files[number].second);
  changed.clear();
  for (int i = 0; i < 4 && !bytes.empty(); ++i) {
    auto const number = static_cast<std::size_t>(fuzzing::take(bytes, 1)) % files.size();
    auto const length = static_cast<std::size_t>(fuzzing::take(bytes, 2));
    auto const text = bytes.subspan(0, std::min(length, bytes.size()));
    bytes = bytes.subspan(text.size());
    changed.insert(number);
    if (text.empty()) tree.remove(files[number].first);
    else
      tree.plant(files[number].first, {reinterpret_cast<char const*>(text.data()), text.size()});
  }
  auto const of = planted::read(tree, 1, "b");
  fuzzing::expect(plait::ext::settings_from_text(plait::ext::to_text(of)) == of,
                  "settings change on their way");
  check({healthy, of});
  check({of, of});
  return 0;
}
