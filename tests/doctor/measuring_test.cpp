// SPDX-License-Identifier: Apache-2.0
// test: libs=doctor
// The parts of plait-doctor that measure, exchange and summarize numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "plait/backend/host/host_device.hpp"
#include "plait/backend/host/threads.hpp"
#include "plait/core/bfloat16.hpp"
#include "plait/core/clock.hpp"
#include "plait/doctor/doctor_results.hpp"
#include "plait/doctor/measure_links.hpp"
#include "plait/doctor/measure_work.hpp"
#include "plait/doctor/rank_exchange.hpp"
#include "plait/doctor/settings_text.hpp"
#include "plait/doctor/turns.hpp"
#include "plait/doctor/work_operands.hpp"
#include "plait/mesh/axis.hpp"
#include "plait/mesh/mesh.hpp"

namespace {

namespace doctor = plait::detail::doctor;

plait::ext::mesh mesh_of(int ranks) {
  plait::ext::mesh out;
  out.add(plait::axis::data, ranks);
  return out;
}

// ---- Turns --------------------------------------------------------------------------------------

TEST(turns, median) {
  EXPECT_EQ(doctor::median_of({}), 0);
  EXPECT_EQ(doctor::median_of({3, 1, 2}), 2);
  EXPECT_EQ(doctor::median_of({4, 1, 2, 3}), 2.5);
}

TEST(turns, close_turns) {
  EXPECT_TRUE(doctor::are_close({1}));
  EXPECT_TRUE(doctor::are_close({1, 1.02, 0.98, 1.01, 5}));  // one outlier
  EXPECT_FALSE(doctor::are_close({1, 1.2, 0.8, 1.1, 1}));
}

TEST(turns, lost_time) {
  std::vector<double> turns(100, 0.05);
  auto const steady = doctor::turns_of(turns);
  EXPECT_EQ(steady.median_seconds, 0.05);
  EXPECT_EQ(steady.longest_seconds, 0.05);
  EXPECT_EQ(steady.lost, 0);
  turns[7] = turns[8] = 0.55;  // 0.5 s longer each: 1 s of 6 s is lost
  auto const unsteady = doctor::turns_of(turns);
  EXPECT_EQ(unsteady.median_seconds, 0.05);
  EXPECT_EQ(unsteady.longest_seconds, 0.55);
  EXPECT_NEAR(unsteady.lost, 1.0 / 6, 1e-12);
}

TEST(turns, sleeping_takes_its_time) {
  plait::ext::host_device device;
  std::vector<int> calls(2);
  auto const seconds = doctor::seconds_of_works(
      device, {.turns = 3, .most_turns = 3, .seconds = 1e-3}, 2, [&](std::size_t i) {
        ++calls[i];
        std::this_thread::sleep_for(std::chrono::milliseconds(i == 0 ? 2 : 5));
      });
  ASSERT_EQ(seconds.size(), 2u);
  EXPECT_GE(seconds[0], 2e-3);
  EXPECT_GE(seconds[1], 5e-3);
  EXPECT_EQ(calls, (std::vector{5, 5}));  // 2 to find the number of calls of a turn, and 3 turns
}

TEST(turns, a_disturbance_slows_down_one_turn_of_each_work) {
  plait::ext::host_device device;
  int done = 0;
  auto const seconds = doctor::seconds_of_works(
      device, {.turns = 5, .most_turns = 5, .seconds = 1e-5}, 20, [&](std::size_t) {
        ++done;
        bool const is_disturbed = done > 100 && done <= 120;  // the second turn of each work
        std::this_thread::sleep_for(std::chrono::microseconds(is_disturbed ? 20000 : 100));
      });
  for (double const one : seconds) EXPECT_LT(one, 15e-3);
}

TEST(turns, ranks_have_equal_numbers_of_turns) {
  plait::threads{}.run(mesh_of(2), [](auto& rank) {
    doctor::rank_exchange exchange(rank);
    std::vector<int> turns(2);
    auto const seconds = doctor::seconds_together(
        exchange, {.turns = 3, .most_turns = 6, .seconds = 1e-3}, 2, [&](std::size_t i) {
          ++turns[i];
          // On rank 1, the turns of work 1 differ.
          return i == 1 && rank.world_rank() == 1 ? double(turns[i]) : 1.0;
        });
    EXPECT_EQ(turns, (std::vector{3, 6}));
    EXPECT_EQ(seconds[0], 1.0);
    EXPECT_EQ(seconds[1], rank.world_rank() == 1 ? 3.5 : 1.0);
  });
}

// ---- Exchange -----------------------------------------------------------------------------------

TEST(rank_exchange, numbers_and_texts_of_all_ranks) {
  plait::threads{}.run(mesh_of(3), [](auto& rank) {
    doctor::rank_exchange exchange(rank);
    int const own = rank.world_rank();
    EXPECT_EQ(exchange.of_all(double(own)), (std::vector{0.0, 1.0, 2.0}));
    EXPECT_EQ(exchange.largest(10.0 - own), 10.0);
    EXPECT_EQ(exchange.of_all(std::string(std::size_t(own * 5), char('a' + own))),
              (std::vector<std::string>{"", "bbbbb", "cccccccccc"}));
    EXPECT_EQ(exchange.of_root(own == 0 ? "the text of rank 0" : "another"), "the text of rank 0");
    EXPECT_EQ(exchange.of_all(std::vector<double>{}).size(), 3u);
    std::vector<int> turns;
    exchange.in_turn(own, 3, 0, [&] { turns.push_back(own); });
    EXPECT_EQ(turns, std::vector{own});
  });
}

TEST(rank_exchange, use_of_processors) {
  std::vector<plait::ext::processor_use> use(2);
  use[0].others = 0.25;
  use[0].cpus = 2;
  use[0].processes.push_back({.number = 4711, .name = "str;ess:", .cpus = 0.2, .last_cpu = 1});
  use[1].others = plait::ext::reading<double>::unknown("/proc/stat: missing");
  EXPECT_EQ(plait::ext::processor_use_from_text(plait::ext::to_text(use)), use);
  EXPECT_THROW((void)plait::ext::processor_use_from_text("2;x"), plait::input_error);
}

// ---- Work ---------------------------------------------------------------------------------------

TEST(usual_products, have_64_shapes_of_each_kind) {
  for (bool const full : {false, true}) {
    auto const shapes = doctor::usual_products(full);
    EXPECT_EQ(shapes.size(), 3u * 64);
    std::size_t longest = 0, shortest = 4096;
    for (auto const& one : shapes) {
      EXPECT_EQ(std::ranges::count(shapes, one), 1);
      longest = std::max({longest, one.rows, one.columns, one.inner});
      shortest = std::min({shortest, one.rows, one.columns, one.inner});
    }
    EXPECT_EQ(longest, 4096u);
    EXPECT_EQ(shortest, 32u);
  }
}

template <class T>
class work_operands : public testing::Test {};
using element_types = testing::Types<float, double, plait::bfloat16>;
TYPED_TEST_SUITE(work_operands, element_types);

TYPED_TEST(work_operands, products_multiply) {
  plait::ext::host_device device;
  using transposed = plait::ext::transposed_operand;
  for (auto const kind : {transposed::none, transposed::a, transposed::b}) {
    plait::ext::product_shape const shape{5, 7, 64, kind};
    doctor::work_operands<plait::ext::host_device, TypeParam> operands(device, {shape});
    operands.product(shape);
    // Each element is the sum of 64 products of 0.01 and 0.01.
    for (auto const each : operands.result(5 * 7)) EXPECT_NEAR(double(each), 64e-4, 1e-4);
  }
}

TYPED_TEST(work_operands, layers_compute) {
  plait::ext::host_device device;
  doctor::work_operands<plait::ext::host_device, TypeParam> operands(device, {});
  operands.row_wise();  // the normalized elements of equal values are 0, and 0.01 is added
  for (auto const each : operands.result(100)) EXPECT_NEAR(double(each), 0.01, 1e-4);
  operands.attention(64);  // a weighted mean of equal values
  for (auto const each : operands.result(100)) EXPECT_NEAR(double(each), 0.01, 1e-4);
  operands.optimizer_step();
  operands.smallest_operation();
}

TEST(mean_of_ranks, is_the_geometric_mean) {
  EXPECT_NEAR(doctor::mean_of_ranks({1, 4}), 2, 1e-12);
  EXPECT_NEAR(doctor::mean_of_ranks({3, 3, 3}), 3, 1e-12);
}

TEST(work_of_kinds, has_geometric_means) {
  doctor::work_of_kinds work;
  work.add("products", {1e9, 4e9}, {2e9, 4e9});
  work.add("attention", {5, 5}, {7, 7});
  work.add("products", {4e9, 4e9}, {8e9, 4e9});
  auto const means = work.means();
  ASSERT_EQ(means.size(), 2u);
  EXPECT_EQ(means[0].name, "products");
  EXPECT_NEAR(means[0].together[0], 2e9, 1);
  EXPECT_NEAR(means[0].together[1], 4e9, 1);
  EXPECT_NEAR(means[0].alone[0], 4e9, 1);
  EXPECT_NEAR(means[1].alone[1], 7, 1e-9);
}

// ---- Links --------------------------------------------------------------------------------------

TEST(link_measurement, measures_the_pairs_of_its_rounds) {
  plait::threads{}.run(mesh_of(3), [](auto& rank) {
    doctor::rank_exchange exchange(rank);
    doctor::link_measurement of(rank, exchange);
    plait::ext::machine::link_matrix latencies, bandwidths;
    of.measure({{{0, 2}}}, latencies, bandwidths);
    for (std::size_t i = 0; i < 3; ++i)
      for (std::size_t j = 0; j < 3; ++j) {
        bool const is_measured = (i == 0 && j == 2) || (i == 2 && j == 0);
        EXPECT_EQ(latencies[i][j] > 0, is_measured) << i << " " << j;
        EXPECT_EQ(bandwidths[i][j] > 0, is_measured) << i << " " << j;
      }
    auto const before = bandwidths[0][2];
    of.measure({{{0, 1}}}, latencies, bandwidths);
    EXPECT_EQ(bandwidths[0][2], before);  // other pairs keep their numbers
    EXPECT_GT(bandwidths[1][0], 0);
  });
}

// ---- Results ------------------------------------------------------------------------------------

TEST(doctor_results, ranks_of_each_host) {
  using hosts = std::vector<std::string>;
  EXPECT_EQ(doctor::ranks_of_each_host({"a", "a", "b", "b"}), 2);
  EXPECT_EQ(doctor::ranks_of_each_host({"a", "a", "a"}), 0);                 // one host
  EXPECT_EQ(doctor::ranks_of_each_host({"a", "b"}), 0);                      // one rank each
  EXPECT_EQ(doctor::ranks_of_each_host({"a", "a", "b"}), 0);                 // unequal
  EXPECT_EQ(doctor::ranks_of_each_host({"a", "b", "a", "b"}), 0);            // not consecutive
  EXPECT_EQ(doctor::ranks_of_each_host({"a", "a", "b", "b", "a", "a"}), 0);  // a host twice
  EXPECT_EQ(doctor::numbers_on_hosts({"a", "b", "a", "b", "b"}), (std::vector{0, 0, 1, 1, 2}));
  EXPECT_EQ(doctor::usual_pairs(hosts{"a", "a", "b"}),
            (std::vector<std::pair<int, int>>{{0, 1}, {0, 2}, {1, 2}}));
  EXPECT_EQ(doctor::usual_pairs(hosts(8, "a")).size(), 3u);
}

TEST(doctor_results, links_that_ranks_share) {
  doctor::doctor_results of;
  of.job.hosts = {"a", "a", "b", "b"};
  of.of.ranks.resize(4);
  auto& links = of.job.links;
  links.latency_seconds.assign(4, std::vector<double>(4, 2e-6));
  links.bytes_per_second.assign(4, std::vector<double>(4, 5e9));
  for (std::size_t i = 0; i < 4; ++i)
    links.latency_seconds[i][i] = links.bytes_per_second[i][i] = 0;
  // While no other pair sends, a pair within a host has the same bandwidth, and a pair between
  // hosts has twice the bandwidth.
  links.latency_alone_seconds.assign(4, std::vector<double>(4));
  links.bytes_alone_per_second.assign(4, std::vector<double>(4));
  links.latency_alone_seconds[0][1] = links.latency_alone_seconds[0][2] = 2e-6;
  links.bytes_alone_per_second[0][1] = 5e9;
  links.bytes_alone_per_second[0][2] = 10e9;
  doctor::summarize(of, true);
  EXPECT_EQ(of.of.link_within_host, (plait::ext::machine_link{2e-6, 5e9, 1}));
  EXPECT_EQ(of.of.link_between_hosts, (plait::ext::machine_link{2e-6, 10e9, 2}));
}

TEST(doctor_results, speeds_of_ranks) {
  doctor::doctor_results of;
  of.job.hosts = {"a", "a", "a"};
  of.of.ranks.resize(3);
  of.job.work.push_back({.name = "products of float", .together = {10, 5, 11}});
  of.job.work.push_back({.name = "products of double", .together = {10, 7, 10}});
  of.job.work.push_back({.name = "copies", .together = {10, 1, 10}});
  doctor::summarize(of, false);
  EXPECT_EQ(of.of.ranks[0].speed, 1.0);
  EXPECT_NEAR(of.of.ranks[1].speed.value(), 0.6, 1e-12);
  EXPECT_FALSE(of.of.quiet);
}

TEST(doctor_results, rank_awaited) {
  EXPECT_EQ(doctor::rank_awaited_in("rank 0 on host vm: barrier on group {0,1} (data) has waited "
                                    "5000 ms for rank 12 on host vm (Gloo)"),
            12);
  EXPECT_EQ(doctor::rank_awaited_in("gloo: rank 0: rank 3 has not come to rendezvous folder"), 3);
  EXPECT_EQ(doctor::rank_awaited_in("rank 0: the disk is full"), -1);
  EXPECT_EQ(doctor::rank_awaited_in(" for rank 99999999999999999999 "), -1);
  EXPECT_EQ(doctor::rank_awaited_in("rank"), -1);
}

TEST(doctor_results, products_fit_into_half_of_the_memory) {
  std::vector<plait::ext::host_settings> all(2);
  for (auto& one : all) one.memory_bytes = std::uint64_t{16} << 30;
  // 8 bytes for each of 2 ranks and of 4096 x 50304 + 4096 x 768 + 768 x 50304 elements: 3.7 GiB.
  EXPECT_NO_THROW(doctor::require_room({{4096, 50304, 768}}, all));
  for (auto const& one : {plait::ext::product_shape{40960, 50304, 768},
                          plait::ext::product_shape{1000000000000, 1000000000000, 1}})
    EXPECT_THROW(doctor::require_room({one}, all), doctor::usage_error);
}

TEST(doctor_results, threads_that_the_environment_states) {
  for (char const* const name : {"OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS"}) {
    auto const* const before = std::getenv(name);
    std::string const kept = before != nullptr ? before : "";
    ::unsetenv("OPENBLAS_NUM_THREADS");
    EXPECT_EQ(doctor::stated_blas_threads(), 1u);
    ::setenv(name, "7", 1);
    EXPECT_EQ(doctor::stated_blas_threads(), 7u);
    ::setenv(name, "many", 1);
    EXPECT_EQ(doctor::stated_blas_threads(), 1u);
    if (before != nullptr) ::setenv(name, kept.c_str(), 1);
    else ::unsetenv(name);
  }
}

}  // namespace
