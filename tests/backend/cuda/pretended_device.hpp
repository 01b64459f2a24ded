// SPDX-License-Identifier: Apache-2.0
#pragma once

// An emulated CUDA device: the functions of the CUDA runtime, of cuBLASLt and of NCCL that plait
// calls, on the processor. A program that is linked to them (pretended_*.cpp in this folder) and
// not to CUDA includes this before everything else.
//
// Work that is put into a stream stays there until a call asks whether it has ended; then the
// device executes heads of streams in a random order that respects the events. So a missing wait,
// or host memory that is used again too early, shows. New memory is filled with NaNs; copies must
// stay within allocated memory. The host cannot touch a device's memory: a program that does ends
// with a message, except while another thread carries out work of a device and has the same pages
// open.
#include "backend/cuda/kernel_emulation.hpp"  // before the CUDA headers

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
// Shared memory of a block of compute capability 9.0: without asking, and after it.
constexpr std::size_t shared_bytes_at_first = std::size_t{48} << 10,
                      most_shared_bytes = std::size_t{227} << 10;

// Carried out when ready() at the head of a stream.
struct item {
  std::function<bool()> ready;
  std::function<void()> work;
};

// One operation of a graph: what makes its item at each launch, and the operations before it.
struct node {
  std::function<item()> make;
  std::vector<std::size_t> after;
};
struct capture_state {
  std::vector<node> nodes;
  bool ended = false;
  bool invalidated = false;  // something was called that a capture forbids
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id begun_by{};
};

struct event_state {
  std::uint64_t recorded = 0;
  std::set<std::uint64_t> under_way{};  // a later record may end before an earlier one elsewhere
  float ms = 0;                         // when it was recorded
  std::shared_ptr<capture_state> capture;
  CUstream_st* captured_from = nullptr;
  std::size_t captured_work = 0;
  std::vector<std::size_t> last;  // operations that it represents
};

/// The memory of all devices, which the program cannot touch.
///
/// Its pages are closed. While a thread carries out work of a device, a chunk of them is opened as
/// soon as that thread touches it, and closed when the work is over. A thread that touches closed
/// pages otherwise ends the program with a sentence on its standard error; an access to a chunk
/// that another thread has open is not noticed. The address sanitizer also finds accesses outside
/// the memory that was taken.
class device_pages {
 public:
  device_pages();
  /// Returns memory filled with NaNs, or null if it does not fit.
  std::byte* take(std::size_t bytes);
  void give_back(std::byte* data, std::size_t bytes);

  /// The thread that holds the machine's mutex carries out work of devices between these calls.
  void begin_work();
  void end_work();

 private:
  static void find_fault(int signal, siginfo_t* about, void* context);
  void open_chunk_of(std::byte const* place);

  std::byte* begin_ = nullptr;
  std::size_t used_ = 0;                       // bytes at the beginning that were ever taken
  std::map<std::size_t, std::size_t> free_{};  // bytes by the place where they begin
  std::vector<std::byte*> opened_{};
  struct sigaction before_{};  ///< the handler of a sanitizer, which reports other faults
  static inline device_pages* all_ = nullptr;
  static inline thread_local bool works_ = false;
};

/// The time in which the thread carries out work of devices.
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
  unsigned devices_set = 0;  // a bit for each that was made current: it has a context then
  bool failed = false;
  std::map<void const*, int> shared_bytes_allowed;  // of kernels that asked for more than 48 KiB

  // Memory that is freed is kept for the next that is taken: to fill a page that the system has to
  // find first takes a hundred times as long.
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
  // capture, unless it is relaxed, or a global one of any thread. Such a call ends the capture.
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
  bool step();  // whether something was carried out
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
  // While it is captured: its operations, how many are waited for, and those before its next one.
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

// The common part of calls that wait for a whole device.
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
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;  // the program's, not ours
  if (stream->capture != nullptr) {
    auto& nodes = stream->capture->nodes;
    nodes.push_back({std::move(make), std::exchange(stream->last, {nodes.size()})});
    ++stream->captured_work;
  } else {
    stream->items.push_back(make());
  }
  return cudaSuccess;
}
/// True if devices count the work that they are given and do none of it. They have much memory
/// then, and touch none of it.
inline bool only_counts = false;

/// Work that such a device was given: a kernel and the numbers among its arguments, or the call of
/// a library.
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

/// The graphs that have been launched.
inline std::atomic<int> graph_launches = 0;

/// The requests to cuBLASLt since the start, and whether it supports epilogues at all.
inline std::atomic<int> epilogues = 0;
/// The number of products to which cuBLASLt has added a matrix other than the result.
inline std::atomic<int> added_matrices = 0;
inline std::atomic<bool> knows_epilogues = true;
/// True if it can sum up an operand while it makes a product.
inline std::atomic<bool> knows_sums = true;
/// True if it offers an algorithm for any product.
inline std::atomic<bool> takes_products = true;
/// The number of offered algorithms that it refuses to run.
inline std::atomic<int> refuses = 0;
/// The algorithm of the last product, which of them takes the least time, and what all have taken.
inline std::atomic<int> last_algorithm = -1, fastest = 0;
inline std::atomic<float> ms_of_products = 0;

/// A communicator of NCCL that a device has made or destroyed; all its members have one number.
struct communicator_entry {
  int device = 0, number = 0;
  bool is_made = false;
};
/// All of them so far; a reader must hold the machine's mutex.
inline std::vector<communicator_entry> communicators;

/// True if NCCL's aborts do not end.
inline std::atomic<bool> aborts_hang = false;

}  // namespace pretended
