// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <utility>

#include "testing/threads_on.hpp"

namespace plait_test {

/// A host device whose arenas are between inaccessible pages: a write past an arena's end stops the
/// program. The bytes between an arena and these pages are checked when it is freed. Memory is full
/// of numbers that no result has.
struct guarded_device : plait::ext::host_device {
  class arena {
   public:
    arena() = default;
    explicit arena(std::size_t bytes) : bytes_(bytes) {
      if (bytes == 0) return;
      std::size_t const room = plait::planning::aligned(bytes);
      inner_ = (room + page() - 1) / page() * page();
      void* const all =
          ::mmap(nullptr, inner_ + 2 * page(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (all == MAP_FAILED) throw std::bad_alloc();
      begin_ = static_cast<std::byte*>(all) + page();
      if (::mprotect(begin_, inner_, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
      std::fill_n(begin_, inner_, unused);
      data_ = begin_ + (inner_ - room);
    }
    arena(arena&& other) noexcept { swap(other); }
    arena& operator=(arena&& other) noexcept {
      arena(std::move(other)).swap(*this);
      return *this;
    }
    ~arena() {
      if (data_ == nullptr) return;
      auto const is_unused = [](std::byte what) { return what == unused; };
      if (!std::all_of(begin_, data_, is_unused) ||
          !std::all_of(data_ + bytes_, begin_ + inner_, is_unused)) {
        std::fprintf(stderr, "somebody has written beside an arena of %zu bytes\n", bytes_);
        std::abort();
      }
      ::munmap(begin_ - page(), inner_ + 2 * page());
    }
    [[nodiscard]] std::byte* data() const { return data_; }
    [[nodiscard]] std::size_t size() const { return bytes_; }

   private:
    static constexpr std::byte unused{0xcd};
    static std::size_t page() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }
    void swap(arena& other) noexcept {
      std::swap(begin_, other.begin_);
      std::swap(data_, other.data_);
      std::swap(bytes_, other.bytes_);
      std::swap(inner_, other.inner_);
    }

    std::byte *begin_ = nullptr, *data_ = nullptr;
    std::size_t bytes_ = 0, inner_ = 0;
  };

  [[nodiscard]] arena allocate(std::size_t bytes) const { return arena(bytes); }
};

static_assert(plait::ext::device<guarded_device>);

inline threads_on<guarded_device> guarded_threads(int data_ranks = 0) {
  return {[](plait::ext::coordinates const&) { return guarded_device{}; }, data_ranks};
}

}  // namespace plait_test
