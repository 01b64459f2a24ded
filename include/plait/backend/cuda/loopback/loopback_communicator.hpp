// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <type_traits>

#include "plait/backend/collective_blocks.hpp"
#include "plait/backend/collective_call.hpp"
#include "plait/backend/communicator.hpp"
#include "plait/backend/communicator_calls.hpp"
#include "plait/backend/cuda/device/cuda_device.hpp"
#include "plait/backend/cuda/device/cuda_error.hpp"
#include "plait/backend/cuda/device/cuda_handles.hpp"
#include "plait/backend/cuda/device/cuda_headers.hpp"
#include "plait/backend/cuda/device/cuda_queue.hpp"
#include "plait/backend/cuda/device/cuda_state.hpp"
#include "plait/backend/cuda/device/device_scope.hpp"
#include "plait/backend/cuda/kernels/elementwise.hpp"
#include "plait/backend/cuda/loopback/loopback_world.hpp"
#include "plait/backend/host/barrier_slot.hpp"
#include "plait/backend/host/rank_order.hpp"
#include "plait/backend/host/thread_barrier.hpp"
#include "plait/core/error.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/mesh/stream.hpp"

namespace plait::ext {

/// One rank's member of a group of ranks that are threads of one process and share one GPU. A rank
/// copies data directly from the buffers of the other ranks, and adds values in rank order.
///
/// The threads wait for each other and compare their calls like the threads of a
/// thread_communicator. Then each rank puts its part of the call into its own stream, after events
/// of the other ranks. No kernel waits for another kernel, so the result does not depend on which
/// kernels run at the same time.
/// Cost:    two barriers of the threads for each call; no rank waits for the device.
/// Errors:  the errors of thread_communicator, before any work is put into a stream; input_error
///          for a group of more than 16 ranks; cuda_error.
/// Threads: used by the thread of its rank only.
class loopback_communicator : public communicator_calls<loopback_communicator> {
 public:
  /// Joins group `group_id` of `world`, which communicates on stream `on`.
  loopback_communicator(loopback_world& world, int group_id, int world_rank, cuda_device& device,
                        stream on)
      : state_(&device.state()),
        on_(on),
        room_(&world.room_),
        group_(world.groups_.at(static_cast<std::size_t>(group_id)).get()),
        slot_(world.room_, group_->table, place_of(group_->table, world_rank)) {
    if (size() > cuda_kernels::most_sources)
      throw input_error({detail::place_text(state_->place), "a group of ", size(),
                         " ranks shares one GPU; a GPU can be shared by at most ",
                         cuda_kernels::most_sources, " ranks"});
    device_scope const scope(state_->place);
    auto& mine = events_of(rank());
    mine.ready = detail::make_event_handle(state_->place);
    mine.done = detail::make_event_handle(state_->place);
    for (int i = 0; i < size(); ++i)
      mine.received.push_back(detail::make_event_handle(state_->place));
  }

  [[nodiscard]] int rank() const noexcept { return slot_.rank(); }
  [[nodiscard]] int size() const noexcept { return slot_.size(); }

  /// The functions that the base class communicator_calls requires. The sender of a message returns
  /// when the receiver has put the copy into the receiver's stream.
  void wait_for_all() { slot_.meet({.kind = collective::barrier}); }
  template <collective Kind, class T>
  void carry_out(detail::collective_call const& call, std::size_t tensor_bytes) {
    if constexpr (Kind == collective::send) post(call);
    else if constexpr (Kind == collective::receive) fetch(call);
    else
      exchange(call, tensor_bytes, [&] { detail::do_part<Kind, T>(shared_buffers{*this}, call); });
  }

 private:
  using room = detail::thread_barrier;

  static int place_of(detail::thread_group const& group, int world_rank) {
    int place = 0;
    while (group.members.at(static_cast<std::size_t>(place)) != world_rank) ++place;
    return place;
  }

  [[nodiscard]] detail::loopback_group::member_events& events_of(int member) const {
    return group_->events[static_cast<std::size_t>(member)];
  }
  [[nodiscard]] cudaStream_t stream_handle() const { return state_->on(on_); }
  // Returns the stream of a message: the channel's stream if the message is posted, else the
  // communicator's. In both cases the sender's thread waits for the receiver's thread.
  [[nodiscard]] plait::ext::stream stream_for(detail::collective_call const& call) const {
    return call.is_posted() ? call.channel : on_;
  }
  void record(detail::event_handle const& event) const { record(event, on_); }
  void record(detail::event_handle const& event, plait::ext::stream on) const {
    detail::check(cudaEventRecord(event.get(), state_->on(on)), "cudaEventRecord", state_->place);
  }
  void wait_for(detail::event_handle const& event) const { wait_for(event, on_); }
  void wait_for(detail::event_handle const& event, plait::ext::stream on) const {
    detail::check(cudaStreamWaitEvent(state_->on(on), event.get(), 0), "cudaStreamWaitEvent",
                  state_->place);
  }

  // The members' buffers, in the form that do_part() requires; copies and sums go into this
  // member's stream.
  struct shared_buffers {
    loopback_communicator const& of;

    [[nodiscard]] int rank() const { return of.rank(); }
    [[nodiscard]] int size() const { return of.size(); }
    [[nodiscard]] void const* source(int member) const { return of.slot_.shown(member).source; }
    [[nodiscard]] void* target(int member) const { return of.slot_.shown(member).target; }
    void copy(void const* from, void* to, std::size_t bytes) const { of.copy(from, to, bytes); }
    template <class T>
    void combine(reduction operation, std::size_t count, auto from, auto to, int targets) const {
      of.combine<T>(operation, from, to(0), count);
      for (int i = 1; i < targets; ++i) copy(to(0), to(i), count * sizeof(T));
    }
  };

  // Runs one collective. This member records an event when its buffers are ready and meets the
  // other members. It puts its part into its stream, after the events of the other members, and
  // leaves. Then its stream waits for the parts of the other members.
  //
  // An event may be recorded once more only when all ranks have put their waits for it into their
  // streams. The next barrier ensures this.
  template <class Move>
  void exchange(detail::collective_call const& call, std::size_t tensor_bytes, Move move) {
    state_->require_no_capture("ranks that share a GPU communicated");
    device_scope const scope(state_->place);
    record(events_of(rank()).ready);
    slot_.meet(call);
    if (tensor_bytes != 0) {
      // After a failure this member must still leave, or the other members would wait forever.
      std::exception_ptr failure;
      try {
        for_each_other([&](int other) { wait_for(events_of(other).ready); });
        move();
        record(events_of(rank()).done);
      } catch (...) {
        failure = std::current_exception();
      }
      slot_.leave(call);
      if (failure) std::rethrow_exception(failure);
      for_each_other([&](int other) { wait_for(events_of(other).done); });
    }
  }

  // Sends a message. The sender publishes its buffer in a mailbox and waits until the receiver has
  // put the copy into the receiver's stream; then the sender's stream waits for the copy. The
  // mailbox counts its states: for message k, 3k + 1 is posted, 3k + 2 is being copied and 3k + 3
  // is done.
  void post(detail::collective_call const& call) {
    int const to = call.other;
    check_other_end(call);
    device_scope const scope(state_->place);
    record(events_of(rank()).ready, stream_for(call));
    auto& box = group_->table.mailbox(rank(), to);
    box.sent = call;
    auto const posted = room_->advance(box.state);
    int const peer = world_rank(to);
    room_->wake({&peer, 1});
    wait_until(box.state, posted + 2, posted + 1, peer, call);
    if (!box.sent.fits(box.received)) throw collective_mismatch(message_text(box, peer));
    wait_for(events_of(to).received[static_cast<std::size_t>(rank())], stream_for(call));
  }

  void fetch(detail::collective_call const& call) {
    int const from = call.other;
    check_other_end(call);
    device_scope const scope(state_->place);
    auto& box = group_->table.mailbox(from, rank());
    auto const posted = room::count_of(box.state.load()) / 3 * 3 + 1;
    int const peer = world_rank(from);
    wait_until(box.state, posted, posted, peer, call);
    room_->advance(box.state);
    box.received = call;
    bool const good = box.sent.fits(box.received);
    auto const text = good ? std::string{} : message_text(box, world_rank(rank()));
    std::exception_ptr failure;
    try {
      if (good) {
        wait_for(events_of(from).ready, stream_for(call));
        cuda_queue(*state_, stream_for(call)).copy_bytes(box.sent.source, call.target, call.bytes);
        record(events_of(rank()).received[static_cast<std::size_t>(from)], stream_for(call));
      }
    } catch (...) {
      failure = std::current_exception();
    }
    box.state.fetch_add(1);
    room_->wake({&peer, 1});
    if (failure) std::rethrow_exception(failure);
    if (!good) throw collective_mismatch(text);
  }

  void check_other_end(detail::collective_call const& call) const {
    state_->require_no_capture("ranks that share a GPU communicated");
    if (call.other < 0 || call.other >= size() || call.other == rank())
      throw input_error({detail::place_text(state_->place),
                         detail::call_text(call, group_->table.members),
                         ": the other end must be another member of the group"});
  }

  void wait_until(room::counter const& word, std::uint64_t target, std::uint64_t certain_from,
                  int const& peer, detail::collective_call const& call) const {
    room_->wait_until_over(world_rank(rank()), {.word = &word,
                                                .target = target,
                                                .certain_from = certain_from,
                                                .awaited = {&peer, 1},
                                                .call = &call,
                                                .members = &group_->table.members});
  }

  [[nodiscard]] std::string message_text(detail::thread_mailbox const& box, int receiver) const {
    return detail::mismatch_text(world_rank(box.received.other), box.sent, receiver, box.received,
                                 group_->table.members);
  }

  [[nodiscard]] int world_rank(int member) const {
    return group_->table.members[static_cast<std::size_t>(member)];
  }

  template <class Action>
  void for_each_other(Action action) const {
    for (int i = 1; i < size(); ++i) action((rank() + i) % size());
  }

  // Puts into the stream a kernel that adds the members' values, or computes their maximum, in rank
  // order.
  template <class T, class Source>
  void combine(reduction operation, Source source_of, T* out, std::size_t count) const {
    cuda_kernels::source_table<T> table{};
    for (int member = 0; member < size(); ++member) table.of[member] = source_of(member);
    cuda_launcher const launch(state_->place, stream_handle());
    if (operation == reduction::sum)
      cuda_kernels::combine(launch, cuda_kernels::plus{}, table, size(), out, count);
    else cuda_kernels::combine(launch, cuda_kernels::maximum{}, table, size(), out, count);
  }

  void copy(void const* from, void* to, std::size_t bytes) const {
    cuda_queue(*state_, on_).copy_bytes(from, to, bytes);
  }

  detail::cuda_state* state_;
  plait::ext::stream on_;
  room* room_;
  detail::loopback_group* group_;
  detail::barrier_slot slot_;
};

static_assert(can_all<loopback_communicator, float>);

}  // namespace plait::ext
