// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "plait/backend/collective_call.hpp"
#include "plait/backend/communicator.hpp"
#include "plait/backend/communicator_calls.hpp"
#include "plait/backend/host/rank_order.hpp"
#include "plait/backend/host/thread_seat.hpp"
#include "plait/backend/host/thread_world.hpp"
#include "plait/core/error.hpp"

namespace plait {

/// One rank's member of a group of a thread_world: the ranks are threads that read and write each
/// other's buffers.
///
/// Sums are made in rank order, each element by exactly one rank, so results are the same bits on
/// every rank and do not depend on timing.
/// Cost:    at most two meetings of the group per call; elements go straight from buffer to
///          buffer; no allocation after construction.
/// Errors:  all members compare their calls before any buffer is written. collective_mismatch on
///          every member if kind, size, element type, operation, root or trainer differ;
///          size_mismatch on every member if a block size does not fit; collective_mismatch if
///          ranks wait for each other in different calls or for a rank that has finished;
///          communication_timeout; job_aborted if another rank has failed.
/// Threads: used by the thread of its rank only.
class thread_communicator : public communicator_calls<thread_communicator> {
 public:
  /// Joins group `group_id`, which has been declared with the same `members`.
  thread_communicator(thread_world& world, int group_id, std::vector<int> const& members,
                      int world_rank)
      : seat_(join(world, group_id, members, world_rank)) {}

  thread_communicator(thread_communicator&&) noexcept = default;
  thread_communicator& operator=(thread_communicator&&) noexcept = default;

  [[nodiscard]] int rank() const noexcept { return seat_.rank(); }
  [[nodiscard]] int size() const noexcept { return seat_.size(); }

  /// \see communicator_calls
  void wait_for_all() { seat_.meet({.kind = collective::barrier}); }
  template <collective Kind, class T>
  void carry_out(detail::collective_call const& call, std::size_t tensor_bytes) {
    if constexpr (Kind == collective::send) return seat_.send(call);
    else if constexpr (Kind == collective::receive) return seat_.receive(call);
    else {
      seat_.meet(call);
      if (tensor_bytes == 0) return;
      move<Kind, T>(call);
      seat_.leave(call);  // when no other member needs the buffers any more
    }
  }

 private:
  [[gnu::cold]] static detail::thread_seat join(thread_world& world, int group_id,
                                                std::vector<int> const& members, int world_rank) {
    auto const who = "rank " + std::to_string(world_rank) + ": thread_communicator: ";
    if (group_id < 0 || group_id >= static_cast<int>(world.groups_.size()))
      throw input_error(who + "group " + std::to_string(group_id) +
                        " has not been declared; the world has " +
                        std::to_string(world.groups_.size()) + " groups");
    auto& group = *world.groups_[static_cast<std::size_t>(group_id)];
    if (group.members != members)
      throw input_error(who + "group " + std::to_string(group_id) + " has been declared as " +
                        detail::group_text(group.members) + ", not as " +
                        detail::group_text(members));
    auto const place = std::ranges::find(members, world_rank);
    if (place == members.end())
      throw input_error(who + "it is not a member of " + detail::group_text(members));
    return {world.room_, group, static_cast<int>(place - members.begin())};
  }

  // This rank's part of a collective, when all members are there.
  template <collective Kind, class T>
  void move(detail::collective_call const& call) {
    std::size_t const count = call.bytes / sizeof(T);
    [[maybe_unused]] auto const* const mine = static_cast<T const*>(call.source);
    [[maybe_unused]] auto* const out = static_cast<T*>(call.target);
    if constexpr (Kind == collective::all_reduce || Kind == collective::reduce) {
      detail::combine_in_rank_order<T>(
          detail::share_of<T>(count, rank(), size()), size(), call.operation,
          [&](int member) { return seat_.source<T>(member); },
          [&](std::size_t first, T const* values, std::size_t n) {
            for (int i = 0; i < size(); ++i)
              if (Kind == collective::all_reduce || i == call.other)
                detail::copy_bytes(seat_.target<T>(i) + first, values, n * sizeof(T));
          });
    } else if constexpr (Kind == collective::reduce_scatter) {
      detail::combine_in_rank_order<T>(
          {0, count}, size(), call.operation,
          [&](int member) { return block(seat_.source<T>(member), rank(), count); },
          [&](std::size_t first, T const* values, std::size_t n) {
            detail::copy_bytes(out + first, values, n * sizeof(T));
          });
    } else if constexpr (Kind == collective::all_gather) {
      for_each_peer([&](int peer) {
        detail::copy_bytes(block(out, peer, count), seat_.source<T>(peer), call.bytes);
      });
    } else if constexpr (Kind == collective::all_to_all) {
      std::size_t const each = count / static_cast<std::size_t>(size());
      for_each_peer([&](int peer) {
        detail::copy_bytes(block(out, peer, each), block(seat_.source<T>(peer), rank(), each),
                           each * sizeof(T));
      });
    } else if constexpr (Kind == collective::broadcast) {
      detail::copy_bytes(out, seat_.source<T>(call.other), call.bytes);
    } else if constexpr (Kind == collective::gather) {
      detail::copy_bytes(block(seat_.target<T>(call.other), rank(), count), mine, call.bytes);
    } else {
      static_assert(Kind == collective::scatter);
      detail::copy_bytes(out, block(seat_.source<T>(call.other), rank(), count), call.bytes);
    }
  }

  template <class T>
  static T* block(T* buffer, int index, std::size_t count) {
    return buffer + static_cast<std::size_t>(index) * count;
  }

  // Begins with this rank, so that not all ranks read from one at the same time.
  template <class Action>
  void for_each_peer(Action action) const {
    for (int i = 0; i < size(); ++i) action((rank() + i) % size());
  }

  detail::thread_seat seat_;
};

static_assert(can_all<thread_communicator, float>);

}  // namespace plait
