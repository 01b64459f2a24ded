// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "plait/backend/collective_call.hpp"
#include "plait/backend/communicator.hpp"
#include "plait/core/error.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/mesh/axis.hpp"
#include "plait/mesh/stream.hpp"

namespace plait::ext {

/// A base class that implements the functions of a communicator for its derived class `Self`, which
/// supplies these members:
///
/// Syntax:  rank(), size() -> int; wait_for_all() -> void;
///          carry_out<Kind, T>(detail::collective_call const&, tensor_bytes) -> void.
/// Meaning: carry_out<Kind> checks the call and does the work of the member function named Kind.
///          `bytes` of the call is the size of one rank's vector or block; `source` is read and
///          `target` is written. tensor_bytes is as in traffic::bytes_sent; if it is 0, there are
///          no elements to transfer.
template <class Self>
class communicator_calls {
 public:
  using concept_tag = communicator_tag;
  static constexpr communicator_parts parts{};
  /// True if carry_out() also does the work of a call's stream before and after the transfer.
  static constexpr bool runs_work_of_calls = false;

  /// `over`: the axes of the group. Members compare them together with their calls, since a backend
  /// may use one barrier for all groups with equal members.
  explicit communicator_calls(axis_set over = {}) : over_(over) {}

  /// Returns the traffic of this member's calls since construction or the last reset. Calls that a
  /// recorded graph repeats are not counted again.
  [[nodiscard]] traffic const& counted() const noexcept { return counted_; }
  void reset_counted() noexcept { counted_.reset(); }

  /// Appends all later calls to `log`, if the group has more than one rank; a null pointer ends the
  /// logging. Tests compare the log with a plan.
  void log_calls(std::vector<detail::logged_call>* log, int group) noexcept {
    log_ = log;
    group_in_log_ = group;
  }

  /// Attributes all later calls to trainer `number`; 0: to no trainer. The members of a collective
  /// compare the numbers of their trainers; a backend that does not compare calls ignores the
  /// numbers.
  /// \see rank_handle::calls_for, which calls this for all communicators of a rank
  void call_for(std::uint64_t number) noexcept { caller_ = number; }

  /// Waits until all ranks have called barrier().
  void barrier() {
    self().wait_for_all();
    count(collective::barrier, 0);
  }

  /// Replaces element i of `inout`, on every rank, by the sum or the maximum of the elements i of
  /// all ranks; the result has equal bits on every rank.
  ///
  /// Shapes:  inout (n), with equal n on every rank; n == 0 is allowed.
  template <class T>
  void all_reduce(std::span<T> inout, reduction operation = reduction::sum) {
    if (self().size() == 1) return count(collective::all_reduce, inout.size_bytes());
    auto call = call_of<T>(collective::all_reduce, inout.size(), 0, inout.data(), inout.data());
    call.operation = operation;
    ask<collective::all_reduce, T>(call, inout.size_bytes());
  }

  /// Concatenates `send` of all ranks, in rank order, into `receive` on every rank.
  ///
  /// Shapes:  send (n), receive (size()*n), with equal n on every rank; send may be this rank's own
  ///          block of receive and must not overlap it otherwise.
  /// `work`: the work of the stream before and after the transfer; null: none.
  template <class T>
  void all_gather(std::type_identity_t<std::span<T const>> send, std::span<T> receive,
                  detail::call_work const* work = nullptr) {
    auto call = call_of<T>(collective::all_gather, send.size(), receive.size(), send.data(),
                           receive.data());
    call.work = work;
    ask<collective::all_gather, T>(call, receive.size_bytes());
  }

  /// Sums `send` over all ranks and stores block r of the sum in `receive` on rank r.
  ///
  /// Shapes:  send (size()*n), receive (n), with equal n on every rank; receive may be this rank's
  ///          own block of send and must not overlap it otherwise.
  template <class T>
  void reduce_scatter(std::type_identity_t<std::span<T const>> send, std::span<T> receive) {
    ask<collective::reduce_scatter, T>(call_of<T>(collective::reduce_scatter, receive.size(),
                                                  send.size(), send.data(), receive.data()),
                                       send.size_bytes());
  }

  /// Moves block j of `send` on rank i to block i of `receive` on rank j.
  ///
  /// Shapes:  send and receive (size()*n), with equal n on every rank; they must not overlap.
  /// `work`: the work of the stream before and after the transfer; null: none.
  template <class T>
  void all_to_all(std::type_identity_t<std::span<T const>> send, std::span<T> receive,
                  detail::call_work const* work = nullptr) {
    auto call = call_of<T>(collective::all_to_all, send.size(), receive.size(), send.data(),
                           receive.data());
    call.work = work;
    ask<collective::all_to_all, T>(call, on_all_ranks(send.size_bytes()));
  }

  /// Copies `inout` of rank `root` to every rank.
  ///
  /// Shapes:  inout (n), with equal n on every rank.
  template <class T>
  void broadcast(std::span<T> inout, int root) {
    auto call = call_of<T>(collective::broadcast, inout.size(), 0, inout.data(), inout.data());
    call.other = root;
    ask<collective::broadcast, T>(call, inout.size_bytes());
  }

  /// Sends `values` to rank `to`, which must receive them with the same tag. Messages from one
  /// sender arrive in the order in which they were sent. The call may return only after the
  /// receive, so a program must not rely on buffering.
  template <class T>
  void send(std::span<T> values, int to, int tag) {
    using element = std::remove_const_t<T>;
    message<collective::send, element>(
        call_of<element>(collective::send, values.size(), 0, values.data(), nullptr), to, tag, {});
  }

  /// Receives the values that rank `from` sends with `tag`, and stores them in `buffer`.
  template <class T>
  void receive(std::span<T> buffer, int from, int tag) {
    message<collective::receive, T>(
        call_of<T>(collective::receive, buffer.size(), 0, nullptr, buffer.data()), from, tag, {});
  }

  /// Posts `values` on channel `on` to the neighbouring pipeline stage `to`, and returns at once,
  /// as MPI_Isend does. The memory must not be changed until the values have been sent; a program
  /// waits for that with an event that the device records on the channel. Messages of one channel
  /// are sent in order. Two neighbours must post their messages to each other, in both directions,
  /// in the same order. A backend without channels may send before the call returns.
  ///
  /// Errors: input_error if `on` is a channel other than channel_of() returns for this rank and
  ///         `to`, or if the two ranks are not neighbours.
  template <class T>
  void post_send(std::span<T> values, int to, int tag, stream on) {
    using element = std::remove_const_t<T>;
    message<collective::send, element>(
        call_of<element>(collective::send, values.size(), 0, values.data(), nullptr), to, tag, on);
  }
  /// Posts `buffer` on channel `on` for the message that rank `from` posts with `tag`, and returns
  /// at once, as MPI_Irecv does. The buffer must not be used until the message has arrived.
  template <class T>
  void post_receive(std::span<T> buffer, int from, int tag, stream on) {
    message<collective::receive, T>(
        call_of<T>(collective::receive, buffer.size(), 0, nullptr, buffer.data()), from, tag, on);
  }

 protected:
  template <class T>
  detail::collective_call call_of(collective kind, std::size_t elements, std::size_t whole_elements,
                                  void const* source, void* target) const {
    return {.kind = kind,
            .element = detail::element_type::of<T>(),
            .bytes = elements * sizeof(T),
            .whole_bytes = whole_elements * sizeof(T),
            .source = source,
            .target = target,
            .caller = caller_,
            .over = over_};
  }
  [[nodiscard]] detail::collective_call call_of_barrier() const {
    return {.kind = collective::barrier, .over = over_};
  }

  void count(collective kind, std::size_t tensor_bytes) {
    counted_.record(kind, tensor_bytes, self().size());
  }

 private:
  Self& self() { return static_cast<Self&>(*this); }

  std::size_t on_all_ranks(std::size_t bytes) {
    return bytes * static_cast<std::size_t>(self().size());
  }

  template <collective Kind, class T>
  void ask(detail::collective_call const& call, std::size_t tensor_bytes) {
    constexpr bool has_work = (Kind == collective::all_gather || Kind == collective::all_to_all) &&
                              !Self::runs_work_of_calls;
    // A local variable, because the compiler then removes both tests if the call has no work.
    [[maybe_unused]] detail::call_work const* const work = call.work;
    if constexpr (has_work)
      if (work != nullptr) work->run(*work, false);
    self().template carry_out<Kind, T>(call, tensor_bytes);
    if constexpr (has_work)
      if (work != nullptr) work->run(*work, true);
    count(Kind, tensor_bytes);
    if (log_ != nullptr && self().size() > 1)
      log_->push_back(
          {group_in_log_, Kind, call.element, call.operation, call.other, tensor_bytes});
  }
  template <collective Kind, class T>
  void message(detail::collective_call call, int other, int tag, stream on) {
    call.other = other;
    call.tag = tag;
    call.channel = on;
    if (is_channel(on) && !goes_on(on, other, Kind == collective::send)) refuse_channel(other, on);
    ask<Kind, T>(call, call.bytes);
  }

  bool goes_on(stream channel, int other, bool sends) {
    int const mine = self().rank(), size = self().size();
    bool const is_neighbour = other == (mine + 1) % size || mine == (other + 1) % size;
    return is_neighbour && channel_of(mine, other, size, sends) == channel;
  }

  [[noreturn]] [[gnu::cold]] void refuse_channel(int other, stream on) {
    throw input_error({"rank ", self().rank(), " of a group of ", self().size(),
                       " posts a message with rank ", other, " on channel ", to_string(on),
                       ", but this channel belongs to another neighbour or to the other direction; "
                       "write channel_of(rank, neighbour, size, sends)"});
  }

  traffic counted_;
  std::vector<detail::logged_call>* log_ = nullptr;
  int group_in_log_ = 0;
  std::uint64_t caller_ = 0;
  axis_set over_;
};

}  // namespace plait::ext
