// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <utility>
#include <variant>

#include "plait/backend/collective_call.hpp"
#include "plait/backend/communicator.hpp"
#include "plait/backend/communicator_calls.hpp"
#include "plait/backend/cuda/loopback/loopback_communicator.hpp"
#include "plait/backend/cuda/nccl/nccl_communicator.hpp"
#include "plait/core/namespaces.hpp"

namespace plait::ext {

/// A communicator of CUDA devices: either NCCL's or, between ranks that share one GPU, a
/// loopback_communicator. Both have this one type, so that a program is compiled only once.
///
/// Its functions call the functions of the communicator that it contains, and throw the same
/// errors.
class cuda_communicator : public communicator_calls<cuda_communicator> {
 public:
  cuda_communicator(nccl_communicator through) : through_(std::move(through)) {}      // NOLINT
  cuda_communicator(loopback_communicator through) : through_(std::move(through)) {}  // NOLINT

  [[nodiscard]] int rank() const noexcept { return nccl() ? nccl()->rank() : loopback()->rank(); }
  [[nodiscard]] int size() const noexcept { return nccl() ? nccl()->size() : loopback()->size(); }

  /// The functions that the base class communicator_calls requires.
  void wait_for_all() { nccl() ? nccl()->wait_for_all() : loopback()->wait_for_all(); }
  template <collective Kind, class T>
  void carry_out(detail::collective_call const& call, std::size_t tensor_bytes) {
    if (nccl()) nccl()->template carry_out<Kind, T>(call, tensor_bytes);
    else loopback()->template carry_out<Kind, T>(call, tensor_bytes);
  }

 private:
  // Exactly one of nccl() and loopback() is not null. They call std::get_if because, unlike
  // std::visit, it cannot fail and compiles faster.
  [[nodiscard]] nccl_communicator* nccl() noexcept { return std::get_if<0>(&through_); }
  [[nodiscard]] nccl_communicator const* nccl() const noexcept { return std::get_if<0>(&through_); }
  [[nodiscard]] loopback_communicator* loopback() noexcept { return std::get_if<1>(&through_); }
  [[nodiscard]] loopback_communicator const* loopback() const noexcept {
    return std::get_if<1>(&through_);
  }

  std::variant<nccl_communicator, loopback_communicator> through_;
};

static_assert(can_all<cuda_communicator, float>);

}  // namespace plait::ext
