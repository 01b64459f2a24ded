// SPDX-License-Identifier: Apache-2.0
// test: alone
#include "plait/backend/simulated/shadow_memory.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <random>
#include <vector>

namespace {

std::size_t pieces = 0;  // the pieces of memory that are in use

}  // namespace

[[gnu::noinline]] void* operator new(std::size_t bytes) {
  void* const data = std::malloc(bytes == 0 ? 1 : bytes);
  if (data == nullptr) throw std::bad_alloc();
  ++pieces;
  return data;
}
[[gnu::noinline]] void operator delete(void* data) noexcept {
  if (data != nullptr) --pieces;
  std::free(data);
}
[[gnu::noinline]] void operator delete(void* data, std::size_t) noexcept { operator delete(data); }

namespace {

using shadow = plait::detail::shadow_memory;
using state = shadow::state;

// Returns an operation that is not ordered after any operation of another stream.
shadow::accessor alone(std::size_t on, std::uint32_t number) {
  shadow::accessor by{.on = on, .number = number};
  by.known[on] = number;
  return by;
}

TEST(ShadowMemory, BytesAreUndefinedUntilWritten) {
  shadow memory;
  memory.add(100, 50, 0);
  EXPECT_EQ(memory.write(100, 110, alone(0, 1), true).what, state::fine);
  EXPECT_EQ(memory.read(100, 110, alone(0, 2)).what, state::fine);
  auto const found = memory.read(105, 130, alone(0, 3));
  EXPECT_EQ(found.what, state::undefined);
  EXPECT_EQ(found.begin, 110u);
  EXPECT_EQ(found.end, 130u);
  EXPECT_EQ(memory.write(100, 110, alone(0, 4), false).what, state::fine);  // discarded
  EXPECT_EQ(memory.read(109, 110, alone(0, 5)).what, state::undefined);
}

TEST(ShadowMemory, RacesNameTheOtherAccess) {
  shadow memory;
  memory.add(0, 100, 0);
  EXPECT_EQ(memory.write(0, 60, alone(1, 7), true).what, state::fine);
  auto const read = memory.read(50, 80, alone(2, 1));
  EXPECT_EQ(read.what, state::race);
  EXPECT_EQ(read.begin, 50u);
  EXPECT_EQ(read.end, 60u);
  EXPECT_EQ(read.on, 1u);
  EXPECT_EQ(read.number, 7u);
  EXPECT_TRUE(read.wrote);

  auto knows = alone(2, 2);
  knows.known[1] = 7;
  EXPECT_EQ(memory.read(10, 20, knows).what, state::fine);
  auto const write = memory.write(0, 60, alone(1, 8), true);
  EXPECT_EQ(write.what, state::race);
  EXPECT_EQ(write.begin, 10u);
  EXPECT_EQ(write.end, 20u);
  EXPECT_EQ(write.on, 2u);
  EXPECT_EQ(write.number, 2u);
  EXPECT_FALSE(write.wrote);
}

TEST(ShadowMemory, ArenasAreApartEvenAsNeighbours) {
  std::size_t const before = pieces;
  shadow memory;
  memory.add(0, 64, 0);
  memory.add(64, 64, 1);
  EXPECT_EQ(memory.write(0, 64, alone(0, 1), true).what, state::fine);
  EXPECT_EQ(memory.write(64, 128, alone(0, 1), true).what, state::fine);
  EXPECT_EQ(memory.read(60, 68, alone(0, 2)).what, state::foreign);
  EXPECT_EQ(memory.read(120, 129, alone(0, 2)).what, state::foreign);
  EXPECT_EQ(memory.write(200, 201, alone(0, 2), true).what, state::foreign);
  EXPECT_EQ(pieces - before, 2u + 2u);  // arenas and cells
  memory.remove(0);
  EXPECT_EQ(memory.read(0, 1, alone(0, 2)).what, state::foreign);
  EXPECT_EQ(memory.read(64, 65, alone(0, 2)).what, state::fine);
}

TEST(ShadowMemory, AlikeNeighboursAreOneCell) {
  shadow memory;
  std::size_t const before = pieces + 1;  // the arena
  memory.add(0, 1024, 0);
  for (std::size_t i = 0; i < 1024; i += 16)
    EXPECT_EQ(memory.write(i, i + 16, alone(0, 1), true).what, state::fine);
  EXPECT_EQ(pieces - before, 1u);
  for (std::uint32_t i = 0; i < 64; ++i)
    EXPECT_EQ(memory.read(16 * i, 16 * i + 16, alone(0, 2 + i)).what, state::fine);
  EXPECT_EQ(pieces - before, 64u);
  memory.forget_accesses();
  EXPECT_EQ(pieces - before, 1u);
  EXPECT_EQ(memory.write(0, 1024, alone(3, 1), true).what, state::fine);
}

// A model that tracks each byte separately.
class byte_model {
 public:
  explicit byte_model(std::size_t bytes) : bytes_(bytes) {}

  state read(std::size_t begin, std::size_t end, shadow::accessor const& by) {
    state out = state::fine;
    for (std::size_t i = begin; i < end; ++i) {
      auto const& now = bytes_[i];
      if (!now.is_defined) out = state::undefined;
      else if (now.writer_number > by.known[now.writer]) return state::race;
    }
    for (std::size_t i = begin; i < end; ++i) bytes_[i].readers[by.on] = by.number;
    return out;
  }
  state write(std::size_t begin, std::size_t end, shadow::accessor const& by, bool is_defined) {
    for (std::size_t i = begin; i < end; ++i) {
      if (bytes_[i].writer_number > by.known[bytes_[i].writer]) return state::race;
      for (std::size_t s = 0; s < shadow::streams; ++s)
        if (bytes_[i].readers[s] > by.known[s]) return state::race;
    }
    for (std::size_t i = begin; i < end; ++i) bytes_[i] = {by.on, by.number, is_defined, {}};
    return state::fine;
  }
  void forget_accesses() {
    for (auto& byte : bytes_) byte = {0, 0, byte.is_defined, {}};
  }

 private:
  struct one {
    std::size_t writer = 0;
    std::uint32_t writer_number = 0;
    bool is_defined = false;
    std::array<std::uint32_t, shadow::streams> readers{};
  };
  std::vector<one> bytes_;
};

TEST(ShadowMemory, EqualsAModelOfEveryByte) {
  constexpr std::size_t size = 64;
  std::array<int, 4> seen{};
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    auto const below = [&](std::size_t n) { return std::size_t(random()) % n; };
    shadow memory;
    memory.add(1000, size, 0);
    byte_model model(size);
    std::array<std::uint32_t, shadow::streams> made{};
    std::array<std::array<std::uint32_t, shadow::streams>, shadow::streams> known{};
    for (int step = 0; step < 200; ++step) {
      std::size_t const on = below(shadow::streams);
      std::size_t const begin = below(size), end = begin + 1 + below(size - begin);
      if (below(3) != 0)  // it is ordered after all operations of another stream up to now
        for (std::size_t s = 0; s < shadow::streams; ++s) known[on][s] = made[s];
      known[on][on] = ++made[on];
      shadow::accessor const by{.on = on, .number = made[on], .known = known[on]};
      state expected{}, got{};
      if (below(2) == 0) {
        expected = model.read(begin, end, by);
        got = memory.read(1000 + begin, 1000 + end, by).what;
      } else {
        bool const is_defined = below(8) != 0;
        expected = model.write(begin, end, by, is_defined);
        got = memory.write(1000 + begin, 1000 + end, by, is_defined).what;
      }
      ASSERT_EQ(int(expected), int(got)) << "seed " << seed << ", step " << step;
      ++seen[std::size_t(got)];
      if (got == state::race) break;  // the state after a race does not matter
      if (below(50) == 0) {
        memory.forget_accesses();
        model.forget_accesses();
      }
    }
  }
  EXPECT_GT(seen[std::size_t(state::fine)], 1000);
  EXPECT_GT(seen[std::size_t(state::race)], 100);
  EXPECT_GT(seen[std::size_t(state::undefined)], 100);
}

}  // namespace
