// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plait/core/lean_vector.hpp"
#include "plait/core/macros.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/plan/schedule/program_operation.hpp"
#include "plait/plan/schedule/synchronization.hpp"

namespace plait::execution {

/// Makes the operations of a program wait for each other across streams. The constructor calls
/// plan_waits, which finds the waits from the buffers that the operations touch. A wait is a pair
/// of a waiting and an awaited operation on different streams, and each awaited operation gets an
/// event. A walk calls begin() before each operation and end() after it, in the order of the
/// program. For example, operation 5 on stream::to_next sends the output that operation 4 on
/// stream::compute makes. end(4) records an event on stream::compute, and begin(5) makes
/// stream::to_next wait for this event; the host does not wait.
///
/// Cost:    one event for each operation that another stream waits for; none of the calls
///          allocates.
/// Threads: used by the one thread that runs the rank.
template <class Device>
class synchronizer {
 public:
  /// `touched`: the stream and the buffers of each operation. `operations`: the operations whose
  /// names identify the waits in errors and traces.
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

  /// After begin(index), operation `index` may be enqueued on its stream. After end(index), later
  /// operations can wait for it.
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
    int event = -1;  // index of the event for which other operations wait; -1: no operation waits
  };

  Device& device_;
  lean_vector<entry> entries_;
  lean_vector<typename Device::event> events_;
};

}  // namespace plait::execution
