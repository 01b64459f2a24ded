// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "plait/backend/collective_blocks.hpp"
#include "plait/backend/collective_call.hpp"
#include "plait/backend/communicator.hpp"
#include "plait/backend/communicator_calls.hpp"
#include "plait/backend/host/barrier_slot.hpp"
#include "plait/backend/host/rank_order.hpp"
#include "plait/backend/host/thread_channel.hpp"
#include "plait/backend/host/thread_world.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/mesh/axis.hpp"

namespace plait::ext {

/// The communicator of one rank for a group of a thread_world: the ranks are threads that read and
/// write each other's buffers.
///
/// Sums are computed in rank order, each element by exactly one rank, so results have equal bits on
/// every rank and do not depend on timing. For sums of up to 256 bytes, every rank computes all
/// elements itself.
/// Cost:    at most two barriers of the group per call, one for a sum of up to 256 bytes; elements
///          are copied directly from buffer to buffer; no allocation after construction.
/// Errors:  all members compare their calls before any buffer is written. collective_mismatch on
///          every member if kind, size, element type, operation, root or trainer differ;
///          size_mismatch on every member if a block size does not fit; collective_mismatch if
///          ranks wait for each other in different calls or for a rank that has finished;
///          communication_timeout; job_aborted if another rank has failed.
/// Threads: used by the thread of its rank only.
class thread_communicator : public communicator_calls<thread_communicator> {
 public:
  /// Joins group `group_id`, which thread_world::add_group has returned for the same `members`.
  /// `over`: the axes of the group. `messages`: the object that the rank's device also uses; if it
  /// is null, post_send and post_receive wait like send and receive.
  thread_communicator(thread_world& world, int group_id, std::vector<int> const& members,
                      int world_rank, axis_set over = {},
                      detail::thread_messages* messages = nullptr)
      : communicator_calls(over),
        slot_(join(world, group_id, members, world_rank)),
        messages_(messages) {}

  thread_communicator(thread_communicator&&) noexcept = default;
  thread_communicator& operator=(thread_communicator&&) noexcept = default;

  [[nodiscard]] int rank() const noexcept { return slot_.rank(); }
  [[nodiscard]] int size() const noexcept { return slot_.size(); }

  /// The functions that the base class communicator_calls requires.
  void wait_for_all() { slot_.meet(call_of_barrier()); }
  template <collective Kind, class T>
  void carry_out(detail::collective_call const& call, std::size_t tensor_bytes) {
    if constexpr (Kind == collective::send || Kind == collective::receive) {
      if (call.is_posted() && messages_ != nullptr) return slot_.post(call, *messages_);
      if constexpr (Kind == collective::send) return slot_.send(call);
      else return slot_.receive(call);
    } else {
      if constexpr (Kind == collective::all_reduce)
        if (tensor_bytes <= detail::thread_member::few_bytes) return add_up_few<T>(call);
      slot_.meet(call);
      if (tensor_bytes == 0) return;
      detail::do_part<Kind, T>(shared_buffers{slot_}, call);
      slot_.leave(call);  // returns when no member needs the buffers any more
    }
  }

 private:
  // Sums a small vector: each member publishes a copy of its values with its call, so it need not
  // wait until the other members have read its buffer.
  template <class T>
  void add_up_few(detail::collective_call const& call) {
    slot_.meet(call, call.bytes);
    detail::combine_in_rank_order<T>(
        call.operation, call.bytes / sizeof(T), size(),
        [&](int from) { return reinterpret_cast<T const*>(slot_.given(from)); },
        [&](int) { return static_cast<T*>(call.target); });
  }

  [[gnu::cold]] static detail::barrier_slot join(thread_world& world, int group_id,
                                                 std::vector<int> const& members, int world_rank);

  // The type of do_part's argument `member`, for members that are threads.
  struct shared_buffers {
    detail::barrier_slot const& slot;

    [[nodiscard]] int rank() const { return slot.rank(); }
    [[nodiscard]] int size() const { return slot.size(); }
    [[nodiscard]] void const* source(int member) const { return slot.shown(member).source; }
    [[nodiscard]] void* target(int member) const { return slot.shown(member).target; }
    void copy(void const* from, void* to, std::size_t bytes) const {
      detail::copy_bytes(to, from, bytes);
    }
    template <class T>
    void combine(reduction operation, std::size_t count, auto from, auto to, int targets) const {
      detail::combine_in_rank_order<T>(operation, count, size(), from, to, targets);
    }
  };

  detail::barrier_slot slot_;
  // The object is owned elsewhere, and outlives the communicator.
  detail::thread_messages* messages_;
};

static_assert(can_all<thread_communicator, float>);

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/backend/host/thread_communicator.ipp"
#endif
