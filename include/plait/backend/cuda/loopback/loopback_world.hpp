// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plait/backend/cuda/device/cuda_handles.hpp"
#include "plait/backend/host/barrier_slot.hpp"
#include "plait/backend/host/thread_barrier.hpp"
#include "plait/core/namespaces.hpp"

namespace plait::detail {

// The rendezvous of a group's threads, and the events for which its members wait. The events exist
// as long as the world, since a member may end while another member still has to wait for its last
// call.
struct loopback_group {
  explicit loopback_group(std::vector<int> ranks) : table(std::move(ranks)) {
    events.resize(table.members.size());
  }
  struct member_events {
    event_handle ready, done;
    std::vector<event_handle> received;  // for each sender, the event after the copy of its message
  };
  thread_group table;
  std::vector<member_events> events;  // each member creates its own element
};

}  // namespace plait::detail

namespace plait::ext {

/// The state that the ranks of one process share when they exchange data through
/// loopback_communicators: the groups, and the barrier in which their threads wait for each other.
///
/// Threads: as for thread_world.
class loopback_world {
 public:
  explicit loopback_world(int ranks, thread_options options = {}) : room_(ranks, options) {}
  loopback_world(loopback_world const&) = delete;
  loopback_world& operator=(loopback_world const&) = delete;

  /// Declares a group by its world ranks, in group order. Returns its id; ids count from 0.
  [[gnu::cold]] int add_group(std::vector<int> members) {
    auto& group =
        *groups_.emplace_back(std::make_unique<detail::loopback_group>(std::move(members)));
    room_.watch(group.table.arrivals);
    for (auto& box : group.table.mailboxes) room_.watch(box.state);
    return static_cast<int>(groups_.size()) - 1;
  }

  /// Makes every present and future wait of a rank throw job_aborted with this message.
  void abort(std::string message) { room_.abort(std::move(message)); }
  /// Records that `rank` will make no more calls.
  void finish(int rank) { room_.finish(rank); }

 private:
  friend class loopback_communicator;
  detail::thread_barrier room_;
  std::vector<std::unique_ptr<detail::loopback_group>> groups_;
};

}  // namespace plait::ext
