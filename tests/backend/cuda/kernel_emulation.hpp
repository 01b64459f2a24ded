// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <bit>
#include <compare>
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "backend/cuda/kernel_words.hpp"  // precedes the kernels, which need its keywords

#include "plait/backend/cuda/kernels/launch.hpp"
#include "plait/backend/cuda/kernels/sort_pairs.hpp"

// Runs kernels on the processor, one block after the other; the threads of a block are fibers. A
// warp runs until its threads wait at a barrier of the block. First or last thread first and first
// or last warp first alternate, so that a missing barrier shows. Shared memory is filled with NaNs
// before each block and has guard bytes after it. A wait that can never end (threads that left, or
// that wait for another barrier) is an error.
//
// Under the thread sanitizer the threads of a kernel are threads for the sanitizer, too. It finds
// two threads that access the same memory, one of them writing, without a barrier between them.
// They may be threads of one block, or of two blocks, which only the end of the kernel orders. An
// exchange between the threads of a warp orders its values but not memory, as on a device.

namespace kernel_emulation {

// swapcontext() makes the operating system save the signal mask, twice for each switch. That takes
// longer than the work of a thread between two barriers. Sanitizers support no other way, though.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PLAIT_SWITCH_BY_CONTEXT 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define PLAIT_SWITCH_BY_CONTEXT 1
#endif
#endif

#if defined(__SANITIZE_THREAD__)
#define PLAIT_RACES_ARE_FOUND 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define PLAIT_RACES_ARE_FOUND 1
#endif
#endif

// Calls that tell the sanitizer about fibers and their order; empty without it.
#if defined(PLAIT_RACES_ARE_FOUND)
extern "C" {
void* __tsan_get_current_fiber();
void* __tsan_create_fiber(unsigned flags);
void __tsan_switch_to_fiber(void*, unsigned flags);
void __tsan_acquire(void*);
void __tsan_release(void*);
void AnnotateIgnoreReadsBegin(char const* file, int line);
void AnnotateIgnoreReadsEnd(char const* file, int line);
void AnnotateIgnoreWritesBegin(char const* file, int line);
void AnnotateIgnoreWritesEnd(char const* file, int line);
}
/// A guard within which the sanitizer ignores reads and writes of the emulation itself.
struct unseen {
  unseen() {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  ~unseen() {
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
  unseen(unseen const&) = delete;
  unseen& operator=(unseen const&) = delete;
};
/// Orders memory: accesses before leave(place) happen before accesses after a later enter(place).
inline void leave(void* place) { __tsan_release(place); }
inline void enter(void* place) { __tsan_acquire(place); }
#else
struct unseen {
  unseen() {}  // NOLINT: it is used for its lifetime, as with the sanitizer
};
inline void leave(void*) {}
inline void enter(void*) {}
#endif

/// A barrier of a kernel, by its place in the source.
struct barrier_site {
  char const* file;
  int line;
  auto operator<=>(barrier_site const&) const = default;
};
/// PLAIT_LEAVE_OUT_BARRIER=<file>:<line> leaves this barrier out of all kernels, to check that the
/// tests then fail; <file> is the end of its path. PLAIT_LIST_BARRIERS=1 prints the barriers that
/// kernels reach.
inline bool is_left_out(barrier_site const& site) {
  static std::string const which = [] {
    char const* const said = std::getenv("PLAIT_LEAVE_OUT_BARRIER");
    return std::string(said == nullptr ? "" : said);
  }();
  if (which.empty()) return false;
  return (std::string(site.file) + ":" + std::to_string(site.line)).ends_with("/" + which);
}

// Names _longjmp() by a symbol that hardened builds do not replace by a function that only unwinds
// one stack.
extern "C" [[noreturn]] void go_on_at(std::jmp_buf, int) __asm__("_longjmp");

/// A place where a function was left and can be resumed. `main` runs on its own stack and never
/// returns; without `main`, the fiber is the first caller of switch_to().
class fiber {
 public:
  fiber() : has_begun_(true) {
#if defined(PLAIT_RACES_ARE_FOUND)
    known_as_ = __tsan_get_current_fiber();
#endif
  }
  explicit fiber(void (*main)()) : stack_(std::make_unique<unsigned char[]>(stack_bytes)) {
#if defined(PLAIT_RACES_ARE_FOUND)
    known_as_ = __tsan_create_fiber(0);  // never destroyed: it ends in the middle of the emulation
#endif
    getcontext(&context_);
    context_.uc_stack.ss_sp = stack_.get();
    context_.uc_stack.ss_size = stack_bytes;
    makecontext(&context_, main, 0);
  }

  fiber(fiber const&) = delete;
  fiber& operator=(fiber const&) = delete;

  /// Suspends this running fiber and resumes another one.
  void switch_to(fiber& next) {
#if defined(PLAIT_RACES_ARE_FOUND)
    __tsan_switch_to_fiber(next.known_as_, 1);  // the switch orders no memory
#endif
#if defined(PLAIT_SWITCH_BY_CONTEXT)
    swapcontext(&context_, &next.context_);
#else
    if (_setjmp(left_) != 0) return;
    if (next.has_begun_) go_on_at(next.left_, 1);
    next.has_begun_ = true;
    setcontext(&next.context_);
#endif
  }

 private:
  static constexpr std::size_t stack_bytes = 64 * 1024;

  std::unique_ptr<unsigned char[]> stack_;
  ucontext_t context_{};
  std::jmp_buf left_{};
  bool has_begun_ = false;
#if defined(PLAIT_RACES_ARE_FOUND)
  void* known_as_ = nullptr;
#endif
};

class block_machine {
 public:
  enum class waits : std::uint8_t { no, for_block, for_warp, has_left };

  static block_machine& instance() {
    static block_machine machine;
    return machine;
  }
  block_machine() = default;
  block_machine(block_machine const&) = delete;
  block_machine& operator=(block_machine const&) = delete;
  ~block_machine() {
    if (std::getenv("PLAIT_LIST_BARRIERS") == nullptr) return;
    for (auto const& site : sites_) std::printf("barrier %s:%d\n", site.file, site.line);
  }

  /// Runs one block of `threads` threads that all call `body`.
  void run(unsigned threads, std::size_t shared_bytes, std::function<void()> const& body) {
    unseen const own;
    body_ = &body;
    failure_.clear();
    prepare(threads, shared_bytes);
    unsigned const warps = (threads + 31) / 32;
    while (failure_.empty() && left_ < threads) {
      bool const backwards = next_order();
      for (unsigned w = 0; w < warps; ++w) {
        unsigned const first = 32 * (backwards ? warps - 1 - w : w);
        run_warp(first, std::min(first + 32, threads));
      }
      if (left_ < threads) release_block();
    }
    for (std::size_t i = shared_bytes; i < shared_.size() * sizeof(line); ++i)
      if (shared()[i] != poison && failure_.empty())
        failure_ = "a thread wrote behind the shared memory of its block";
    if (left_ < threads) threads_.clear();  // these fibers are suspended within the kernel
    if (!failure_.empty()) throw std::logic_error("emulated kernel: " + failure_);
  }

  void wait(waits what, unsigned mask = 0) {
    unseen const own;
    state_[current_] = what;
    mask_[current_] = mask;
    threads_[current_].switch_to(scheduler_);
  }
  /// Waits for all threads of the block.
  void wait_for_block(barrier_site const& site) {
    unseen const own;
    sites_.insert(site);
    if (is_left_out(site)) return;
    // The place alternates between two: a thread that reaches the next barrier early must not order
    // its later accesses before a thread that has not yet left this barrier.
    void* const place = &known_by_->barriers[barriers_[current_]++ % 2];
    leave(place);
    wait(waits::for_block);
    enter(place);
  }
  /// Waits for the threads of the warp.
  void wait_for_warp(unsigned mask) {
    unseen const own;
    void* const place = &known_by_->warps[current_ / 32 * 2 + warp_waits_[current_]++ % 2];
    leave(place);
    wait(waits::for_warp, mask);
    enter(place);
  }
  /// Orders memory: accesses of the host happen before accesses of a kernel that it launches, and
  /// these before later accesses of the host.
  void begin_kernel() { leave(&begun_); }
  void end_kernel() { enter(&ended_); }

  /// Gives each thread of the warp the values of the others. Two sets of slots alternate, so a fast
  /// thread does not overwrite a value that a slow thread has not yet read.
  template <class T>
  T const* exchange(unsigned mask, T const& mine) {
    static_assert(sizeof(T) <= sizeof(std::uint64_t));
    unseen const own;
    unsigned const warp = current_ / 32;
    auto& slots = slots_[2 * warp + turn_[current_]++ % 2];
    std::memcpy(&slots.bytes[current_ % 32 * sizeof(T)], &mine, sizeof(T));
    wait(waits::for_warp, mask);
    return reinterpret_cast<T const*>(slots.bytes);
  }
  [[nodiscard]] unsigned lane() const { return current_ % 32; }
  [[nodiscard]] unsigned char* shared() {
    unseen const own;
    return shared_.data()->bytes;
  }

 private:
  static constexpr unsigned char poison = 0xFF;  // a NaN in every type
  struct alignas(128) line {
    unsigned char bytes[128];
  };
  struct exchange_slot {
    alignas(8) unsigned char bytes[32 * 8];
  };
  /// Addresses by which the sanitizer knows the barriers of a block.
  struct block_order {
    char barriers[2];
    char warps[2 * 32];
  };

  void prepare(unsigned threads, std::size_t shared_bytes) {
    // New addresses for each block: blocks do not wait for each other, nor do they share memory.
    if (races_are_found) {
      known_by_ = std::make_unique<block_order>();
      std::vector<line>().swap(shared_);
    }
    shared_.resize(shared_bytes / sizeof(line) + 2);
    std::memset(static_cast<void*>(shared()), poison, shared_.size() * sizeof(line));
    state_.assign(threads, waits::no);
    mask_.assign(threads, 0);
    turn_.assign(threads, 0);
    barriers_.assign(threads, 0);
    warp_waits_.assign(threads, 0);
    left_ = 0;
    slots_.resize(2 * ((threads + 31) / 32));
    while (threads_.size() < threads) threads_.emplace_back(&block_machine::thread_main);
  }

  /// Runs one thread of each block, block after block.
  static void thread_main() {
    auto& machine = instance();
    for (;;) {
      enter(&machine.begun_);
      (*machine.body_)();
      leave(&machine.ended_);
      machine.end_thread();
    }
  }

  void end_thread() {
    unseen const own;
    ++left_;
    wait(waits::has_left);
  }

  /// Runs the threads [first, last) of a warp until each of them waits.
  void run_warp(unsigned first, unsigned last) {
    do {
      bool const backwards = next_order();
      for (unsigned t = first; t < last; ++t) {
        current_ = backwards ? first + last - 1 - t : t;
        if (state_[current_] != waits::no) continue;
        plait::cuda_kernels::threadIdx.x = current_;
        scheduler_.switch_to(threads_[current_]);
      }
    } while (release_warp(first, last));
  }
  bool release_warp(unsigned first, unsigned last) {
    bool released = false;
    for (unsigned t = first; t < last; ++t)
      if (state_[t] == waits::for_warp && complete(first, last, mask_[t])) {
        for (unsigned other = first; other < last; ++other)
          if (mask_[t] >> (other - first) & 1u) state_[other] = waits::no;
        released = true;
      }
    return released;
  }
  void release_block() {
    if (std::all_of(state_.begin(), state_.end(),
                    [](waits state) { return state == waits::for_block; }))
      std::fill(state_.begin(), state_.end(), waits::no);
    else
      failure_ = "threads wait for others that left the block or wait at another place (" +
                 std::to_string(std::count(state_.begin(), state_.end(), waits::for_block)) +
                 " at a barrier, " +
                 std::to_string(std::count(state_.begin(), state_.end(), waits::for_warp)) +
                 " for their warp, " + std::to_string(left_) + " left)";
  }
  /// Returns true if this time the last thread runs first.
  bool next_order() { return std::popcount(order_++) % 2 != 0; }
  bool complete(unsigned first, unsigned last, unsigned mask) const {
    for (unsigned t = first; t < last; ++t)
      if ((mask >> (t - first) & 1u) && (state_[t] != waits::for_warp || mask_[t] != mask))
        return false;
    return true;
  }

#if defined(PLAIT_RACES_ARE_FOUND)
  static constexpr bool races_are_found = true;
#else
  static constexpr bool races_are_found = false;
#endif

  std::function<void()> const* body_ = nullptr;
  std::string failure_;
  std::unique_ptr<block_order> known_by_ = std::make_unique<block_order>();
  char begun_ = 0, ended_ = 0;  // addresses for the sanitizer
  std::set<barrier_site> sites_;
  fiber scheduler_;
  std::deque<fiber> threads_;  // a deque, so that fibers keep their addresses
  std::vector<waits> state_;
  std::vector<unsigned> mask_;
  std::vector<unsigned> turn_;
  // The number of barriers and waits that each thread has reached.
  std::vector<unsigned> barriers_, warp_waits_;
  std::vector<exchange_slot> slots_;
  std::vector<line> shared_;
  unsigned current_ = 0;
  unsigned left_ = 0;
  unsigned order_ = 0;
};

/// The launcher of the tests. It counts launches and limits the number of blocks of a kernel.
struct launcher {
  int* launches = nullptr;
  unsigned most_blocks = ~0u;

  template <class... Parameters, class... Arguments>
  void operator()(void (*kernel)(Parameters...), plait::cuda_kernels::launch_shape shape,
                  Arguments... arguments) const {
    namespace cuda = plait::cuda_kernels;
    shape.blocks = std::min(shape.blocks, most_blocks);
    if (shape.blocks == 0 || shape.blocks_y == 0 || shape.blocks_y > 65535 || shape.threads == 0 ||
        shape.threads > 1024)
      throw std::logic_error("emulated kernel: a device would refuse this launch shape");
    if (launches != nullptr) ++*launches;
    auto& machine = block_machine::instance();
    std::function<void()> const body = [&] { kernel(arguments...); };
    machine.begin_kernel();
    {
      unseen const own;
      cuda::gridDim = {shape.blocks, shape.blocks_y, 1};
      cuda::blockDim = {shape.threads, 1, 1};
      for (unsigned y = 0; y < shape.blocks_y; ++y)
        for (unsigned x = 0; x < shape.blocks; ++x) {
          cuda::blockIdx = {x, y, 0};
          machine.run(shape.threads, shape.shared_bytes, body);
        }
    }
    machine.end_kernel();
  }
};
static_assert(plait::cuda_kernels::launcher<launcher>);

/// Memory that kernels may use.
class device_bytes {
 public:
  explicit device_bytes(std::vector<unsigned char> values) : values_(std::move(values)) {}
  [[nodiscard]] unsigned char* data() { return values_.data(); }
  [[nodiscard]] std::vector<unsigned char> const& get() const { return values_; }

 private:
  std::vector<unsigned char> values_;
};

}  // namespace kernel_emulation

namespace plait::cuda_kernels {

using kernel_emulation::block_machine;

inline void emulated_barrier(char const* file, int line) {
  block_machine::instance().wait_for_block({file, line});
}
inline void __syncwarp(unsigned mask) { block_machine::instance().wait_for_warp(mask); }
template <class T>
T __shfl_sync(unsigned mask, T value, int lane) {
  return block_machine::instance().exchange(mask, value)[lane];
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask) {
  auto& machine = block_machine::instance();
  unsigned const other = machine.lane() ^ static_cast<unsigned>(lane_mask);
  return machine.exchange(mask, value)[other];
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
  int const* const all = block_machine::instance().exchange(mask, predicate);
  unsigned bits = 0;
  for (unsigned lane = 0; lane < 32; ++lane)
    if ((mask >> lane & 1u) && all[lane] != 0) bits |= 1u << lane;
  return bits;
}
inline unsigned char* emulated_shared_memory() { return block_machine::instance().shared(); }

// CUB is not available: a kernel of one thread sorts.
namespace detail {

inline void sort_pairs_kernel(pairs_to_sort pairs, std::uint32_t* order) {
  auto const key = [&](std::uint32_t i) {
    return pairs.keys[i] & ((std::uint64_t{1} << pairs.key_bits) - 1);
  };
  std::iota(order, order + pairs.count, std::uint32_t{0});
  std::sort(order, order + pairs.count, [&](std::uint32_t a, std::uint32_t b) {
    return key(a) != key(b) ? key(a) < key(b) : a < b;
  });
  for (std::size_t i = 0; i < pairs.count; ++i) {
    pairs.sorted_keys[i] = pairs.keys[order[i]];
    pairs.sorted_values[i] = pairs.values[order[i]];
  }
}

template <plait::cuda_kernels::launcher Launch>
void sort_pairs(Launch launch, pairs_to_sort const& pairs, void* workspace, std::size_t& bytes) {
  if (workspace == nullptr) bytes = pairs.count * sizeof(std::uint32_t);
  else launch(sort_pairs_kernel, launch_shape{}, pairs, static_cast<std::uint32_t*>(workspace));
}

}  // namespace detail

}  // namespace plait::cuda_kernels
