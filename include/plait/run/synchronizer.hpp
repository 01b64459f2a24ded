// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "plait/core/namespaces.hpp"
#include "plait/plan/synchronization.hpp"

namespace plait::execution {

/// Makes a device keep the waits that a list of operations needs: call run() for each operation, in
/// the order of the list.
///
/// Cost:    one event for each operation that another stream waits for; run() allocates nothing.
/// Threads: used by the one thread that runs the rank.
template <class Device>
class synchronizer {
 public:
  /// `numbers` names the operations in wait sites; it is as long as `operations`.
  [[gnu::cold]] synchronizer(Device& device, wait_site::part where,
                             std::vector<stream_operation> const& operations,
                             std::vector<int> const& numbers)
      : device_(device), entries_(operations.size()) {
    for (std::size_t i = 0; i < operations.size(); ++i) entries_[i].on = operations[i].on;
    for (auto const& planned : plan_waits(operations)) {
      auto const waiting = static_cast<std::size_t>(planned.waiting);
      auto const awaited = static_cast<std::size_t>(planned.awaited);
      if (entries_[awaited].event < 0) {
        entries_[awaited].event = static_cast<int>(events_.size());
        events_.push_back(device.make_event());
      }
      entries_[waiting].waits.push_back(
          {entries_[awaited].event, {where, numbers[waiting], numbers[awaited]}});
    }
  }

  /// Runs work() between the waits of operation `index` and the record that others wait for.
  template <class Work>
  void run(std::size_t index, Work const& work) {
    auto const& now = entries_[index];
    for (auto const& [event, site] : now.waits)
      device_.wait(now.on, events_[static_cast<std::size_t>(event)], site);
    work();
    if (now.event >= 0) device_.record(events_[static_cast<std::size_t>(now.event)], now.on);
  }

 private:
  struct awaited_event {
    int event = 0;
    wait_site site{};
  };
  struct entry {
    stream on = stream::compute;
    std::vector<awaited_event> waits{};
    int event = -1;  // what others wait for
  };

  Device& device_;
  std::vector<entry> entries_;
  std::vector<typename Device::event> events_;
};

}  // namespace plait::execution
