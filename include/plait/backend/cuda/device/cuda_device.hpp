// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "plait/backend/cuda/cuda_options.hpp"
#include "plait/backend/cuda/device/cuda_error.hpp"
#include "plait/backend/cuda/device/cuda_handles.hpp"
#include "plait/backend/cuda/device/cuda_headers.hpp"
#include "plait/backend/cuda/device/cuda_memory.hpp"
#include "plait/backend/cuda/device/cuda_queue.hpp"
#include "plait/backend/cuda/device/cuda_state.hpp"
#include "plait/backend/cuda/device/device_scope.hpp"
#include "plait/backend/cuda/job_signal.hpp"
#include "plait/backend/device.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/mesh/stream.hpp"
#include "plait/plan/schedule/synchronization.hpp"

namespace plait::ext {

/// A range in the profile of tools that read NVTX. It lasts from its construction to its
/// destruction and is in the NVTX domain "plait", so that tools can separate it from the program's
/// ranges.
class cuda_range {
 public:
  explicit cuda_range(char const* name) {
    nvtxEventAttributes_t about{};
    about.version = NVTX_VERSION;
    about.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    about.messageType = NVTX_MESSAGE_TYPE_ASCII;
    about.message.ascii = name;
    nvtxDomainRangePushEx(domain(), &about);
  }
  cuda_range(cuda_range const&) = delete;
  cuda_range& operator=(cuda_range const&) = delete;
  ~cuda_range() { nvtxDomainRangePop(domain()); }

 private:
  static nvtxDomainHandle_t domain() {
    static nvtxDomainHandle_t const made = nvtxDomainCreateA("plait");
    return made;
  }
};

/// The CUDA device of a rank: its streams, memory, events, copies from and to the host, and
/// recorded graphs.
///
/// The program's default stream, the device's state and the current device of the thread stay
/// unchanged.
/// Errors:  cuda_error with rank, device, call and CUDA's error; out_of_memory;
///          communication_timeout, with the unfinished work, if the streams do not end in time;
///          job_aborted if another rank of the process has failed.
/// Threads: used by the rank's thread only.
class cuda_device {
 public:
  using concept_tag = device_tag;
  static constexpr device_parts parts{.counts_workspace = true, .joins_loss = true};
  using memory = cuda_memory;
  using queue = cuda_queue;

  class event {
   public:
    event() = default;

   private:
    friend class cuda_device;
    detail::event_handle handle_;
  };

  /// A step that replay() has recorded as a CUDA graph.
  class graph {
   public:
    graph() = default;

   private:
    friend class cuda_device;
    bool has_run_ = false;
    std::shared_ptr<detail::executable_handle> recorded_;
  };

  /// Memory of the device, aligned to 256 bytes and freed with the object. Its values are undefined
  /// at first.
  class arena {
   public:
    arena() = default;
    [[nodiscard]] std::byte* data() const { return data_.get(); }
    [[nodiscard]] std::size_t size() const { return bytes_; }

   private:
    friend class cuda_device;
    arena(detail::device_bytes data, std::size_t bytes) : data_(std::move(data)), bytes_(bytes) {}
    detail::device_bytes data_;
    std::size_t bytes_ = 0;
  };

  explicit cuda_device(cuda_place at, cuda_options const& options = {},
                       std::shared_ptr<detail::job_signal> signal = nullptr) {
    device_scope const scope(at);
    state_.reset(new detail::cuda_state(at, options, std::move(signal)));
  }

  [[nodiscard]] cuda_place place() const { return state_->place; }

  /// Allocates memory of the device, with one call of cudaMalloc.
  [[nodiscard]] arena allocate(std::size_t bytes) { return arena(state_->allocate(bytes), bytes); }

  void upload(void const* from, void* to, std::size_t bytes) {
    state_->require_no_capture("an upload was asked for");
    device_scope const scope(place());
    or_forget([&] {
      state_->stage.upload(from, to, bytes, state_->on(stream::compute), [this](cudaEvent_t used) {
        state_->wait_for(used, "an earlier upload");
      });
    });
  }
  void download(void const* from, void* to, std::size_t bytes) {
    state_->require_no_capture("a download was asked for");
    device_scope const scope(place());
    or_forget([&] {
      state_->stage.download(
          from, to, bytes, state_->on(stream::compute),
          [this](cudaEvent_t used) { state_->wait_for(used, "an earlier download"); });
    });
  }
  void synchronize() {
    state_->require_no_capture("synchronize() was called");
    device_scope const scope(place());
    or_forget([&] {
      for (int s = 0; s < stream_count; ++s) state_->wait_for_stream(static_cast<stream>(s));
    });
    state_->stage.deliver_all();
  }

  [[nodiscard]] queue on(stream which) { return {*state_, which}; }

  [[nodiscard]] event make_event() const {
    device_scope const scope(place());
    event made;
    made.handle_ = detail::make_event_handle(place());
    return made;
  }
  void record(event& which, stream after) {
    device_scope const scope(place());
    detail::check(cudaEventRecord(which.handle_.get(), state_->on(after)), "cudaEventRecord",
                  place());
  }
  void wait(stream waiting, event const& which, wait_site site) {
    device_scope const scope(place());
    detail::check(cudaStreamWaitEvent(state_->on(waiting), which.handle_.get(), 0),
                  "cudaStreamWaitEvent", place());
    state_->last_wait[static_cast<std::size_t>(waiting)] = site;
  }

  /// Runs a step. The first call runs body(), so that libraries load and memory is allocated; the
  /// second call records body() as a CUDA graph. The second and all later calls launch this graph.
  /// Without the option `graphs` every call runs body().
  template <class Body>
  void replay(graph& which, Body&& body) {
    if (!state_->options.graphs || !std::exchange(which.has_run_, true))
      return std::forward<Body>(body)();
    device_scope const scope(place());
    if (!which.recorded_ || !*which.recorded_)
      which.recorded_ = state_->keep(record_graph(std::forward<Body>(body)));
    state_->join();
    detail::check(cudaGraphLaunch(which.recorded_->get(), state_->on(stream::compute)),
                  "cudaGraphLaunch", place());
    state_->fork();
  }

  /// Returns a description of the GPU and of the library that chooses the algorithms of matrix
  /// products.
  [[nodiscard]] [[gnu::cold]] std::string kind() const {
    cudaDeviceProp about{};
    detail::check(cudaGetDeviceProperties(&about, place().device), "cudaGetDeviceProperties",
                  place());
    return concat({about.name, ", ", about.multiProcessorCount, " multiprocessors, cuBLASLt ",
                   cublasLtGetVersion()});
  }

  /// Returns the size of the scratch memory of all streams, which libraries and kernels use, in
  /// bytes.
  [[nodiscard]] std::size_t workspace_bytes() const { return state_->scratch_bytes(); }

  /// Begins a range in the profile, which ends when the result is destroyed.
  [[nodiscard]] cuda_range mark(char const* name) const { return cuda_range(name); }

  /// Returns the state that the communicators of this device share with it.
  [[nodiscard]] detail::cuda_state& state() const { return *state_; }

 private:
  // Calls work(). If it fails, pending downloads are dropped, because the host's buffers may have
  // been freed.
  template <class Work>
  void or_forget(Work work) {
    try {
      work();
    } catch (...) {
      state_->stage.forget();
      throw;
    }
  }

  template <class Body>
  [[gnu::cold]] detail::executable_handle record_graph(Body&& body) {
    auto const compute = state_->on(stream::compute);
    // The mode is thread-local, so that other threads may make calls that a capture forbids.
    detail::check(cudaStreamBeginCapture(compute, cudaStreamCaptureModeThreadLocal),
                  "cudaStreamBeginCapture", place());
    state_->capturing = true;
    cudaGraph_t captured = nullptr;
    try {
      state_->fork();
      std::forward<Body>(body)();
      state_->join();
    } catch (...) {
      state_->capturing = false;
      (void)cudaStreamEndCapture(compute, &captured);
      (void)cudaGetLastError();
      detail::graph_handle const unused(captured);
      throw;
    }
    state_->capturing = false;
    detail::check(cudaStreamEndCapture(compute, &captured), "cudaStreamEndCapture", place());
    detail::graph_handle const owner(captured);
    cudaGraphExec_t executable = nullptr;
    detail::check(cudaGraphInstantiate(&executable, captured, 0), "cudaGraphInstantiate", place());
    return detail::executable_handle(executable);
  }

  std::unique_ptr<detail::cuda_state, detail::state_release> state_;
};

static_assert(device<cuda_device>);

}  // namespace plait::ext
