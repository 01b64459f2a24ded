// SPDX-License-Identifier: Apache-2.0
//
// Tests where the passes of several chunks store the values that they leave to each other.
#include "plait/plan/memory/pass_places.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "plait/core/random.hpp"
#include "plait/plait.hpp"
#include "plan/gpt2.hpp"
#include "schedule/waves.hpp"

namespace {

using namespace plait;
using namespace plait::ext;
using namespace plait::planning;

/// Returns the chunks of a stage: for each the bytes of its stash, and of its input and output.
plait::ext::lean_vector<chunk_arena> chunks_of(timetable const& table, int stage,
                                               std::vector<std::size_t> const& stash,
                                               std::size_t edge) {
  plait::ext::lean_vector<chunk_arena> out;
  for (int c = 0; c < table.chunks; ++c) {
    chunk_place const at{stage, c};
    auto const before = table.partner(work::receive_activation, at);
    auto const behind = table.partner(work::send_activation, at);
    chunk_arena one;
    one.handed_from = before.stage == stage ? before.chunk : -1;
    one.handed_to = behind.stage == stage && behind.chunk < table.chunks ? behind.chunk : -1;
    bool const is_last = table.number_of(at) + 1 == table.chunk_count();
    one.begins_model = table.number_of(at) == 0;
    one.receives_gradient = !is_last;
    one.activation_stash_bytes = stash[std::size_t(c)];
    one.gradient_stash_bytes = table.splits_backward ? stash[std::size_t(c)] / 2 : 0;
    one.input_bytes = one.output_bytes = edge;
    out.push_back(one);
  }
  return out;
}

template <class Schedule>
class Places : public ::testing::Test {};
using Schedules = ::testing::Types<one_forward_one_backward, eager_one_forward_one_backward,
                                   interleaved<2>, interleaved<4>, looped_breadth_first<2>,
                                   plait_test::wave_breadth_first, plait_test::wave_of_halves>;
TYPED_TEST_SUITE(Places, Schedules);

TYPED_TEST(Places, DoNotMeetAndWasteLittle) {
  std::uint64_t draw = 0;
  random_key const key{3, 0, 0};
  for (int p = 1; p <= 4; ++p)
    for (int m = 1; m <= 3 * p; ++m) {
      auto const table = training_timetable<TypeParam>(p, m);
      for (int s = 0; s < p; ++s) {
        std::vector<std::size_t> stash;
        for (int c = 0; c < table.chunks; ++c)
          stash.push_back(64 * (8 + random_word(key, draw++) % 8));
        std::size_t const edge = 64;
        auto const chunks = chunks_of(table, s, stash, edge);
        auto const& list = table.stages[std::size_t(s)];
        auto const all = lives_of_passes(chunks, list.operations, m);
        for (int const how : {0, 1, 2}) {
          auto lives = all;
          place_lengths const lengths(lives, how == 1);
          sort_lives(lives, lengths);
          if (how < 2) place_in_pools(lives, lengths);
          else place_largest_first(lives);
          ASSERT_TRUE(are_apart(lives)) << p << ' ' << m << ' ' << s;
          EXPECT_GE(end_of(lives), live_bytes(lives));
          // A place that overlaps another life is detected.
          for (std::size_t i = 0; m <= p && i < lives.size(); ++i)
            for (std::size_t k = 0; k < lives.size(); ++k)
              if (i != k && lives[i].meets(lives[k])) {
                auto moved = lives;
                moved[i].offset = lives[k].offset + lives[k].bytes - 64;
                ASSERT_FALSE(are_apart(moved)) << p << ' ' << m << ' ' << s;
              }
        }
        auto const placed = place_by_lives(chunks, list.operations, m);
        EXPECT_EQ(bytes_of_passes<true>(chunks, list, m).all,
                  table.chunks == 1 ? live_bytes(all) : placed.bytes);
        EXPECT_EQ(bytes_of_passes<true>(chunks, list, m).live, live_bytes(all));
        if (table.chunks == 1) {
          // Pools of each kind: memory that microbatches take in turn.
          auto const in_turn = place_in_turn(chunks[0], list.slots);
          EXPECT_EQ(in_turn.bytes, placed.bytes) << p << ' ' << m << ' ' << s;
        }
        // Places that share bytes share one piece.
        for (std::size_t i = 0; m <= p && i < all.size(); ++i)
          for (auto const& other : all) {
            auto const& one = all[i];
            auto const a = placed.of(one.what, one.chunk, one.microbatch);
            auto const b = placed.of(other.what, other.chunk, other.microbatch);
            bool const share = a.offset < b.offset + other.bytes && b.offset < a.offset + one.bytes;
            EXPECT_EQ(share, a.first < b.end && b.first < a.end);
            EXPECT_LT(a.first, a.end);
          }
      }
    }
}

/// Returns the bytes of the largest stage, relative to the bytes that it uses at one time.
template <class Schedule>
double waste(int stages, int microbatches, std::size_t blocks) {
  auto const table = training_timetable<Schedule>(stages, microbatches);
  std::size_t most = 0, most_live = 0;
  for (int s = 0; s < stages; ++s) {
    std::vector<std::size_t> stash;
    for (int c = 0; c < table.chunks; ++c) {
      auto const number = std::size_t(table.number_of({s, c})),
                 all = std::size_t(table.chunk_count());
      stash.push_back(64 * 16 * (blocks / all + (number < blocks % all ? 1 : 0)));
    }
    auto const bytes = bytes_of_passes<true>(chunks_of(table, s, stash, 64),
                                             table.stages[std::size_t(s)], microbatches);
    most = std::max(most, bytes.all);
    most_live = std::max(most_live, bytes.live);
  }
  return double(most) / double(most_live);
}
TEST(PlacesOfTransformers, WasteAtMostAnEighth) {
  for (int const p : {2, 4})
    for (std::size_t const blocks : {8u, 12u, 16u, 18u}) {
      EXPECT_LE(waste<interleaved<2>>(p, 4 * p, blocks), 1.12) << p << ' ' << blocks;
      EXPECT_LE(waste<looped_breadth_first<2>>(p, 4 * p, blocks), 1.12) << p << ' ' << blocks;
      EXPECT_LE(waste<plait_test::wave_breadth_first>(p, 4 * p, blocks), 1.12)
          << p << ' ' << blocks;
    }
}

// GPT-2 with 124 million parameters on four stages of two chunks, 16 microbatches of one sequence.
// Each stage has its own constant, as compilers limit the work for one.
using gpt2_in_chunks = plan<plan_gpt2::gpt2_untied, pipeline<4, interleaved<2>>>;
struct needs {
  std::size_t bytes = 0, live = 0;
};
template <int Stage>
constexpr needs needs_of = [] {
  auto const arena = gpt2_in_chunks::arena_for(Stage, {.rows = 1024, .microbatches = 16});
  return needs{arena.passes_bytes, arena.training.live};
}();
static_assert(
    100 * std::max({needs_of<0>.bytes, needs_of<1>.bytes, needs_of<2>.bytes, needs_of<3>.bytes}) <=
    112 * std::max({needs_of<0>.live, needs_of<1>.live, needs_of<2>.live, needs_of<3>.live}));

}  // namespace
