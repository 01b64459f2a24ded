// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "plait/backend/communicator.hpp"
#include "plait/backend/cuda/cuda_device.hpp"
#include "plait/backend/cuda/cuda_error.hpp"
#include "plait/backend/cuda/cuda_headers.hpp"
#include "plait/backend/cuda/cuda_queue.hpp"
#include "plait/backend/cuda/cuda_state.hpp"
#include "plait/backend/cuda/device_scope.hpp"
#include "plait/backend/cuda/element.hpp"
#include "plait/backend/cuda/nccl_link.hpp"
#include "plait/backend/host/thread_call.hpp"
#include "plait/core/bfloat16.hpp"
#include "plait/core/error.hpp"
#include "plait/mesh/stream.hpp"

namespace plait {

namespace detail {

template <class T>
constexpr ncclDataType_t nccl_type() {
  static_assert(std::is_arithmetic_v<T> || std::is_same_v<T, bfloat16>,
                "nccl_communicator: NCCL does not know the element type; pass a span of float, "
                "double, plait::bfloat16 or an integer type");
  if constexpr (std::is_same_v<T, bfloat16>) return ncclBfloat16;
  else if constexpr (std::is_floating_point_v<T>) return sizeof(T) == 8 ? ncclFloat64 : ncclFloat32;
  else if constexpr (sizeof(T) == 8) return std::is_signed_v<T> ? ncclInt64 : ncclUint64;
  else if constexpr (sizeof(T) == 4) return std::is_signed_v<T> ? ncclInt32 : ncclUint32;
  else {
    static_assert(sizeof(T) == 1, "nccl_communicator: NCCL has no integers of 16 bits");
    return std::is_signed_v<T> ? ncclInt8 : ncclUint8;
  }
}

}  // namespace detail

class nccl_communicator;

/// Messages that are sent and received together, in any order: made before them and given to each.
///
/// Errors:  finish() throws what went wrong in all of them; without it that is found out later, by
///          the next call or when the device is synchronized.
class nccl_group {
 public:
  explicit nccl_group(nccl_communicator& comm);
  nccl_group(nccl_group const&) = delete;
  nccl_group& operator=(nccl_group const&) = delete;
  ~nccl_group() {
    if (open_) (void)ncclGroupEnd();
  }
  void finish();

 private:
  friend class nccl_communicator;
  device_scope scope_;
  nccl_communicator& comm_;
  bool open_ = true;
};

/// One rank's member of a group of GPUs, through NCCL. Calls put their work into the group's stream
/// and return; buffers are in the memory of the rank's device and belong to the stream until it is
/// synchronized.
///
/// Results are the same bits on every rank of a group; sums depend on NCCL's choice of an algorithm
/// and with it on the number of ranks. The maximum of a NaN and a number is undefined.
/// Cost:    what NCCL does; groups of one rank copy at most.
/// Errors:  a size that does not fit is size_mismatch on this rank before anything is sent; what
///          different ranks ask for is not compared. nccl_error for NCCL's own;
///          communication_timeout, with what has not ended; job_aborted if another rank of the
///          process has failed. After one of the last three the communicators of the rank are
///          aborted.
/// Threads: used by the thread of its rank only.
class nccl_communicator {
 public:
  using concept_tag = communicator_tag;

  /// The group `members` (world ranks) that communicates on stream `on` over `link`; a group of one
  /// rank needs no link.
  nccl_communicator(cuda_device& device, stream on, std::shared_ptr<detail::nccl_link> link,
                    std::vector<int> members, int world_rank)
      : state_(&device.state()), on_(on), link_(std::move(link)), members_(std::move(members)) {
    while (members_[static_cast<std::size_t>(rank_)] != world_rank) ++rank_;
  }

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return static_cast<int>(members_.size()); }

  /// What this member was asked to move since construction or the last reset; what a recorded graph
  /// repeats is not counted again.
  [[nodiscard]] traffic const& counted() const noexcept { return counted_; }
  void reset_counted() noexcept { counted_.reset(); }

  /// Returns on no rank before the last rank has called it.
  void barrier() {
    if (size() > 1) {
      state_->require_no_capture("barrier() was called");
      device_scope const scope(state_->place);
      auto* const token = reinterpret_cast<float*>(state_->scratch(on_, sizeof(float)));
      auto const call = detail::call_on_device<float>(collective::all_reduce, 1, 0, token, token);
      link_->issue(call, [&](ncclComm_t comm) {
        return ncclAllReduce(token, token, 1, ncclFloat32, ncclMax, comm, stream());
      });
      state_->wait_for_stream(on_);
    }
    counted_.record(collective::barrier, 0, size());
  }

  /// \see thread_communicator for the shapes of all of these.
  template <class T>
  void all_reduce(std::span<T> inout, reduction operation = reduction::sum) {
    auto const call = detail::call_on_device<T>(collective::all_reduce, inout.size(), 0,
                                                inout.data(), inout.data());
    collective_call(call, inout.size_bytes(), [&](ncclComm_t comm) {
      return ncclAllReduce(inout.data(), inout.data(), inout.size(), detail::nccl_type<T>(),
                           operation == reduction::sum ? ncclSum : ncclMax, comm, stream());
    });
  }

  template <class T>
  void all_gather(std::type_identity_t<std::span<T const>> send, std::span<T> receive) {
    auto const call = detail::call_on_device<T>(collective::all_gather, send.size(), receive.size(),
                                                send.data(), receive.data());
    collective_call(call, receive.size_bytes(), [&](ncclComm_t comm) {
      return ncclAllGather(send.data(), receive.data(), send.size(), detail::nccl_type<T>(), comm,
                           stream());
    });
    if (size() == 1) copy(send.data(), receive.data(), send.size_bytes());
  }

  template <class T>
  void reduce_scatter(std::type_identity_t<std::span<T const>> send, std::span<T> receive) {
    auto const call = detail::call_on_device<T>(collective::reduce_scatter, receive.size(),
                                                send.size(), send.data(), receive.data());
    collective_call(call, send.size_bytes(), [&](ncclComm_t comm) {
      return ncclReduceScatter(send.data(), receive.data(), receive.size(), detail::nccl_type<T>(),
                               ncclSum, comm, stream());
    });
    if (size() == 1) copy(send.data(), receive.data(), send.size_bytes());
  }

  template <class T>
  void all_to_all(std::type_identity_t<std::span<T const>> send, std::span<T> receive) {
    auto const call = detail::call_on_device<T>(collective::all_to_all, send.size(), receive.size(),
                                                send.data(), receive.data());
    std::size_t const count = send.size() / members_.size();
    messages(call, send.size_bytes() * members_.size(), [&](nccl_group& group) {
      for (int peer = 0; peer < size(); ++peer) {
        auto const to = std::span<T const>(block(send.data(), peer, count), count);
        auto const from = std::span<T>(block(receive.data(), peer, count), count);
        if (peer == rank_) continue;
        post_send(group, to, peer);
        post_receive(group, from, peer);
      }
    });
    copy(block(send.data(), rank_, count), block(receive.data(), rank_, count), count * sizeof(T));
  }

  template <class T>
  void broadcast(std::span<T> inout, int root) {
    auto call = detail::call_on_device<T>(collective::broadcast, inout.size(), 0, inout.data(),
                                          inout.data());
    call.other = root;
    collective_call(call, inout.size_bytes(), [&](ncclComm_t comm) {
      return ncclBroadcast(inout.data(), inout.data(), inout.size(), detail::nccl_type<T>(), root,
                           comm, stream());
    });
  }

  template <class T>
  void reduce(std::span<T> inout, int root) {
    auto call =
        detail::call_on_device<T>(collective::reduce, inout.size(), 0, inout.data(), inout.data());
    call.other = root;
    collective_call(call, inout.size_bytes(), [&](ncclComm_t comm) {
      return ncclReduce(inout.data(), inout.data(), inout.size(), detail::nccl_type<T>(), ncclSum,
                        root, comm, stream());
    });
  }

  template <class T>
  void gather(std::type_identity_t<std::span<T const>> send, std::span<T> receive, int root) {
    auto call =
        detail::call_on_device<T>(collective::gather, send.size(),
                                  rank_ == root ? receive.size() : 0, send.data(), receive.data());
    call.other = root;
    messages(call, send.size_bytes() * members_.size(), [&](nccl_group& group) {
      if (rank_ != root) return post_send(group, send, root);
      for (int peer = 0; peer < size(); ++peer)
        if (peer != root)
          post_receive(group, receive.subspan(offset(peer, send.size()), send.size()), peer);
    });
    if (rank_ == root)
      copy(send.data(), block(receive.data(), rank_, send.size()), send.size_bytes());
  }

  template <class T>
  void scatter(std::type_identity_t<std::span<T const>> send, std::span<T> receive, int root) {
    auto call =
        detail::call_on_device<T>(collective::scatter, receive.size(),
                                  rank_ == root ? send.size() : 0, send.data(), receive.data());
    call.other = root;
    messages(call, receive.size_bytes() * members_.size(), [&](nccl_group& group) {
      if (rank_ != root) return post_receive(group, receive, root);
      for (int peer = 0; peer < size(); ++peer)
        if (peer != root)
          post_send(group, send.subspan(offset(peer, receive.size()), receive.size()), peer);
    });
    if (rank_ == root)
      copy(block(send.data(), rank_, receive.size()), receive.data(), receive.size_bytes());
  }

  /// Hands `values` to rank `to`. NCCL pairs messages of two ranks by their order; the tag is only
  /// in messages of errors.
  template <class T>
  void send(std::span<T> values, int to, int tag) {
    using element = std::remove_const_t<T>;
    auto call =
        detail::call_on_device<element>(collective::send, values.size(), 0, values.data(), nullptr);
    one_message(call, to, tag, [&](ncclComm_t comm) {
      return ncclSend(values.data(), values.size(), detail::nccl_type<element>(), to, comm,
                      stream());
    });
  }
  template <class T>
  void receive(std::span<T> buffer, int from, int tag) {
    auto call =
        detail::call_on_device<T>(collective::receive, buffer.size(), 0, nullptr, buffer.data());
    one_message(call, from, tag, [&](ncclComm_t comm) {
      return ncclRecv(buffer.data(), buffer.size(), detail::nccl_type<T>(), from, comm, stream());
    });
  }

  /// The same as a part of `group`; they happen together when it is finished.
  template <class T>
  void send(nccl_group& group, std::span<T> values, int to) {
    check_other(detail::call_on_device<T>(collective::send, values.size(), 0, nullptr, nullptr),
                to);
    post_send(group, std::span<T const>(values), to);
    counted_.record(collective::send, values.size_bytes(), size());
  }
  template <class T>
  void receive(nccl_group& group, std::span<T> buffer, int from) {
    check_other(detail::call_on_device<T>(collective::receive, buffer.size(), 0, nullptr, nullptr),
                from);
    post_receive(group, buffer, from);
    counted_.record(collective::receive, buffer.size_bytes(), size());
  }

 private:
  friend class nccl_group;

  [[nodiscard]] cudaStream_t stream() const { return state_->on(on_); }

  void check_shape(detail::thread_call const& call) const {
    detail::check_shape(members_[static_cast<std::size_t>(rank_)], rank_ == call.other, call,
                        members_);
  }

  template <class Work>
  void collective_call(detail::thread_call const& call, std::size_t tensor_bytes, Work work) {
    check_shape(call);
    if (size() > 1 && tensor_bytes != 0) link_->issue(call, work);
    counted_.record(call.kind, tensor_bytes, size());
  }

  // A collective made of messages: post(group) gives them.
  template <class Post>
  void messages(detail::thread_call const& call, std::size_t tensor_bytes, Post post) {
    check_shape(call);
    if (size() > 1 && tensor_bytes != 0) {
      link_->issue(call, [&](ncclComm_t) {
        nccl_group group(*this);
        post(group);
        group.open_ = false;
        return ncclGroupEnd();
      });
    }
    counted_.record(call.kind, tensor_bytes, size());
  }

  template <class Work>
  void one_message(detail::thread_call call, int other, int tag, Work work) {
    call.other = other;
    call.tag = tag;
    check_other(call, other);
    link_->issue(call, work);
    counted_.record(call.kind, call.bytes, size());
  }

  void check_other(detail::thread_call call, int other) const {
    if (other >= 0 && other < size() && other != rank_) return;
    call.other = other;
    throw input_error(detail::place_text(state_->place) + detail::call_text(call, members_) +
                      ": the other end must be another member of the group");
  }

  template <class T>
  void post_send(nccl_group& group, std::span<T const> values, int to) {
    check_post(group, ncclSend(values.data(), values.size(), detail::nccl_type<T>(), to,
                               link_->handle(), stream()));
  }
  template <class T>
  void post_receive(nccl_group& group, std::span<T> buffer, int from) {
    check_post(group, ncclRecv(buffer.data(), buffer.size(), detail::nccl_type<T>(), from,
                               link_->handle(), stream()));
  }
  void check_post(nccl_group&, ncclResult_t code) const {
    detail::check_nccl(code, "a message on " + link_->where(), state_->place);
  }

  void copy(void const* from, void* to, std::size_t bytes) const {
    cuda_queue(*state_, on_).copy_bytes(from, to, bytes);
  }

  template <class T>
  static T* block(T* buffer, int index, std::size_t count) {
    return buffer + offset(index, count);
  }
  static std::size_t offset(int index, std::size_t count) {
    return static_cast<std::size_t>(index) * count;
  }

  detail::cuda_state* state_;
  plait::stream on_;
  std::shared_ptr<detail::nccl_link> link_;
  std::vector<int> members_;
  int rank_ = 0;
  traffic counted_;
};

inline nccl_group::nccl_group(nccl_communicator& comm) : scope_(comm.state_->place), comm_(comm) {
  detail::check_nccl(ncclGroupStart(), "ncclGroupStart", comm.state_->place);
}

inline void nccl_group::finish() {
  comm_.link_->issue({.kind = collective::send}, [&](ncclComm_t) {
    open_ = false;
    return ncclGroupEnd();
  });
}

static_assert(communicator<nccl_communicator>);
static_assert(can_all_reduce<nccl_communicator, float>);
static_assert(can_all_gather<nccl_communicator, float>);
static_assert(can_reduce_scatter<nccl_communicator, float>);
static_assert(can_all_to_all<nccl_communicator, float>);
static_assert(can_broadcast<nccl_communicator, float>);
static_assert(can_reduce<nccl_communicator, float>);
static_assert(can_gather<nccl_communicator, float>);
static_assert(can_scatter<nccl_communicator, float>);
static_assert(can_send_receive<nccl_communicator, float>);

}  // namespace plait
