// SPDX-License-Identifier: Apache-2.0
//
// Schedules of several chunks on a stage, and the eager one: their times against published numbers,
// their proofs, and faults that are planted in their lists.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "plait/plait.hpp"
#include "plait/schedule/proof.hpp"
#include "plait/schedule/times.hpp"
#include "schedule/waves.hpp"

namespace {

using namespace plait;
using namespace plait::ext;
using namespace plait::planning;

constexpr int most_stages = 8;

template <class Schedule>
constexpr int chunks_of = shape_of<Schedule>().chunks;

/// The costs of a stage, for one microbatch.
struct stage_costs {
  std::int64_t forward = 1, backward = 2, message = 0;
};
/// A forward of a stage takes 12 units of time, for any number of chunks.
template <class Schedule>
schedule_times timed(timetable const& table, stage_costs const& of, std::int64_t unit = 12) {
  std::int64_t const chunk = unit / chunks_of<Schedule>;
  return times_of(
      table,
      {.forward = of.forward * chunk, .backward = of.backward * chunk, .message = of.message});
}

struct row {
  int stages, microbatches;
  double makespan;
  std::vector<int> peak;  ///< in chunks
  int messages;
};
template <class Schedule>
void expect_row(row const& expected) {
  auto const table = training_timetable<Schedule>(expected.stages, expected.microbatches);
  auto const times = timed<Schedule>(table, {});
  EXPECT_DOUBLE_EQ(double(times.makespan()) / 12, expected.makespan);
  EXPECT_EQ(times.longest_span(), times.makespan());
  std::vector<int> peak;
  for (int s = 0; s < expected.stages; ++s) {
    peak.push_back(count_slots(table, s).activations);
    EXPECT_EQ(peak.back(), Schedule::peak_activations(expected.stages, s, expected.microbatches));
  }
  EXPECT_EQ(peak, expected.peak);
  EXPECT_EQ(count_messages(table), expected.messages);
}

// Source: the published tables of these schedules and simulations of them by another program.
TEST(ChunkSchedules, TakeTheTimesAndRoomOfTheTables) {
  expect_row<gpipe>({4, 8, 33, {8, 8, 8, 8}, 48});
  expect_row<one_forward_one_backward>({4, 8, 33, {4, 3, 2, 1}, 48});
  expect_row<eager_one_forward_one_backward>({4, 8, 33, {7, 5, 3, 1}, 48});
  expect_row<interleaved<2>>({4, 8, 28.5, {11, 9, 7, 5}, 112});
  expect_row<interleaved<4>>({4, 8, 26.25, {19, 17, 15, 13}, 240});
  expect_row<looped_breadth_first<2>>({4, 8, 28.5, {16, 16, 16, 16}, 112});
  expect_row<one_forward_one_backward>({8, 16, 69, {8, 7, 6, 5, 4, 3, 2, 1}, 224});
  expect_row<interleaved<2>>({8, 16, 58.5, {23, 21, 19, 17, 15, 13, 11, 9}, 480});
  expect_row<interleaved<4>>({8, 16, 53.25, {39, 37, 35, 33, 31, 29, 27, 25}, 992});
}

template <class Schedule>
class Chunked : public ::testing::Test {};
using Schedules = ::testing::Types<interleaved<2>, interleaved<3>, interleaved<4>,
                                   looped_breadth_first<2>, looped_breadth_first<3>,
                                   looped_breadth_first<4>, eager_one_forward_one_backward>;
TYPED_TEST_SUITE(Chunked, Schedules);

TYPED_TEST(Chunked, IsIdleAsItsFormulaSays) {
  constexpr int v = chunks_of<TypeParam>;
  stage_costs const cost_list[]{{1, 2, 0}, {10, 15, 0}, {5, 3, 0}};
  for (int p = 2; p <= most_stages; ++p)
    for (int m = p; m <= 4 * p; ++m) {
      auto const table = training_timetable<TypeParam>(p, m);
      EXPECT_EQ(count_messages(table), 2 * m * (p * v - 1));
      for (auto const& costs : cost_list) {
        auto const bubble = timed<TypeParam>(table, costs).bubble();
        auto const least = (p - 1) * (costs.forward + costs.backward) * (12 / v);
        if (TypeParam::name != interleaved<2>::name || m % p == 0) EXPECT_EQ(bubble, least);
        else {  // never slower than one chunk
          EXPECT_LE(bubble, least * v) << p << ' ' << m;
        }
      }
    }
}

// A message of the latency c makes the step longer by a multiple of c.
TEST(ChunkSchedules, WaitForMessagesAsTheirFormulasSay) {
  auto const latency = [](auto schedule, int p, int m) {
    using type = decltype(schedule);
    auto const table = training_timetable<type>(p, m);
    return timed<type>(table, {4, 8, 1}, 24).makespan() -
           timed<type>(table, {4, 8, 0}, 24).makespan();
  };
  for (int p = 2; p <= most_stages; ++p)
    for (int k = 1; k <= 4; ++k) {
      EXPECT_EQ(latency(eager_one_forward_one_backward{}, p, p * k), 2 * (p - 1)) << p << ' ' << k;
      EXPECT_EQ(latency(interleaved<2>{}, p, p * k), 4 * p - 2) << p << ' ' << k;
      EXPECT_EQ(latency(interleaved<4>{}, p, p * k), 8 * p - 2) << p << ' ' << k;
      EXPECT_EQ(latency(looped_breadth_first<2>{}, p, p * k), k == 1 ? 4 * p - 2 : 2 * (p - 1))
          << p << ' ' << k;
    }
}

// The share of a step in which the stage that works longest is idle.
// Source: Qi, Wan, Huang, Lin, "Zero bubble pipeline parallelism", 2024, tables 5 and 9.
TEST(ChunkSchedules, AreIdleAsPublished) {
  struct published {
    int stages, microbatches;
    double forward, backward_input, backward_parameters, message, idle;
    int chunks;
    double idle_interleaved;
  };
  published const all[]{
      {8, 24, 18.522, 18.086, 9.337, .601, .2431, 3, .1055},
      {8, 32, 18.513, 18.086, 9.331, .626, .1985, 3, .0818},
      {8, 64, 18.546, 18.097, 9.321, .762, .1240, 3, .0443},
      {8, 24, 29.718, 29.444, 19.927, .527, .2347, 4, .0808},
      {8, 32, 29.802, 29.428, 19.530, .577, .1898, 4, .0628},
      {8, 64, 29.935, 29.621, 19.388, .535, .1091, 4, .0320},
      {16, 48, 11.347, 11.248, 8.132, .377, .2552, 3, .1104},
      {16, 64, 11.307, 11.254, 8.101, .379, .2082, 3, .0852},
      {16, 128, 11.325, 11.308, 8.109, .378, .1251, 3, .0445},
      {32, 96, 10.419, 10.207, 7.715, .408, .2646, 2, .1493},
      {32, 128, 10.408, 10.204, 7.703, .408, .2168, 2, .1164},
      {32, 256, 10.402, 10.248, 7.698, .460, .1352, 2, .0624},
  };
  auto const micro = [](double ms) { return std::int64_t(ms * 1000 + 0.5); };
  for (auto const& one : all) {
    int const p = one.stages, m = one.microbatches;
    auto const times = times_of(training_timetable<one_forward_one_backward>(p, m),
                                {.forward = micro(one.forward),
                                 .backward = micro(one.backward_input + one.backward_parameters),
                                 .message = micro(one.message)});
    double const work = one.forward + one.backward_input + one.backward_parameters;
    auto const idle = [&](double span) { return (span - m * work) / span; };
    EXPECT_NEAR(idle(double(times.longest_span()) / 1000), one.idle, 5.1e-5) << p << ' ' << m;
    // The published runs of interleaved lack p times the latency of this list.
    double const v = one.chunks;
    double const span = m * work + (p - 1) * work / v + (2 * p * v - 2 - p) * one.message;
    EXPECT_NEAR(idle(span), one.idle_interleaved, 5.1e-5) << p << ' ' << m;
  }
}

/// The messages of each stage to each other, in the order of its list, as text.
std::vector<std::string> messages_between(timetable const& table, bool sent) {
  int const p = table.stage_count();
  std::vector<std::string> out(std::size_t(p * p));
  for (int s = 0; s < p; ++s)
    for (auto const& op : table.stages[std::size_t(s)].operations) {
      bool const sends = op.kind == work::send_activation || op.kind == work::send_gradient;
      if (computes(op.kind) || sends != sent) continue;
      auto const other = table.partner(op.kind, {s, op.chunk});
      int const number = table.number_of(sends ? chunk_place{s, op.chunk} : other);
      auto& text = out[std::size_t(sends ? s * p + other.stage : other.stage * p + s)];
      bool const is_gradient = op.kind == work::send_gradient || op.kind == work::receive_gradient;
      text += (is_gradient ? "g" : "a") + std::to_string(number) + "." +
              std::to_string(op.microbatch) + " ";
    }
  return out;
}

/// The lists with each receive just before the computation that needs it, and each send after the
/// computation that makes it.
timetable received_where_used(timetable table) {
  for (int s = 0; s < table.stage_count(); ++s) {
    auto& list = table.stages[std::size_t(s)].operations;
    std::vector<scheduled_work> out;
    for (auto const& op : list) {
      if (!computes(op.kind)) continue;
      bool const is_forward = op.kind == work::forward;
      auto const receive = is_forward ? work::receive_activation : work::receive_gradient;
      auto const send = is_forward ? work::send_activation : work::send_gradient;
      chunk_place const at{s, op.chunk};
      if (table.has_message(receive, at)) out.push_back({receive, op.microbatch, op.chunk});
      out.push_back(op);
      if (table.has_message(send, at)) out.push_back({send, op.microbatch, op.chunk});
    }
    list = out;
    table.stages[std::size_t(s)].slots = {1000, 1000, 1000};
  }
  return table;
}

TYPED_TEST(Chunked, IsProvedForAllNumbersAndItsMessagesComeInOneOrder) {
  for (int p = 1; p <= most_stages; ++p)
    for (int m = 1; m <= 4 * p; ++m) {
      auto const table = training_timetable<TypeParam>(p, m);
      ASSERT_EQ(check(table).fault, schedule_fault::none) << p << ' ' << m;
      EXPECT_EQ(messages_between(table, true), messages_between(table, false)) << p << ' ' << m;
      bool const is_breadth_first = TypeParam::name == looped_breadth_first<2>::name;
      bool const ends = m == 1 || p == 1 || (is_breadth_first && m < p);
      EXPECT_EQ(check(received_where_used(table)).proven(), ends) << p << ' ' << m;
    }
}

TEST(ChunkSchedules, WavesAreProvedAndHandOverWithoutMessages) {
  auto const expect = [](auto schedule) {
    using type = decltype(schedule);
    for (int p = 1; p <= most_stages; ++p)
      for (int m = 1; m <= 4 * p; ++m) {
        auto const table = training_timetable<type>(p, m);
        ASSERT_EQ(check(table).fault, schedule_fault::none) << type::name << p << ' ' << m;
        EXPECT_EQ(messages_between(table, true), messages_between(table, false));
        EXPECT_EQ(count_messages(table), 4 * m * (p - 1));
      }
  };
  expect(plait_test::wave_breadth_first{});
  expect(plait_test::wave_of_halves{});
  // Zero bubble: from m = 2p - 1 on no stage is idle between its first and its last computation.
  auto const table = training_timetable<plait_test::wave_of_halves>(4, 8);
  EXPECT_EQ(times_of(table, {.forward = 1, .backward = 2, .backward_parameters = 1}).longest_span(),
            8 * 6);
}

/// A schedule with the same warm-up, but with the backward before the forward.
struct backward_first : interleaved<2> {
  static constexpr std::vector<scheduled_work> order(int stages, int stage, int microbatches) {
    auto list = interleaved<2>::order(stages, stage, microbatches);
    std::size_t warm_up = 0;
    while (list[warm_up].kind == work::forward) ++warm_up;
    for (std::size_t i = warm_up - 1; i + 1 < list.size() && list[i].kind == work::forward; i += 2)
      std::swap(list[i], list[i + 1]);
    return list;
  }
};
TEST(ChunkSchedules, BackwardsBeforeForwardsNeverEnd) {
  EXPECT_FALSE(check(training_timetable<backward_first>(4, 8)).proven());
  EXPECT_FALSE(check(training_timetable<backward_first>(2, 4)).proven());
}

// The check refuses each change of a list, except swaps of neighbours that are right again.
TYPED_TEST(Chunked, RefusesWhatIsChanged) {
  int refused = 0, swapped = 0, right = 0;
  for (int const p : {2, 3, 4})
    for (int const m : {2, 4, 8}) {
      auto const table = training_timetable<TypeParam>(p, m);
      for (int s = 0; s < p; ++s)
        for (std::size_t i = 0; i < table.stages[std::size_t(s)].operations.size(); ++i) {
          auto const with = [&](auto change) {
            auto mutant = table;
            auto& list = mutant.stages[std::size_t(s)].operations;
            if (!change(list)) return true;
            return !check(mutant).proven();
          };
          auto const at = std::ptrdiff_t(i);
          EXPECT_TRUE(with([&](auto& list) { return list.erase(list.begin() + at), true; }));
          EXPECT_TRUE(with([&](auto& list) {
            auto const twice = list[i];
            return list.insert(list.begin() + at, twice), true;
          }));
          EXPECT_TRUE(with([&](auto& list) {
            list[i].microbatch = (list[i].microbatch + 1) % m;
            return true;
          }));
          EXPECT_TRUE(with([&](auto& list) {
            list[i].chunk = (list[i].chunk + 1) % chunks_of<TypeParam>;
            return chunks_of<TypeParam> > 1;
          }));
          refused += 4;
          bool const is_refused = with([&](auto& list) {
            if (i + 1 == list.size()) return false;
            std::swap(list[i], list[i + 1]);
            return true;
          });
          ++(is_refused ? swapped : right);
        }
    }
  std::printf("%d changes refused; of neighbours swapped %d refused, %d right again\n", refused,
              swapped, right);
  EXPECT_GT(swapped, right);
}

TEST(ChunkSchedules, EvaluateWithoutWaiting) {
  auto const expect = [](auto schedule, int most_inputs) {
    using type = decltype(schedule);
    constexpr auto shape = shape_of<type>();
    for (int p = 1; p <= most_stages; ++p)
      for (int m = 1; m <= 4 * p; ++m) {
        auto const table = evaluation_timetable(p, m, shape);
        ASSERT_EQ(check(table).fault, schedule_fault::none) << type::name << p << ' ' << m;
        for (auto const& stage : table.stages) EXPECT_LE(stage.slots.inputs, most_inputs);
        if (m % p == 0 && shape.placement != chunk_placement::wave) {
          EXPECT_EQ(times_of(table).makespan(), m * shape.chunks + p - 1) << p << ' ' << m;
        }
      }
  };
  expect(gpipe{}, 1);
  expect(interleaved<2>{}, 1);
  expect(interleaved<4>{}, 1);
  expect(plait_test::wave_breadth_first{}, 2);
}

}  // namespace
