// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <type_traits>
#include <utility>
#include <variant>

#include "plait/backend/communicator.hpp"
#include "plait/backend/cuda/loopback_communicator.hpp"
#include "plait/backend/cuda/nccl_communicator.hpp"

namespace plait {

/// A communicator of CUDA devices: through NCCL, or between ranks that share one GPU. One type, so
/// that a program is compiled once for both.
///
/// The members and their errors are those of the one that it holds.
class cuda_communicator {
  // First, as their types are deduced. std::get_if, not std::visit: neither can fail, and it takes
  // less to compile.
  template <class Work>
  void call(Work work) {
    if (auto* const nccl = std::get_if<nccl_communicator>(&through_)) work(*nccl);
    else work(*std::get_if<loopback_communicator>(&through_));
  }
  template <class Work>
  decltype(auto) ask(Work work) const noexcept {
    if (auto* const nccl = std::get_if<nccl_communicator>(&through_)) return work(*nccl);
    return work(*std::get_if<loopback_communicator>(&through_));
  }

 public:
  using concept_tag = communicator_tag;

  cuda_communicator(nccl_communicator through) : through_(std::move(through)) {}      // NOLINT
  cuda_communicator(loopback_communicator through) : through_(std::move(through)) {}  // NOLINT

  [[nodiscard]] int rank() const noexcept {
    return ask([](auto const& comm) { return comm.rank(); });
  }
  [[nodiscard]] int size() const noexcept {
    return ask([](auto const& comm) { return comm.size(); });
  }
  [[nodiscard]] traffic const& counted() const noexcept {
    return ask([](auto const& comm) -> traffic const& { return comm.counted(); });
  }
  void reset_counted() noexcept {
    call([](auto& comm) { comm.reset_counted(); });
  }

  void barrier() {
    call([](auto& comm) { comm.barrier(); });
  }
  template <class T>
  void all_reduce(std::span<T> inout, reduction operation = reduction::sum) {
    call([&](auto& comm) { comm.all_reduce(inout, operation); });
  }
  template <class T>
  void all_gather(std::type_identity_t<std::span<T const>> send, std::span<T> receive) {
    call([&](auto& comm) { comm.all_gather(send, receive); });
  }
  template <class T>
  void reduce_scatter(std::type_identity_t<std::span<T const>> send, std::span<T> receive) {
    call([&](auto& comm) { comm.reduce_scatter(send, receive); });
  }
  template <class T>
  void all_to_all(std::type_identity_t<std::span<T const>> send, std::span<T> receive) {
    call([&](auto& comm) { comm.all_to_all(send, receive); });
  }
  template <class T>
  void broadcast(std::span<T> inout, int root) {
    call([&](auto& comm) { comm.broadcast(inout, root); });
  }
  template <class T>
  void reduce(std::span<T> inout, int root) {
    call([&](auto& comm) { comm.reduce(inout, root); });
  }
  template <class T>
  void gather(std::type_identity_t<std::span<T const>> send, std::span<T> receive, int root) {
    call([&](auto& comm) { comm.gather(send, receive, root); });
  }
  template <class T>
  void scatter(std::type_identity_t<std::span<T const>> send, std::span<T> receive, int root) {
    call([&](auto& comm) { comm.scatter(send, receive, root); });
  }
  template <class T>
  void send(std::span<T> values, int to, int tag) {
    call([&](auto& comm) { comm.send(values, to, tag); });
  }
  template <class T>
  void receive(std::span<T> buffer, int from, int tag) {
    call([&](auto& comm) { comm.receive(buffer, from, tag); });
  }

 private:
  std::variant<nccl_communicator, loopback_communicator> through_;
};

static_assert(communicator<cuda_communicator>);
static_assert(can_all_reduce<cuda_communicator, float>);
static_assert(can_all_gather<cuda_communicator, float>);
static_assert(can_reduce_scatter<cuda_communicator, float>);
static_assert(can_all_to_all<cuda_communicator, float>);
static_assert(can_broadcast<cuda_communicator, float>);
static_assert(can_reduce<cuda_communicator, float>);
static_assert(can_gather<cuda_communicator, float>);
static_assert(can_scatter<cuda_communicator, float>);
static_assert(can_send_receive<cuda_communicator, float>);

}  // namespace plait
