// SPDX-License-Identifier: Apache-2.0
#pragma once

// A pretended CUDA device: the functions of the CUDA runtime, of cuBLASLt and of NCCL that plait
// calls, implemented on the processor. A program that links them (pretended_*.cpp here) instead of
// CUDA includes this header first.
//
// Work stays in a stream until a call asks whether it is complete. Then the heads of streams run in
// a random order that respects the events, so a missing wait, or host memory that is reused too
// early, shows. New memory is filled with NaNs. Copies are checked against the bounds of
// allocations. The host cannot access a device's memory: a program that does ends with an error,
// except while another thread runs work of a device and has the same pages open.
#include "backend/cuda/kernel_emulation.hpp"  // precedes the CUDA headers

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <exception>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace pretended {

constexpr int devices = 8;
constexpr std::size_t device_bytes = std::size_t{4} << 30;
// The shared memory of a block of compute capability 9.0: the default, and the maximum that a
// kernel can request.
constexpr std::size_t shared_bytes_at_first = std::size_t{48} << 10,
                      most_shared_bytes = std::size_t{227} << 10;

// Work that runs when it is at the head of a stream and ready() is true.
struct item {
  std::function<bool()> ready;
  std::function<void()> work;
};

// One operation of a graph: the function that makes its item at each launch, and the operations
// before it.
struct node {
  std::function<item()> make;
  std::vector<std::size_t> after;
};
struct capture_state {
  std::vector<node> nodes;
  bool ended = false;
  bool invalidated = false;  // a call was made that a capture forbids
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id begun_by{};
};

struct event_state {
  std::uint64_t recorded = 0;
  std::set<std::uint64_t> under_way{};  // recordings in progress; a later one may end before an
                                        // earlier one of another stream
  float ms = 0;                         // the time of the recording
  std::shared_ptr<capture_state> capture;
  CUstream_st* captured_from = nullptr;
  std::size_t captured_work = 0;
  std::vector<std::size_t> last;  // the operations after which the event is complete
};

/// The memory of all devices, which the host's code cannot access.
///
/// Its pages are protected. While a thread runs work of a device, a chunk of pages is opened when
/// that thread first accesses it, and closed when the work ends. A thread that accesses closed
/// pages otherwise ends the program with an error; an access to a chunk that another thread has
/// open is not detected. The address sanitizer also finds accesses outside of allocated memory.
class device_pages {
 public:
  device_pages();
  /// Returns memory filled with NaNs, or null if there is not enough.
  std::byte* take(std::size_t bytes);
  void give_back(std::byte* data, std::size_t bytes);

  /// The thread that holds the machine's mutex runs work of devices between these calls.
  void begin_work();
  void end_work();

 private:
  static void find_fault(int signal, siginfo_t* about, void* context);
  void open_chunk_of(std::byte const* place);

  std::byte* begin_ = nullptr;
  std::size_t used_ = 0;  // bytes at the beginning that were allocated at least once
  std::map<std::size_t, std::size_t> free_{};  // free bytes, by the offset at which they begin
  std::vector<std::byte*> opened_{};
  struct sigaction before_{};  ///< the handler of a sanitizer, which reports other faults
  static inline device_pages* all_ = nullptr;
  static inline thread_local bool works_ = false;
};

/// The scope in which the thread runs work of devices.
class device_work {
 public:
  explicit device_work(device_pages& pages) : pages_(pages) { pages_.begin_work(); }
  ~device_work() { pages_.end_work(); }
  device_work(device_work const&) = delete;
  device_work& operator=(device_work const&) = delete;

 private:
  device_pages& pages_;
};

struct machine {
  std::recursive_mutex mutex;
  device_pages pages;
  std::vector<CUstream_st*> streams;
  std::map<std::byte const*, std::size_t> device_memory, pinned_memory;
  std::map<std::byte const*, int> device_of;
  std::size_t used = 0;
  std::mt19937 random{std::random_device{}()};
  unsigned devices_set = 0;  // a bit for each device that was made current and so has a context
  bool failed = false;
  // The shared memory of kernels that requested more than 48 KiB.
  std::map<void const*, int> shared_bytes_allowed;

  // Freed memory is kept for the next allocation: a new page that the system must map takes a
  // hundred times as long to fill.
  machine() {
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  }
  static machine& get() {
    static machine one;
    return one;
  }
  static bool is_within(std::map<std::byte const*, std::size_t> const& all, void const* data,
                        std::size_t bytes) {
    auto const* const first = static_cast<std::byte const*>(data);
    auto const after = all.upper_bound(first);
    if (after == all.begin()) return bytes == 0;
    auto const& [begin, size] = *std::prev(after);
    return first + bytes <= begin + size;
  }
  // Returns true if a kernel may be given this address.
  [[nodiscard]] bool is_seen_by_kernels(void const* data) const {
    return is_within(device_memory, data, 1) || is_within(pinned_memory, data, 1);
  }
  // Returns true if a capture forbids this thread calls that may wait for the device: its own
  // capture, unless it is relaxed, or a global capture of any thread. Such a call invalidates the
  // capture.
  bool ends_a_capture() {
    bool ends = false;
    for (auto const* stream : streams) ends = end_capture_of(stream) || ends;
    return ends;
  }
  static bool end_capture_of(CUstream_st const* stream);
  void carry_out(item const& now) try {
    if (now.work) now.work();
  } catch (std::exception const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    failed = true;
  }
  bool step();  // returns true if work ran
  void steps(unsigned most) {
    device_work const now(pages);
    for (auto i = random() % most + 1; i > 0 && step(); --i) {
    }
  }
  void drain(int device);
};

using lock = std::scoped_lock<std::recursive_mutex>;
inline thread_local int current_device = 0;

}  // namespace pretended

struct CUevent_st {
  std::shared_ptr<pretended::event_state> state = std::make_shared<pretended::event_state>();
};
struct CUgraph_st {
  std::vector<pretended::node> nodes;
};
struct CUgraphExec_st {
  std::vector<pretended::node> nodes;
};
struct CUstream_st {
  int device = 0;
  std::deque<pretended::item> items{};
  std::shared_ptr<pretended::capture_state> capture{};
  // State during a capture: the number of its operations, how many are waited for, and the
  // operations before the next one.
  std::size_t captured_work = 0, joined_work = 0;
  std::vector<std::size_t> last{};
};

namespace pretended {

inline bool machine::end_capture_of(CUstream_st const* stream) {
  auto const& now = stream->capture;
  if (now == nullptr || now->mode == cudaStreamCaptureModeRelaxed) return false;
  if (now->mode == cudaStreamCaptureModeThreadLocal && now->begun_by != std::this_thread::get_id())
    return false;
  return now->invalidated = true;
}

inline bool machine::step() {
  std::size_t const count = streams.size(), first = count == 0 ? 0 : random() % count;
  for (std::size_t i = 0; i < count; ++i) {
    auto& items = streams[(first + i) % count]->items;
    if (items.empty() || (items.front().ready && !items.front().ready())) continue;
    auto const now = std::move(items.front());
    items.pop_front();
    return carry_out(now), true;
  }
  return false;
}

// Runs the work of a device until it is complete, for calls that wait for a whole device.
inline void machine::drain(int device) {
  for (;;) {
    {
      lock const hold(mutex);
      device_work const now(pages);
      while (step()) {
      }
      bool empty = true;
      for (auto const* stream : streams)
        empty = empty && (stream->device != device || stream->items.empty());
      if (empty) return;
    }
    std::this_thread::yield();
  }
}

inline cudaError_t enqueue_made(cudaStream_t stream, std::function<item()> make) {
  // The default stream belongs to the program.
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (stream->capture != nullptr) {
    auto& nodes = stream->capture->nodes;
    nodes.push_back({std::move(make), std::exchange(stream->last, {nodes.size()})});
    ++stream->captured_work;
  } else {
    stream->items.push_back(make());
  }
  return cudaSuccess;
}
/// True if devices only count the work that they receive. They then have much memory, and access
/// none of it.
inline bool only_counts = false;

/// Work that a counting device received: a kernel and the numbers among its arguments, or the call
/// of a library.
struct counted_work {
  void const* kernel;
  char const* call;
  std::vector<std::size_t> numbers;
};
inline std::vector<counted_work> counted;

inline cudaError_t enqueue(cudaStream_t stream, std::function<void()> work) {
  return enqueue_made(stream, [work = std::move(work)] { return item{nullptr, work}; });
}

/// Enqueues work, or counts it.
inline cudaError_t enqueue(cudaStream_t stream, counted_work what, std::function<void()> work) {
  if (!only_counts) return enqueue(stream, std::move(work));
  counted.push_back(std::move(what));
  return enqueue(stream, [] {});
}

/// The error of a kernel of this thread that could not be launched.
inline thread_local cudaError_t last_error = cudaSuccess;

/// The number of graph launches.
inline std::atomic<int> graph_launches = 0;

/// The number of epilogues that cuBLASLt was asked for since the start.
inline std::atomic<int> epilogues = 0;
/// The number of products to which cuBLASLt has added a matrix other than the result.
inline std::atomic<int> added_matrices = 0;
inline std::atomic<bool> knows_epilogues = true;
/// True if cuBLASLt can sum an operand while it makes a product.
inline std::atomic<bool> knows_sums = true;
/// True if cuBLASLt offers an algorithm for any product.
inline std::atomic<bool> takes_products = true;
/// The number of algorithms that cuBLASLt offers but refuses to run.
inline std::atomic<int> refuses = 0;
/// The algorithm of the last product, the fastest algorithm, and the time that all products took.
inline std::atomic<int> last_algorithm = -1, fastest = 0;
inline std::atomic<float> ms_of_products = 0;

/// An NCCL communicator that a device has created or destroyed; all its members have one number.
struct communicator_entry {
  int device = 0, number = 0;
  bool is_made = false;
};
/// All communicators so far; a reader must hold the machine's mutex.
inline std::vector<communicator_entry> communicators;

/// True if NCCL's aborts hang.
inline std::atomic<bool> aborts_hang = false;

}  // namespace pretended
