// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <malloc.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

// Counts a program's calls of operator new. One source file of a program includes it, and is a
// program by itself (`// test: alone`).
namespace plait_test {

inline std::atomic<long> allocations{0};
/// Bytes that have not been given back, and the most that there have been.
inline std::atomic<std::size_t> bytes_held{0}, most_bytes_held{0};

inline void* counted(void* memory) {
  ++allocations;
  std::size_t const held = bytes_held += ::malloc_usable_size(memory);
  for (auto most = most_bytes_held.load();
       most < held && !most_bytes_held.compare_exchange_weak(most, held);) {
  }
  return memory;
}
inline void give_back(void* memory) {
  bytes_held -= ::malloc_usable_size(memory);
  std::free(memory);
}

}  // namespace plait_test

// The array forms and the nothrow forms call these, unless a sanitizer has its own. Not inline,
// because the compiler would otherwise report malloc and operator delete as a mismatched pair.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (void* const memory = std::malloc(bytes == 0 ? 1 : bytes)) return plait_test::counted(memory);
  throw std::bad_alloc{};
}
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t alignment) {
  auto const step = static_cast<std::size_t>(alignment);
  if (void* const memory = std::aligned_alloc(step, (bytes + step - 1) / step * step))
    return plait_test::counted(memory);
  throw std::bad_alloc{};
}
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t alignment,
                                     std::nothrow_t const&) noexcept {
  try {
    return operator new(bytes, alignment);
  } catch (std::bad_alloc const&) {
    return nullptr;
  }
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { plait_test::give_back(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  plait_test::give_back(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  plait_test::give_back(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  plait_test::give_back(memory);
}
