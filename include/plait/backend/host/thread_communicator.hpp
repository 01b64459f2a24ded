// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "plait/backend/communicator.hpp"
#include "plait/backend/host/rank_order.hpp"
#include "plait/backend/host/thread_call.hpp"
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
///          every member if kind, size, element type, operation or root differ; size_mismatch on
///          every member if a block size does not fit; collective_mismatch if ranks wait for each
///          other in different calls or for a rank that has finished; communication_timeout;
///          job_aborted if another rank has failed.
/// Threads: used by the thread of its rank only.
class thread_communicator {
 public:
  using concept_tag = communicator_tag;

  /// Joins group `group_id`, which has been declared with the same `members`.
  thread_communicator(thread_world& world, int group_id, std::vector<int> const& members,
                      int world_rank)
      : seat_(join(world, group_id, members, world_rank)) {}

  thread_communicator(thread_communicator&&) noexcept = default;
  thread_communicator& operator=(thread_communicator&&) noexcept = default;

  [[nodiscard]] int rank() const noexcept { return seat_.rank(); }
  [[nodiscard]] int size() const noexcept { return seat_.size(); }

  /// What this member was asked to move since construction or the last reset.
  [[nodiscard]] traffic const& counted() const noexcept { return counted_; }
  void reset_counted() noexcept { counted_.reset(); }

  /// Returns on no rank before the last rank has called it.
  void barrier() {
    seat_.meet({.kind = collective::barrier});
    counted_.record(collective::barrier, 0, size());
  }

  /// Combines `inout` over all ranks and leaves the same bits on every rank.
  ///
  /// Shapes:  inout (n), the same n on every rank; n == 0 is allowed.
  template <class T>
  void all_reduce(std::span<T> inout, reduction operation = reduction::sum) {
    if (size() == 1) return counted_.record(collective::all_reduce, inout.size_bytes(), 1);
    auto call = call_of<T>(collective::all_reduce, inout.size(), 0, inout.data(), inout.data());
    call.operation = operation;
    exchange(call, inout.size_bytes(), [&] {
      detail::combine_in_rank_order<T>(
          detail::share_of<T>(inout.size(), rank(), size()), size(), operation,
          [&](int member) { return seat_.source<T>(member); },
          [&](std::size_t first, T const* values, std::size_t count) {
            for (int i = 0; i < size(); ++i)
              detail::copy_bytes(seat_.target<T>(i) + first, values, count * sizeof(T));
          });
    });
  }

  /// Concatenates `send` of all ranks, in rank order, into `receive` on every rank.
  ///
  /// Shapes:  send (n), receive (size()*n), the same n on every rank; send may be this rank's own
  ///          block of receive and may not overlap it otherwise.
  template <class T>
  void all_gather(std::type_identity_t<std::span<T const>> send, std::span<T> receive) {
    auto const call = call_of<T>(collective::all_gather, send.size(), receive.size(), send.data(),
                                 receive.data());
    exchange(call, receive.size_bytes(), [&] {
      for_each_peer([&](int peer) {
        detail::copy_bytes(block(receive.data(), peer, send.size()), seat_.source<T>(peer),
                           send.size_bytes());
      });
    });
  }

  /// Adds `send` over all ranks and leaves block r of the sum in `receive` on rank r.
  ///
  /// Shapes:  send (size()*n), receive (n), the same n on every rank; receive may be this rank's
  ///          own block of send and may not overlap it otherwise.
  template <class T>
  void reduce_scatter(std::type_identity_t<std::span<T const>> send, std::span<T> receive) {
    auto const call = call_of<T>(collective::reduce_scatter, receive.size(), send.size(),
                                 send.data(), receive.data());
    exchange(call, send.size_bytes(), [&] {
      auto const count = receive.size();
      detail::combine_in_rank_order<T>(
          {0, count}, size(), reduction::sum,
          [&](int member) { return block(seat_.source<T>(member), rank(), count); },
          [&](std::size_t first, T const* values, std::size_t values_count) {
            detail::copy_bytes(receive.data() + first, values, values_count * sizeof(T));
          });
    });
  }

  /// Moves block j of `send` on rank i to block i of `receive` on rank j.
  ///
  /// Shapes:  send and receive (size()*n), the same n on every rank; they may not overlap.
  template <class T>
  void all_to_all(std::type_identity_t<std::span<T const>> send, std::span<T> receive) {
    auto const call = call_of<T>(collective::all_to_all, send.size(), receive.size(), send.data(),
                                 receive.data());
    exchange(call, send.size_bytes() * static_cast<std::size_t>(size()), [&] {
      auto const count = send.size() / static_cast<std::size_t>(size());
      for_each_peer([&](int peer) {
        detail::copy_bytes(block(receive.data(), peer, count),
                           block(seat_.source<T>(peer), rank(), count), count * sizeof(T));
      });
    });
  }

  /// Copies `inout` of rank `root` to every rank.
  ///
  /// Shapes:  inout (n), the same n on every rank.
  template <class T>
  void broadcast(std::span<T> inout, int root) {
    auto call = call_of<T>(collective::broadcast, inout.size(), 0, inout.data(), inout.data());
    call.other = root;
    exchange(call, inout.size_bytes(),
             [&] { detail::copy_bytes(inout.data(), seat_.source<T>(root), inout.size_bytes()); });
  }

  /// Adds `inout` over all ranks into that of rank `root`; the others keep theirs as it is.
  ///
  /// Shapes:  inout (n), the same n on every rank.
  template <class T>
  void reduce(std::span<T> inout, int root) {
    auto call = call_of<T>(collective::reduce, inout.size(), 0, inout.data(), inout.data());
    call.other = root;
    exchange(call, inout.size_bytes(), [&] {
      detail::combine_in_rank_order<T>(
          detail::share_of<T>(inout.size(), rank(), size()), size(), reduction::sum,
          [&](int member) { return seat_.source<T>(member); },
          [&](std::size_t first, T const* values, std::size_t count) {
            detail::copy_bytes(seat_.target<T>(root) + first, values, count * sizeof(T));
          });
    });
  }

  /// Concatenates `send` of all ranks, in rank order, into `receive` on rank `root`.
  ///
  /// Shapes:  send (n), the same n on every rank; receive (size()*n) on the root and ignored
  ///          elsewhere; on the root send may be its own block of receive.
  template <class T>
  void gather(std::type_identity_t<std::span<T const>> send, std::span<T> receive, int root) {
    auto call = call_of<T>(collective::gather, send.size(), rank() == root ? receive.size() : 0,
                           send.data(), receive.data());
    call.other = root;
    exchange(call, send.size_bytes() * static_cast<std::size_t>(size()),
             [&] {  // each its own block
               detail::copy_bytes(block(seat_.target<T>(root), rank(), send.size()), send.data(),
                                  send.size_bytes());
             });
  }

  /// Leaves block r of `send` of rank `root` in `receive` on rank r.
  ///
  /// Shapes:  receive (n), the same n on every rank; send (size()*n) on the root and ignored
  ///          elsewhere; on the root receive may be its own block of send.
  template <class T>
  void scatter(std::type_identity_t<std::span<T const>> send, std::span<T> receive, int root) {
    auto call = call_of<T>(collective::scatter, receive.size(), rank() == root ? send.size() : 0,
                           send.data(), receive.data());
    call.other = root;
    exchange(call, receive.size_bytes() * static_cast<std::size_t>(size()), [&] {
      detail::copy_bytes(receive.data(), block(seat_.source<T>(root), rank(), receive.size()),
                         receive.size_bytes());
    });
  }

  /// Hands `values` to rank `to`; returns when that rank's receive() has copied them.
  ///
  /// Errors:  collective_mismatch on both ranks if tag, size or element type differ.
  template <class T>
  void send(std::span<T> values, int to, int tag) {
    auto call =
        call_of<std::remove_const_t<T>>(collective::send, values.size(), 0, values.data(), nullptr);
    call.other = to;
    call.tag = tag;
    seat_.send(call);
    counted_.record(collective::send, call.bytes, size());
  }

  /// Copies what rank `from` sends with `tag` into `buffer`; messages of one sender come in order.
  ///
  /// Errors:  collective_mismatch on both ranks if tag, size or element type differ.
  template <class T>
  void receive(std::span<T> buffer, int from, int tag) {
    auto call = call_of<T>(collective::receive, buffer.size(), 0, nullptr, buffer.data());
    call.other = from;
    call.tag = tag;
    seat_.receive(call);
    counted_.record(collective::receive, call.bytes, size());
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

  // One collective: meet, move, and leave when no other member needs the buffers any more.
  template <class Move>
  void exchange(detail::thread_call const& call, std::size_t tensor_bytes, Move move) {
    seat_.meet(call);
    if (tensor_bytes != 0) {
      move();
      seat_.leave(call);
    }
    counted_.record(call.kind, tensor_bytes, size());
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
  traffic counted_;
};

static_assert(communicator<thread_communicator>);
static_assert(can_all_reduce<thread_communicator, float>);
static_assert(can_all_gather<thread_communicator, float>);
static_assert(can_reduce_scatter<thread_communicator, float>);
static_assert(can_all_to_all<thread_communicator, float>);
static_assert(can_broadcast<thread_communicator, float>);
static_assert(can_reduce<thread_communicator, float>);
static_assert(can_gather<thread_communicator, float>);
static_assert(can_scatter<thread_communicator, float>);
static_assert(can_send_receive<thread_communicator, float>);

}  // namespace plait
