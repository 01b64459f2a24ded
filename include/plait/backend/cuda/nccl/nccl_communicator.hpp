// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "plait/backend/collective_call.hpp"
#include "plait/backend/communicator.hpp"
#include "plait/backend/communicator_calls.hpp"
#include "plait/backend/cuda/device/cuda_device.hpp"
#include "plait/backend/cuda/device/cuda_error.hpp"
#include "plait/backend/cuda/device/cuda_headers.hpp"
#include "plait/backend/cuda/device/cuda_queue.hpp"
#include "plait/backend/cuda/device/cuda_state.hpp"
#include "plait/backend/cuda/device/device_scope.hpp"
#include "plait/backend/cuda/nccl/nccl_link.hpp"
#include "plait/core/bfloat16.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/mesh/stream.hpp"

namespace plait::detail {

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

/// The NCCL communicators of a rank's channels. They are destroyed in the order in which they were
/// created, because both ends must take part in destroying a communicator. Each rank creates at
/// most one communicator in each round of channels_of_stages, so that all ranks have the same
/// order.
class nccl_channels {
 public:
  nccl_channels() = default;
  nccl_channels(nccl_channels const&) = delete;
  nccl_channels& operator=(nccl_channels const&) = delete;
  ~nccl_channels() {
    for (int i = 0; i < count_; ++i) links_[std::size_t(order_[std::size_t(i)])].reset();
  }

  void add(int channel, std::shared_ptr<nccl_link> link) {
    order_[std::size_t(count_++)] = channel;
    links_[std::size_t(channel)] = std::move(link);
  }
  [[nodiscard]] nccl_link* link(int channel) const { return links_[std::size_t(channel)].get(); }

 private:
  std::array<std::shared_ptr<nccl_link>, std::size_t(ext::channel_count)> links_{};
  std::array<int, std::size_t(ext::channel_count)> order_{};
  int count_ = 0;
};

}  // namespace plait::detail

namespace plait::ext {

class nccl_communicator;

/// Messages that are exchanged together, in any order: construct an nccl_group and pass it to each
/// send and receive.
///
/// Errors:  finish() throws the errors of all messages. If it is not called, the next call, or the
///          device's synchronize(), throws them.
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

/// One rank's member of a group of GPUs that communicate with NCCL. A call puts its work into the
/// group's stream and returns. Its buffers are in the memory of the rank's device and must not be
/// used outside the stream until the stream is synchronized.
///
/// Results are equal bit for bit on every rank of a group. The order of additions depends on the
/// algorithm that NCCL chooses, and thus on the number of ranks. The maximum of a NaN and a number
/// is undefined.
/// Cost:    NCCL's cost; in a group of one rank, at most a copy.
/// Errors:  size_mismatch on this rank, before any data is sent, if the size of an argument is
///          wrong; the calls of different ranks are not compared. nccl_error for NCCL's errors;
///          communication_timeout, with the unfinished work; job_aborted if another rank of the
///          process has failed. The last three abort all communicators of the rank.
/// Threads: used by the thread of its rank only.
class nccl_communicator : public communicator_calls<nccl_communicator> {
 public:
  /// Constructs the member `world_rank` of the group `members` (world ranks), which communicates on
  /// stream `on` over `link`. A group of one rank needs no link.
  nccl_communicator(cuda_device& device, stream on, std::shared_ptr<detail::nccl_link> link,
                    std::vector<int> members, int world_rank)
      : state_(&device.state()), on_(on), link_(std::move(link)), members_(std::move(members)) {
    while (members_[static_cast<std::size_t>(rank_)] != world_rank) ++rank_;
  }

  /// Sets the NCCL communicator for messages that are posted on a channel. Its ranks are the sender
  /// and the receiver, in this order.
  void use_for(plait::ext::stream channel, std::shared_ptr<detail::nccl_link> link) {
    if (channels_ == nullptr) channels_ = std::make_shared<detail::nccl_channels>();
    channels_->add(channel_number(channel), std::move(link));
  }

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return static_cast<int>(members_.size()); }

  /// The functions that the base class communicator_calls requires. NCCL matches messages of two
  /// ranks by their order; a tag only appears in the texts of errors.
  void wait_for_all() {
    if (size() == 1) return;
    state_->require_no_capture("barrier() was called");
    device_scope const scope(state_->place);
    auto* const token = reinterpret_cast<float*>(state_->scratch(on_, sizeof(float)));
    link_->issue(call_of<float>(collective::all_reduce, 1, 0, token, token), [&](ncclComm_t comm) {
      return ncclAllReduce(token, token, 1, ncclFloat32, ncclMax, comm, stream());
    });
    state_->wait_for_stream(on_);
  }
  template <collective Kind, class T>
  void carry_out(detail::collective_call const& call, std::size_t tensor_bytes) {
    if constexpr (Kind == collective::send || Kind == collective::receive) {
      check_other(call);
      if (call.is_posted() && link_of(call.channel) != nullptr) return post<Kind, T>(call);
    } else {
      check_shape(call);
    }
    // A message is sent even if it has no elements, because the receiver waits for it.
    if (size() > 1 && (tensor_bytes != 0 || is_message(Kind)))
      link_->issue(call, [&](ncclComm_t comm) {
        if constexpr (Kind == collective::all_to_all) return together<T>(call);
        else return one_call<Kind, T>(call, comm);
      });
    copy_own_block<Kind, T>(call);
  }

  using communicator_calls::receive;
  using communicator_calls::send;
  /// Adds a send to `group`; its messages are exchanged when `group` is finished.
  template <class T>
  void send(nccl_group& group, std::span<T> values, int to) {
    using element = std::remove_const_t<T>;
    auto call = call_of<element>(collective::send, values.size(), 0, nullptr, nullptr);
    call.other = to;
    check_other(call);
    post_send<element>(group, values.data(), values.size(), to);
    count(collective::send, call.bytes);
  }
  template <class T>
  void receive(nccl_group& group, std::span<T> buffer, int from) {
    auto call = call_of<T>(collective::receive, buffer.size(), 0, nullptr, nullptr);
    call.other = from;
    check_other(call);
    post_receive<T>(group, buffer.data(), buffer.size(), from);
    count(collective::receive, call.bytes);
  }

 private:
  friend class nccl_group;

  [[nodiscard]] cudaStream_t stream() const { return state_->on(on_); }

  [[nodiscard]] detail::nccl_link* link_of(plait::ext::stream channel) const {
    return channels_ == nullptr ? nullptr : channels_->link(channel_number(channel));
  }
  // Posts a message on its channel. A channel has its own stream and communicator, so that the
  // message does not wait for other messages.
  template <collective Kind, class T>
  void post(detail::collective_call const& call) {
    std::size_t const n = call.bytes / sizeof(T);
    link_of(call.channel)->issue(call, [&](ncclComm_t comm) {
      if constexpr (Kind == collective::send)
        return ncclSend(call.source, n, detail::nccl_type<T>(), 1, comm, state_->on(call.channel));
      else
        return ncclRecv(call.target, n, detail::nccl_type<T>(), 0, comm, state_->on(call.channel));
    });
  }

  void check_shape(detail::collective_call const& call) const {
    detail::check_shape(members_[static_cast<std::size_t>(rank_)], call, members_);
  }

  static constexpr bool is_message(collective kind) {
    return kind == collective::send || kind == collective::receive;
  }

  // Makes a call that corresponds to one function of NCCL.
  template <collective Kind, class T>
  ncclResult_t one_call(detail::collective_call const& call, ncclComm_t comm) const {
    constexpr auto type = detail::nccl_type<T>();
    auto const* const from = call.source;
    auto* const to = call.target;
    std::size_t const n = call.bytes / sizeof(T);
    auto const how = call.operation == reduction::sum ? ncclSum : ncclMax;
    if constexpr (Kind == collective::all_reduce)
      return ncclAllReduce(from, to, n, type, how, comm, stream());
    else if constexpr (Kind == collective::all_gather)
      return ncclAllGather(from, to, n, type, comm, stream());
    else if constexpr (Kind == collective::reduce_scatter)
      return ncclReduceScatter(from, to, n, type, how, comm, stream());
    else if constexpr (Kind == collective::broadcast)
      return ncclBroadcast(from, to, n, type, call.other, comm, stream());
    else if constexpr (Kind == collective::send)
      return ncclSend(from, n, type, call.other, comm, stream());
    else return ncclRecv(to, n, type, call.other, comm, stream());
  }

  // Makes an all_to_all call as a group of sends and receives.
  template <class T>
  ncclResult_t together(detail::collective_call const& call) {
    nccl_group group(*this);
    auto const* const from = static_cast<T const*>(call.source);
    auto* const to = static_cast<T*>(call.target);
    std::size_t const n = each_of_all_to_all<T>(call);
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank_) continue;
      post_send<T>(group, from + offset(peer, n), n, peer);
      post_receive<T>(group, to + offset(peer, n), n, peer);
    }
    group.open_ = false;
    return ncclGroupEnd();
  }

  // Copies the block that this rank sends to itself, which NCCL copies only in some calls.
  template <collective Kind, class T>
  void copy_own_block(detail::collective_call const& call) const {
    [[maybe_unused]] auto const* const from = static_cast<T const*>(call.source);
    [[maybe_unused]] auto* const to = static_cast<T*>(call.target);
    if constexpr (Kind == collective::all_gather || Kind == collective::reduce_scatter) {
      if (size() == 1) copy(from, to, call.bytes);
    } else if constexpr (Kind == collective::all_to_all) {
      std::size_t const n = each_of_all_to_all<T>(call);
      copy(from + offset(rank_, n), to + offset(rank_, n), n * sizeof(T));
    }
  }

  // Returns the number of elements of one block.
  template <class T>
  [[nodiscard]] std::size_t each_of_all_to_all(detail::collective_call const& call) const {
    return call.bytes / sizeof(T) / members_.size();
  }

  void check_other(detail::collective_call const& call) const {
    if (call.other >= 0 && call.other < size() && call.other != rank_) return;
    throw input_error({detail::place_text(state_->place), detail::call_text(call, members_),
                       ": the other end must be another member of the group"});
  }

  template <class T>
  void post_send(nccl_group& group, T const* values, std::size_t n, int to) {
    check_post(group, ncclSend(values, n, detail::nccl_type<T>(), to, link_->handle(), stream()));
  }
  template <class T>
  void post_receive(nccl_group& group, T* buffer, std::size_t n, int from) {
    check_post(group, ncclRecv(buffer, n, detail::nccl_type<T>(), from, link_->handle(), stream()));
  }
  void check_post(nccl_group&, ncclResult_t code) const {
    detail::check_nccl(code, concat({"a message on ", link_->where()}), state_->place);
  }

  void copy(void const* from, void* to, std::size_t bytes) const {
    cuda_queue(*state_, on_).copy_bytes(from, to, bytes);
  }

  static std::size_t offset(int index, std::size_t count) {
    return static_cast<std::size_t>(index) * count;
  }

  detail::cuda_state* state_;
  plait::ext::stream on_;
  std::shared_ptr<detail::nccl_link> link_;
  std::shared_ptr<detail::nccl_channels> channels_{};
  std::vector<int> members_;
  int rank_ = 0;
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

static_assert(can_all<nccl_communicator, float>);

}  // namespace plait::ext
