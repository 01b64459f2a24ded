// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <thrust/execution_policy.h>
#include <thrust/memory.h>
#include <thrust/pair.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/macros.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/tensor/view.hpp"

// Thrust and CUB in the kernels that a layer passes to ops.run. No other header of plait includes
// this one, because of its compile time: nvcc takes 45 seconds for a file that includes it, and g++
// three seconds.
//
// A file that only a host compiler compiles needs Thrust for the CPU: link plait::thrust, or define
// THRUST_DEVICE_SYSTEM=THRUST_DEVICE_SYSTEM_CPP. All files of a program must do this in the same
// way.

namespace plait::ext {

/// Temporary memory for one call of a kernel. It is taken from the bytes of a view, usually the
/// view of a scratch slot, and is handed out from the beginning on. thrust_policy and run_cub use
/// it; it is also an allocator for Thrust's own policies:
/// `thrust::cuda::par_nosync(memory).on(queue.stream())`.
///
/// Memory that is deallocated can be handed out again at once, even while the GPU still uses it,
/// because the next operation of the stream runs later.
/// Cost:    arithmetic on the host; allocates no memory and initialises none.
/// Errors:  out_of_memory, with the number of bytes needed and the number of bytes left.
/// Threads: used by one thread.
class thrust_scratch {
 public:
  using value_type = std::byte;

  template <class T, placement At, class Memory>
  explicit thrust_scratch(view<T, At, Memory> of) {
    static_assert(!std::is_const_v<T>,
                  "thrust_scratch(view): the view is read-only; pass the view of a scratch slot, "
                  "which ops.run treats as written");
    std::size_t const bytes = of.count() * sizeof(T);
    auto const address = reinterpret_cast<std::uintptr_t>(of.data);
    std::size_t const gap = static_cast<std::size_t>(rounded_up(address) - address);
    begin_ = reinterpret_cast<std::byte*>(of.data) + gap;
    size_ = gap < bytes ? bytes - gap : 0;
  }
  thrust_scratch(thrust_scratch const&) = delete;
  thrust_scratch& operator=(thrust_scratch const&) = delete;

  /// Returns `bytes` bytes of memory, aligned to 64 bytes like slots.
  std::byte* allocate(std::size_t bytes) {
    std::size_t const offset = rounded_up(used_), left = size_ - std::min(size_, offset);
    if (bytes > left) [[unlikely]]
      refuse(bytes, left);
    used_ = offset + bytes;
    return begin_ + offset;
  }
  /// Frees memory if it is the most recent allocation; other memory stays in use until this object
  /// is destroyed.
  void deallocate(std::byte* data, std::size_t bytes) {
    auto const offset = static_cast<std::size_t>(data - begin_);
    if (rounded_up(offset + bytes) == rounded_up(used_)) used_ = offset;
  }

  /// Returns memory for `count` values of a trivially copyable type, such as indices. It stays in
  /// use until this object is destroyed.
  template <class T>
  T* take(std::size_t count) {
    static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= alignment,
                  "thrust_scratch.take<T>(count): no constructor runs in scratch memory, so T must "
                  "be trivially copyable, with an alignment of at most 64");
    return reinterpret_cast<T*>(allocate(count * sizeof(T)));
  }

 private:
  static constexpr std::size_t alignment = 64;
  static constexpr std::uintptr_t rounded_up(std::uintptr_t bytes) {
    return (bytes + alignment - 1) / alignment * alignment;
  }

  [[noreturn, gnu::cold]] void refuse(std::size_t bytes, std::size_t left) const {
    throw out_of_memory(
        concat({"thrust_scratch: ", bytes, " bytes are needed, ", left, " of ", size_,
                " are left; make the slot larger: slot<Label, PerRow, Values>"}),
        {.asked = bytes, .free = left, .total = size_, .held = used_});
  }

  std::byte* begin_ = nullptr;
  std::size_t size_ = 0;
  std::size_t used_ = 0;
};

}  // namespace plait::ext

namespace plait {

/// Returns a pointer to the first element of a view, whose elements are row by row, for algorithms
/// that are called with a policy.
///
/// The pointer is plain even for the memory of a GPU. thrust::device_ptr would also allow the host
/// to read an element, or to run an algorithm without a policy, on a stream that does not wait for
/// plait's streams.
template <class T, placement At, class Memory>
constexpr T* begin(view<T, At, Memory> of) {
  return of.data;
}
/// Returns a pointer to the end of the elements of a view.
template <class T, placement At, class Memory>
constexpr T* end(view<T, At, Memory> of) {
  return of.data + of.count();
}
template <class Memory>
constexpr std::int32_t const* begin(token_view<Memory> of) {
  return of.data;
}
template <class Memory>
constexpr std::int32_t const* end(token_view<Memory> of) {
  return of.data + of.rows;
}

}  // namespace plait

namespace plait::detail {

#if THRUST_DEVICE_SYSTEM == THRUST_DEVICE_SYSTEM_CUDA

// A policy like thrust::cuda::par_nosync: it runs Thrust's algorithms on the stream of a queue. It
// defines the functions that Thrust calls with a policy. Temporary memory is from a thrust_scratch.
// If an algorithm waits for its result, it calls the queue's wait(), which throws while a step is
// recorded. Thrust calls these functions from host and device code; in plait they run only on the
// host.
template <class Queue>
class stream_policy : public thrust::cuda::execution_policy<stream_policy<Queue>> {
 public:
  stream_policy(Queue const& queue, thrust_scratch* memory)
      : queue_(&queue), stream_(queue.stream()), memory_(memory) {}

 private:
  friend PLAIT_HOST_DEVICE cudaStream_t get_stream(stream_policy const& on) { return on.stream_; }
  friend PLAIT_HOST_DEVICE bool must_perform_optional_stream_synchronization(stream_policy const&) {
    return false;
  }
  friend PLAIT_HOST_DEVICE cudaError_t synchronize_stream(stream_policy& on) {
    NV_IF_TARGET(NV_IS_HOST, (on.queue_->wait();), ((void)on;))
    return cudaSuccess;
  }
  template <class T>
  friend thrust::pair<T*, std::ptrdiff_t> get_temporary_buffer(stream_policy& on,
                                                               std::ptrdiff_t count) {
    std::size_t const bytes = static_cast<std::size_t>(count) * sizeof(T);
    if (on.memory_ == nullptr)
      throw out_of_memory(concat({"thrust_policy(queue): the algorithm needs ", bytes,
                                  " bytes of temporary memory; write thrust_policy(queue, memory) "
                                  "with a thrust_scratch of at least that size"}),
                          {.asked = bytes});
    return {reinterpret_cast<T*>(on.memory_->allocate(bytes)), count};
  }
  template <class Pointer>
  friend void return_temporary_buffer(stream_policy& on, Pointer data, std::ptrdiff_t count) {
    auto* const raw = thrust::raw_pointer_cast(data);
    on.memory_->deallocate(reinterpret_cast<std::byte*>(raw),
                           static_cast<std::size_t>(count) * sizeof(*raw));
  }

  Queue const* queue_;
  cudaStream_t stream_;
  thrust_scratch* memory_;
};

#endif

template <class Queue>
auto policy_of([[maybe_unused]] Queue const& queue, [[maybe_unused]] thrust_scratch* memory) {
  if constexpr (requires { queue.stream(); }) {
#if THRUST_DEVICE_SYSTEM == THRUST_DEVICE_SYSTEM_CUDA
    return stream_policy<Queue>(queue, memory);
#else
    static_assert(!std::is_same_v<Queue, Queue>,
                  "thrust_policy(queue): the queue belongs to a GPU, but Thrust is configured for "
                  "the processor; compile this file by nvcc, without THRUST_DEVICE_SYSTEM");
#endif
  } else {
    return thrust::seq;
  }
}

}  // namespace plait::detail

namespace plait::ext {

/// Returns the policy for Thrust's algorithms in a kernel that ops.run calls with `queue`. On a GPU
/// the algorithms run at the end of the queue's stream, and the calls return at once; on the CPU
/// they run at once, in one thread.
///
/// The policy keeps references to both arguments. On a GPU, temporary memory is from `memory`;
/// without `memory`, only algorithms that need no temporary memory can run (for_each, transform,
/// fill, tabulate). On the CPU, temporary memory is from the heap. An algorithm that returns a
/// value (reduce, count, find, copy_if) waits for the stream.
/// Cost:   one or a few kernel launches for each algorithm; cudaMalloc is never called.
/// Errors: out_of_memory of thrust_scratch; cuda_error if an algorithm returns a value while a step
///         is recorded as a graph; thrust::system_error if a launch fails.
template <class Queue>
auto thrust_policy(Queue const& queue, thrust_scratch& memory) {
  return detail::policy_of(queue, &memory);
}
template <class Queue>
auto thrust_policy(Queue const& queue) {
  return detail::policy_of(queue, nullptr);
}

/// Calls a function of CUB on the queue of a GPU, with temporary memory from `memory`.
/// call(temporary, bytes, stream) is called twice: first with a null pointer, to get the size, then
/// with the memory. `name` is the name of the function in the text of an error.
///
/// Cost:   CUB's launches; every step needs the same size of temporary memory.
/// Errors: out_of_memory of thrust_scratch; cuda_error with CUDA's error.
template <class Queue, class Call>
void run_cub(Queue const& queue, thrust_scratch& memory, char const* name, Call call) {
  std::size_t bytes = 0;
  queue.launcher().call(name,
                        [&](auto on) { return call(static_cast<void*>(nullptr), bytes, on); });
  std::byte* const temporary = memory.allocate(bytes);
  queue.launcher().call(name,
                        [&](auto on) { return call(static_cast<void*>(temporary), bytes, on); });
  memory.deallocate(temporary, bytes);
}

}  // namespace plait::ext
