// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <type_traits>

#include "plait/backend/communicator.hpp"
#include "plait/backend/host/thread_call.hpp"
#include "plait/backend/simulated/simulated_meeting.hpp"
#include "plait/backend/simulated/simulated_rank.hpp"
#include "plait/backend/simulated/simulated_world.hpp"
#include "plait/core/error.hpp"

namespace plait {

/// One rank's member of a group of a simulated job. Calls are put at the end of the group's stream
/// and carried out when those of all members are next in theirs; shapes and results are those of
/// `thread_communicator`, to the bit.
///
/// Errors:  those of `thread_communicator`, thrown where a rank synchronises.
/// Threads: used by the thread of its rank only.
class simulated_communicator {
 public:
  using concept_tag = communicator_tag;

  simulated_communicator(detail::simulated_world& world, int group, int world_rank)
      : world_(&world), seat_(&world.rank(world_rank)), group_(group) {
    auto const& members = world.group_at(group).members;
    rank_ = static_cast<int>(std::ranges::find(members, world_rank) - members.begin());
    size_ = static_cast<int>(members.size());
  }

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }

  /// \see thread_communicator::counted
  [[nodiscard]] traffic const& counted() const noexcept { return counted_; }
  void reset_counted() noexcept { counted_.reset(); }

  /// Returns on no rank before the last rank has called it and all their streams are empty.
  void barrier() {
    world_->barrier(seat_->number(), group_);
    counted_.record(collective::barrier, 0, size());
  }

  /// \see thread_communicator::all_reduce
  template <class T>
  void all_reduce(std::span<T> inout, reduction operation = reduction::sum) {
    if (size() == 1) return counted_.record(collective::all_reduce, inout.size_bytes(), 1);
    auto call = call_of<T>(collective::all_reduce, inout.size(), 0, inout.data(), inout.data());
    call.operation = operation;
    enqueue(call, inout.size_bytes(), detail::combine<T>);
  }

  /// \see thread_communicator::all_gather
  template <class T>
  void all_gather(std::type_identity_t<std::span<T const>> send, std::span<T> receive) {
    enqueue(call_of<T>(collective::all_gather, send.size(), receive.size(), send.data(),
                       receive.data()),
            receive.size_bytes(), detail::move_blocks);
  }

  /// \see thread_communicator::reduce_scatter
  template <class T>
  void reduce_scatter(std::type_identity_t<std::span<T const>> send, std::span<T> receive) {
    enqueue(call_of<T>(collective::reduce_scatter, receive.size(), send.size(), send.data(),
                       receive.data()),
            send.size_bytes(), detail::combine<T>);
  }

  /// \see thread_communicator::all_to_all
  template <class T>
  void all_to_all(std::type_identity_t<std::span<T const>> send, std::span<T> receive) {
    enqueue(call_of<T>(collective::all_to_all, send.size(), receive.size(), send.data(),
                       receive.data()),
            send.size_bytes() * static_cast<std::size_t>(size()), detail::move_blocks);
  }

  /// \see thread_communicator::broadcast
  template <class T>
  void broadcast(std::span<T> inout, int root) {
    auto call = call_of<T>(collective::broadcast, inout.size(), 0, inout.data(), inout.data());
    call.other = root;
    enqueue(call, inout.size_bytes(), detail::move_blocks);
  }

  /// \see thread_communicator::reduce
  template <class T>
  void reduce(std::span<T> inout, int root) {
    auto call = call_of<T>(collective::reduce, inout.size(), 0, inout.data(), inout.data());
    call.other = root;
    enqueue(call, inout.size_bytes(), detail::combine<T>);
  }

  /// \see thread_communicator::gather
  template <class T>
  void gather(std::type_identity_t<std::span<T const>> send, std::span<T> receive, int root) {
    auto call = call_of<T>(collective::gather, send.size(), rank() == root ? receive.size() : 0,
                           send.data(), receive.data());
    call.other = root;
    enqueue(call, send.size_bytes() * static_cast<std::size_t>(size()), detail::move_blocks);
  }

  /// \see thread_communicator::scatter
  template <class T>
  void scatter(std::type_identity_t<std::span<T const>> send, std::span<T> receive, int root) {
    auto call = call_of<T>(collective::scatter, receive.size(), rank() == root ? send.size() : 0,
                           send.data(), receive.data());
    call.other = root;
    enqueue(call, receive.size_bytes() * static_cast<std::size_t>(size()), detail::move_blocks);
  }

  /// \see thread_communicator::send
  template <class T>
  void send(std::span<T> values, int to, int tag) {
    auto call =
        call_of<std::remove_const_t<T>>(collective::send, values.size(), 0, values.data(), nullptr);
    call.other = to;
    call.tag = tag;
    check_other_end(call);
    enqueue(call, call.bytes, detail::move_blocks);
  }

  /// \see thread_communicator::receive
  template <class T>
  void receive(std::span<T> buffer, int from, int tag) {
    auto call = call_of<T>(collective::receive, buffer.size(), 0, nullptr, buffer.data());
    call.other = from;
    call.tag = tag;
    check_other_end(call);
    enqueue(call, call.bytes, detail::move_blocks);
  }

 private:
  template <class T>
  static detail::thread_call call_of(collective kind, std::size_t count, std::size_t whole_count,
                                     void const* source, void* target) {
    return {.kind = kind,
            .element = detail::element_type::of<T>(),
            .bytes = count * sizeof(T),
            .whole_bytes = whole_count * sizeof(T),
            .source = source,
            .target = target};
  }

  void enqueue(detail::thread_call const& call, std::size_t tensor_bytes,
               void (*carry_out)(std::span<detail::thread_call const>)) {
    seat_->meet(world_->group_at(group_).on, group_, call, carry_out);
    counted_.record(call.kind, tensor_bytes, size());
  }

  void check_other_end(detail::thread_call const& call) const {
    if (call.other >= 0 && call.other < size() && call.other != rank()) return;
    throw input_error("rank " + std::to_string(seat_->number()) + " called " +
                      detail::call_text(call, world_->group_at(group_).members) +
                      ": the other end must be another member of the group");
  }

  detail::simulated_world* world_;
  detail::simulated_rank* seat_;
  int group_;
  int rank_ = 0;
  int size_ = 1;
  traffic counted_;
};

static_assert(communicator<simulated_communicator>);
static_assert(can_all_reduce<simulated_communicator, float>);
static_assert(can_all_gather<simulated_communicator, float>);
static_assert(can_reduce_scatter<simulated_communicator, float>);
static_assert(can_all_to_all<simulated_communicator, float>);
static_assert(can_broadcast<simulated_communicator, float>);
static_assert(can_reduce<simulated_communicator, float>);
static_assert(can_gather<simulated_communicator, float>);
static_assert(can_scatter<simulated_communicator, float>);
static_assert(can_send_receive<simulated_communicator, float>);

}  // namespace plait
