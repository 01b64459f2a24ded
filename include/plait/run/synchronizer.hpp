// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/core/lean_vector.hpp"
#include "plait/core/macros.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/plan/schedule/program_operation.hpp"
#include "plait/plan/schedule/synchronization.hpp"

namespace plait::execution {

/// Makes a device keep the waits that the operations of a program need: call begin() and
/// end() around each, in their order.
///
/// Cost:    one event for each operation that another stream waits for; none of these allocates.
/// Threads: used by the one thread that runs the rank.
template <class Device>
class synchronizer {
 public:
  /// `touched` by the operations, each of which has its name in wait sites.
  [[gnu::cold]] synchronizer(Device& device, lean_vector<stream_operation> const& touched,
                             lean_vector<planning::program_operation> const& operations)
      : device_(device), entries_(touched.size()) {
    for (std::size_t i = 0; i < touched.size(); ++i) entries_[i].on = touched[i].on;
    for (auto const& planned : plan_waits(touched)) {
      auto const waiting = static_cast<std::size_t>(planned.waiting);
      auto const awaited = static_cast<std::size_t>(planned.awaited);
      if (entries_[awaited].event < 0) {
        entries_[awaited].event = static_cast<int>(events_.size());
        events_.push_back(device.make_event());
      }
      entries_[waiting].waits.push_back(
          {entries_[awaited].event,
           {wait_site::part::step, planning::site_number(operations[waiting]),
            planning::site_number(operations[awaited])}});
    }
  }

  /// Behind begin(index), operation `index` may be handed to its stream; end(index) lets others
  /// wait for it.
  PLAIT_IN_LOOPS void begin(std::size_t index) {
    auto const& now = entries_[index];
    for (auto const& [event, site] : now.waits)
      device_.wait(now.on, events_[static_cast<std::size_t>(event)], site);
  }
  PLAIT_IN_LOOPS void end(std::size_t index) {
    auto const& now = entries_[index];
    if (now.event >= 0) device_.record(events_[static_cast<std::size_t>(now.event)], now.on);
  }

 private:
  struct awaited_event {
    int event = 0;
    wait_site site{};
  };
  struct entry {
    stream on = stream::compute;
    lean_vector<awaited_event> waits{};
    int event = -1;  // what others wait for
  };

  Device& device_;
  lean_vector<entry> entries_;
  lean_vector<typename Device::event> events_;
};

}  // namespace plait::execution
