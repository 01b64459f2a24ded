// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "plait/backend/communicator.hpp"
#include "plait/backend/cuda/attention/attention_engine.hpp"
#include "plait/backend/cuda/cuda_options.hpp"
#include "plait/backend/cuda/device/cuda_error.hpp"
#include "plait/backend/cuda/device/cuda_handles.hpp"
#include "plait/backend/cuda/device/cuda_headers.hpp"
#include "plait/backend/cuda/device/device_scope.hpp"
#include "plait/backend/cuda/device/staging.hpp"
#include "plait/backend/cuda/job_signal.hpp"
#include "plait/backend/cuda/products/matrix_products.hpp"
#include "plait/core/clock.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/mesh/stream.hpp"
#include "plait/plan/schedule/synchronization.hpp"

namespace plait::detail {

// The functions of a communicator that the device calls when the device waits or aborts.
class stream_user {
 public:
  virtual void check() = 0;                 // throws the communicator's error, if any
  virtual std::string pending() const = 0;  // returns the communicator's last call, for messages
  virtual void abandon() noexcept = 0;      // begins to abort the communicator's work
  virtual bool is_ending() const noexcept = 0;

 protected:
  ~stream_user() = default;
};

// The CUDA resources of one rank. Its address does not change when devices, queues and
// communicators, which point to it, are moved.
//
// It is constructed in a device_scope. The streams are the last members, so that they are destroyed
// first.
// Threads: the rank's thread.
class cuda_state {
 public:
  cuda_state(cuda_place at, cuda_options const& how, std::shared_ptr<job_signal> shared)
      : place(at),
        options(how),
        signal(shared ? std::move(shared) : std::make_shared<job_signal>()),
        products(at, how),
        stage(at, how),
        engine_(how.attention != nullptr
                    ? how.attention(at, {.deterministic = how.deterministic_attention})
                    : nullptr) {
    // Streams for exchanges between ranks have priority over computation, since other ranks may
    // wait for the exchanges.
    int lowest = 0, highest = 0;
    check(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "cudaDeviceGetStreamPriorityRange",
          at);
    for (int s = 0; s < stream_count; ++s) {
      cudaStream_t made = nullptr;
      int const priority = static_cast<plait::ext::stream>(s) == stream::compute ? lowest : highest;
      check(cudaStreamCreateWithPriority(&made, cudaStreamNonBlocking, priority),
            "cudaStreamCreateWithPriority", at);
      streams_[static_cast<std::size_t>(s)].reset(made);
      joins_[static_cast<std::size_t>(s)] = make_event_handle(at);
      scratch_[static_cast<std::size_t>(s)].push_back(
          allocate(s == 0 ? std::max(options.workspace_bytes, least_scratch) : least_scratch));
    }
  }
  cuda_state(cuda_state const&) = delete;
  cuda_state& operator=(cuda_state const&) = delete;

  [[nodiscard]] cudaStream_t on(stream which) const {
    return streams_[static_cast<std::size_t>(which)].get();
  }

  device_bytes allocate(std::size_t bytes) {
    if (bytes == 0) return {};
    require_no_capture("memory was asked for");
    return take(bytes, "cudaMalloc", [&](void** data) { return cudaMalloc(data, bytes); });
  }

  // Returns scratch memory for one operation of a stream; the next operation of the stream may use
  // it, too. If none is large enough, memory is added. It is never freed, because recorded graphs
  // contain its address.
  //
  // The first allocation of each stream is made with cudaMalloc, and NCCL may let other GPUs read
  // it. Later allocations are made with cudaMallocAsync, from the device's pool, because cudaMalloc
  // could wait for a GPU whose kernel waits for this rank.
  std::byte* scratch(stream which, std::size_t bytes) {
    auto& pieces = scratch_[static_cast<std::size_t>(which)];
    auto const size = [](device_bytes const& piece) { return piece.get_deleter().bytes; };
    for (auto const& piece : pieces)
      if (size(piece) >= bytes) return piece.get();
    require_no_capture("an operation needs more scratch memory");
    auto const more = std::max(bytes, 2 * size(pieces.back()));
    return pieces
        .emplace_back(take(more, "cudaMallocAsync",
                           [&](void** data) { return cudaMallocAsync(data, more, on(which)); }))
        .get();
  }
  // Returns scratch memory for a matrix product.
  std::byte* workspace(stream which) { return scratch(which, options.workspace_bytes); }

  // Returns the size of the scratch memory of all streams, including the workspace of matrix
  // products.
  [[nodiscard]] std::size_t scratch_bytes() const {
    std::size_t bytes = 0;
    for (auto const& pieces : scratch_)
      for (auto const& piece : pieces) bytes += piece.get_deleter().bytes;
    return bytes;
  }

  // Returns the attention that the engine has prepared for a shape, or null if plait's own kernels
  // compute the shape.
  prepared_attention* attention(attention_shape const& shape) {
    auto found = attentions_.find(shape);
    if (found == attentions_.end()) {
      require_no_capture("attention has a new shape");
      device_scope const scope(place);
      found = attentions_.emplace(shape, engine_ ? engine_->prepare(shape) : nullptr).first;
      if (place.rank == 0) say_who_attends(shape, found->second != nullptr);
    }
    return found->second.get();
  }

  // Reports that plait's own kernels compute this attention: engines do not accept separate query,
  // key and value.
  void attend_by_own_kernels(attention_shape const& shape) {
    if (place.rank == 0)
      say_who_attends(shape, false, "accepts query, key and value only side by side");
  }

  void require_no_capture(char const* what) const {
    if (capturing)
      throw cuda_error(
          {place_text(place), what,
           " while a step is recorded as a graph; move it out of the function that replay() runs"});
  }

  // Throws if a step is being recorded; called before an operation of a user waits for a stream.
  void require_no_value() const {
    if (capturing) refuse_value();
  }
  // Throws if CUDA has invalidated a recording, with the likely reason; called after an operation
  // of a user.
  void require_capture_goes_on(stream which) const {
    if (!capturing) return;
    auto now = cudaStreamCaptureStatusNone;
    check(cudaStreamIsCapturing(on(which), &now), "cudaStreamIsCapturing", place);
    if (now == cudaStreamCaptureStatusInvalidated) refuse_value();
  }

  void check_signal() const {
    if (signal->is_raised()) [[unlikely]] {
      abandon_all();
      throw job_aborted(signal->text());
    }
  }

  // Waits until done() is true, and meanwhile checks for failures of other ranks and of
  // communicators. what() returns the name of the awaited work for the message of a time-out.
  template <class Done, class What>
  void wait_until(Done done, What what) const {
    using clock = std::chrono::steady_clock;
    if (done()) return;
    auto const begin = clock::now();
    for (;;) {
      check_signal();
      for (auto* const user : users) user->check();
      if (done()) return;
      auto const elapsed = clock::now() - begin;
      if (elapsed > options.timeout) give_up(what());
      // Most waits at the end of a step take milliseconds: the loop polls often for 2 ms, and then
      // sleeps between polls.
      if (elapsed < std::chrono::milliseconds{2}) std::this_thread::yield();
      else std::this_thread::sleep_for(std::chrono::microseconds{50});
    }
  }

  [[nodiscard]] bool is_empty(stream which) const {
    return has_ended(cudaStreamQuery(on(which)), "cudaStreamQuery");
  }
  [[nodiscard]] bool has_ended(cudaError_t code, char const* call) const {
    if (code == cudaErrorNotReady) {
      (void)cudaGetLastError();
      return false;
    }
    check(code, call, place);
    return true;
  }

  void wait_for(cudaEvent_t event, char const* what) const {
    wait_until([&] { return has_ended(cudaEventQuery(event), "cudaEventQuery"); },
               [&] { return std::string(what); });
  }
  void wait_for_stream(stream which) const {
    wait_until([&] { return is_empty(which); },
               [&] { return concat({"stream ", to_string(which)}); });
  }

  // fork() makes all other streams wait for the compute stream; join() makes the compute stream
  // wait for all others.
  void fork() const {
    auto const event = joins_[static_cast<std::size_t>(stream::compute)].get();
    check(cudaEventRecord(event, on(stream::compute)), "cudaEventRecord", place);
    for (int s = 1; s < stream_count; ++s)
      check(cudaStreamWaitEvent(on(static_cast<stream>(s)), event, 0), "cudaStreamWaitEvent",
            place);
  }
  void join() const {
    for (int s = 1; s < stream_count; ++s) {
      auto const event = joins_[static_cast<std::size_t>(s)].get();
      check(cudaEventRecord(event, on(static_cast<stream>(s))), "cudaEventRecord", place);
      check(cudaStreamWaitEvent(on(stream::compute), event, 0), "cudaStreamWaitEvent", place);
    }
  }

  // Registers a recorded graph, so that abandon_all() can destroy it.
  std::shared_ptr<executable_handle> keep(executable_handle recorded) {
    std::erase_if(recorded_, [](auto const& each) { return each.expired(); });
    auto kept = std::make_shared<executable_handle>(std::move(recorded));
    recorded_.push_back(kept);
    return kept;
  }

  // Aborts all work of the rank on its device: its recorded graphs and all communicators. They are
  // aborted together, because one communicator may wait for another on its stream, and graphs use
  // both.
  void abandon_all() const noexcept {
    for (auto const& each : recorded_)
      if (auto const graph = each.lock()) graph->reset();
    for (auto* const user : users) user->abandon();
    (void)ends();
  }
  // Waits until nothing runs on the device, and returns true. After ten seconds sets gpu_is_stuck
  // and returns false.
  [[nodiscard]] bool ends() const noexcept {
    auto const last = std::chrono::steady_clock::now() + std::chrono::seconds{10};
    auto const runs = [](auto const& each) {
      return cudaStreamQuery(each.get()) == cudaErrorNotReady;
    };
    while (!gpu_is_stuck && (std::ranges::any_of(streams_, runs) ||
                             std::ranges::any_of(users, &stream_user::is_ending))) {
      if (std::chrono::steady_clock::now() > last) gpu_is_stuck = true;
      std::this_thread::sleep_for(std::chrono::microseconds{50});
    }
    (void)cudaGetLastError();
    return !gpu_is_stuck;
  }

  static constexpr std::size_t least_scratch = 256;  // bytes

  cuda_place const place;
  cuda_options const options;
  std::shared_ptr<job_signal> const signal;
  matrix_products products;
  staging stage;
  std::vector<stream_user*> users;
  std::array<std::optional<wait_site>, std::size_t(stream_count)> last_wait{};
  bool capturing = false;

 private:
  // Reports which kernels compute attention of a shape, once for shapes that differ only in the
  // batch. `why`: the reason why the engine does not compute it.
  [[gnu::cold]] void say_who_attends(attention_shape const& shape, bool by_engine,
                                     char const* why = "does not accept this shape") {
    std::string text =
        concat({"plait: attention in bfloat16 of ", shape.sequence, " positions and ", shape.heads,
                " x ", shape.head_width, " columns"});
    if (shape.queries_per_key > 1)
      text += concat({" with ", shape.key_value_heads(), " key-value heads"});
    if (!shape.options.causal) text += " without mask";
    if (shape.options.window != 0) text += concat({" in a window of ", shape.options.window});
    text += " is computed by ";
    if (by_engine) text += engine_->name();
    else if (engine_) text += concat({"plait's own kernels, because ", engine_->name(), " ", why});
    else if (options.attention == nullptr)
      text += "plait's own kernels, because the options select them";
    else text += "plait's own kernels, because plait::cudnn is not linked into the program";
    if (said_.insert(text).second) std::fprintf(stderr, "%s\n", text.c_str());
  }

  [[noreturn, gnu::cold]] void refuse_value() const {
    (void)cudaGetLastError();
    throw cuda_error(
        {place_text(place),
         "ops.run: the kernel waited for its stream or allocated memory while a step is recorded "
         "as a graph: an algorithm that returns a value to the host cannot be part of a recorded "
         "step; write the value to device memory, for example by cub::DeviceReduce"});
  }

  [[noreturn, gnu::cold]] void give_up(std::string const& what) const {
    auto const limit =
        std::chrono::duration_cast<std::chrono::milliseconds>(options.timeout).count();
    std::string message =
        concat({place_text(place), "waited longer than ", limit, " ms for ", what, "; not ended:"});
    for (int s = 0; s < stream_count; ++s) {
      auto const which = static_cast<stream>(s);
      if (cudaStreamQuery(on(which)) == cudaSuccess) continue;
      message += concat({" stream ", to_string(which)});
      if (auto const& site = last_wait[static_cast<std::size_t>(s)])
        message += concat({" (last wait: ", to_string(*site), ")"});
      message += ";";
    }
    (void)cudaGetLastError();
    for (auto* const user : users)
      if (auto const call = user->pending(); !call.empty())
        message += concat({" last call: ", call, ";"});
    message.pop_back();
    abandon_all();
    throw communication_timeout(message);
  }

  template <class Allocate>
  device_bytes take(std::size_t bytes, char const* call, Allocate allocate) {
    device_scope const scope(place);
    void* data = nullptr;
    auto const code = allocate(&data);
    if (code == cudaErrorMemoryAllocation) {
      (void)cudaGetLastError();
      std::size_t free = 0, total = 0;
      check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo", place);
      throw_out_of_memory(place, {bytes, free, total, *held_});
    }
    check(code, call, place);
    *held_ += bytes;
    return {static_cast<std::byte*>(data), device_release{held_, bytes}};
  }

  std::unique_ptr<attention_engine> engine_;
  std::map<attention_shape, std::unique_ptr<prepared_attention>> attentions_{};
  std::set<std::string> said_{};
  // The number of bytes that the rank has allocated on its device.
  std::shared_ptr<std::size_t> held_ = std::make_shared<std::size_t>(0);
  std::vector<std::weak_ptr<executable_handle>> recorded_{};
  // The scratch memory of each stream, sorted by size.
  std::array<std::vector<device_bytes>, std::size_t(stream_count)> scratch_{};
  std::array<event_handle, std::size_t(stream_count)> joins_{};
  std::array<stream_handle, std::size_t(stream_count)> streams_{};
};

// Destroys a state after all its work has ended. If the work does not end, the state is leaked,
// since the device may still use its memory.
struct state_release {
  void operator()(cuda_state* state) const {
    if (state->ends()) delete state;
  }
};

}  // namespace plait::detail
