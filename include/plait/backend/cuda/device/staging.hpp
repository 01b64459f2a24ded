// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "plait/backend/cuda/cuda_options.hpp"
#include "plait/backend/cuda/device/cuda_error.hpp"
#include "plait/backend/cuda/device/cuda_handles.hpp"
#include "plait/backend/cuda/device/cuda_headers.hpp"

namespace plait::detail {

// Copies data between host and device through pieces of pinned host memory, which are used in turn:
// a copy from pageable memory would block the host. With 4 pieces of 4 MiB, an upload of 40 MiB
// uses ten pieces; the host fills the second piece while the first is copied to the device. An
// upload returns when its data is in pinned memory. A download returns before its data has arrived;
// the host copies a piece to its destination when the piece is used next, or in deliver_all().
// wait(event) waits until a piece can be used for the next copy.
class staging {
 public:
  staging(cuda_place at, cuda_options const& options)
      : at_(at), piece_bytes_(options.staging_bytes) {
    pieces_.resize(static_cast<std::size_t>(options.staging_pieces));
    void* data = nullptr;
    check(cudaHostAlloc(&data, piece_bytes_ * pieces_.size(), cudaHostAllocPortable),
          "cudaHostAlloc", at_);
    memory_.reset(static_cast<std::byte*>(data));
    for (std::size_t i = 0; i < pieces_.size(); ++i)
      pieces_[i] = {memory_.get() + i * piece_bytes_, make_event_handle(at_)};
  }

  template <class Wait>
  void upload(void const* from, void* to, std::size_t bytes, cudaStream_t stream, Wait wait) {
    for (std::size_t done = 0; done < bytes;) {
      std::size_t const size = std::min(piece_bytes_, bytes - done);
      auto& through = next_free(wait);
      std::memcpy(through.data, static_cast<std::byte const*>(from) + done, size);
      check(cudaMemcpyAsync(static_cast<std::byte*>(to) + done, through.data, size,
                            cudaMemcpyHostToDevice, stream),
            "cudaMemcpyAsync (upload)", at_);
      use(through, stream);
      done += size;
    }
  }

  template <class Wait>
  void download(void const* from, void* to, std::size_t bytes, cudaStream_t stream, Wait wait) {
    for (std::size_t done = 0; done < bytes;) {
      std::size_t const size = std::min(piece_bytes_, bytes - done);
      auto& through = next_free(wait);
      check(cudaMemcpyAsync(through.data, static_cast<std::byte const*>(from) + done, size,
                            cudaMemcpyDeviceToHost, stream),
            "cudaMemcpyAsync (download)", at_);
      use(through, stream);
      through.destination = static_cast<std::byte*>(to) + done;
      through.bytes = size;
      done += size;
    }
  }

  // Copies all pending downloads to their destinations, in order; called when the stream is empty.
  void deliver_all() {
    for (std::size_t i = 0; i < pieces_.size(); ++i) deliver(pieces_[(next_ + i) % pieces_.size()]);
  }

  // Drops all pending downloads; called after a failure.
  void forget() {
    for (auto& each : pieces_) each.destination = nullptr;
  }

 private:
  struct piece {
    std::byte* data = nullptr;
    event_handle last_use{};
    bool used = false;
    std::byte* destination = nullptr;  // target of a pending download, else null
    std::size_t bytes = 0;
  };

  template <class Wait>
  piece& next_free(Wait wait) {
    auto& chosen = pieces_[next_];
    next_ = (next_ + 1) % pieces_.size();
    if (chosen.used) wait(chosen.last_use.get());
    deliver(chosen);
    return chosen;
  }
  void use(piece& which, cudaStream_t stream) {
    check(cudaEventRecord(which.last_use.get(), stream), "cudaEventRecord", at_);
    which.used = true;
  }
  static void deliver(piece& which) {
    if (which.destination != nullptr) std::memcpy(which.destination, which.data, which.bytes);
    which.destination = nullptr;
  }

  cuda_place at_;
  std::size_t piece_bytes_;
  pinned_bytes memory_;
  std::vector<piece> pieces_;
  std::size_t next_ = 0;
};

}  // namespace plait::detail
