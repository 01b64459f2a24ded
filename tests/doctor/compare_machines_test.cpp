// SPDX-License-Identifier: Apache-2.0
// test: libs=machine
#include "plait/doctor/compare_machines.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "doctor/random_machine.hpp"

namespace {

using plait::ext::compare_machines;
using plait::ext::machine;
using random_machine::complete;

TEST(CompareMachines, AMachineHasNotFallenBehindItself) {
  random_machine::generator random(1);
  for (int i = 0; i < 50; ++i) {
    auto machine = random.make();
    machine.quiet = true;
    auto const same = compare_machines(machine, machine);
    EXPECT_TRUE(same.fallen.empty());
    EXPECT_TRUE(same.notes.empty()) << same.notes[0];
    EXPECT_GE(same.compared, 3 * machine.hosts.size());
  }
  EXPECT_EQ(compare_machines(complete(), complete()).compared, 40u);
}

struct change {
  std::string name;
  std::function<double&(machine&)> number;
  bool is_time = false;
};

// Makes each kind of number better, a bit less than 10 % worse, and a bit more than 10 % worse.
TEST(CompareMachines, NumbersThatFellByMoreThanATenthAreNamed) {
  std::vector<change> const changes{
      {"ranks[1].speed", [](machine& of) -> double& { return *of.ranks[1].speed; }},
      {"memory_bytes_per_second",
       [](machine& of) -> double& { return *of.memory_bytes_per_second; }},
      {"element_types[float].products[512x512x512].flop_per_second",
       [](machine& of) -> double& { return of.element_types[0].products[1].flop_per_second; }},
      {"element_types[float].products[512x512x512 a transposed].flop_per_second",
       [](machine& of) -> double& { return of.element_types[0].products[3].flop_per_second; }},
      {"element_types[float].attentions[64].flop_per_second",
       [](machine& of) -> double& { return of.element_types[0].attentions[0].flop_per_second; }},
      {"element_types[float].row_bytes_per_second",
       [](machine& of) -> double& { return *of.element_types[0].row_bytes_per_second; }},
      {"element_types[float].optimizer_bytes_per_second",
       [](machine& of) -> double& { return *of.element_types[0].optimizer_bytes_per_second; }},
      {"element_types[float].seconds_per_operation",
       [](machine& of) -> double& { return *of.element_types[0].seconds_per_operation; }, true},
      {"link_within_host.latency_seconds",
       [](machine& of) -> double& { return of.link_within_host->latency_seconds; }, true},
      {"link_between_hosts.bytes_per_second",
       [](machine& of) -> double& { return of.link_between_hosts->bytes_per_second; }},
      {"link_latency_seconds[0][2]",
       [](machine& of) -> double& { return of.link_latency_seconds[0][2]; }, true},
      {"link_bytes_per_second[3][2]",
       [](machine& of) -> double& { return of.link_bytes_per_second[3][2]; }},
      {"collectives[all_reduce world].times[1024].seconds",
       [](machine& of) -> double& { return of.collectives[0].times[1].seconds; }, true},
      {"collectives[all_gather host].times[1048576].seconds",
       [](machine& of) -> double& { return of.collectives[1].times[1].seconds; }, true}};
  auto const before = complete();
  for (auto const& [name, number, is_time] : changes)
    for (double const speed : {0.25, 0.89, 0.91, 1.0, 4.0}) {
      auto now = before;
      double const old = number(now);
      number(now) = is_time ? old / speed : old * speed;
      auto const result = compare_machines(before, now);
      EXPECT_EQ(result.compared, 40u);
      ASSERT_EQ(result.fallen.size(), speed < 0.9 ? 1u : 0u) << name;
      if (speed >= 0.9) continue;
      EXPECT_EQ(result.fallen[0].name, name);
      EXPECT_EQ(result.fallen[0].before, old);
      EXPECT_EQ(result.fallen[0].now, number(now));
      EXPECT_DOUBLE_EQ(result.fallen[0].ratio, speed);
      EXPECT_TRUE(result.notes.empty());
    }
  auto now = before;
  now.hosts[1].devices = 1;
  now.hosts[0].memory_bytes /= 2;
  auto const fallen = compare_machines(before, now).fallen;
  ASSERT_EQ(fallen.size(), 2u);
  EXPECT_EQ(fallen[0].name, "hosts[a].memory_bytes");
  EXPECT_EQ(fallen[1], (plait::ext::fallen_number{"hosts[b].devices", 2, 1, 0.5}));
}

TEST(CompareMachines, ElementsAreComparedWithTheirLike) {
  auto const before = complete();
  auto now = before;
  std::swap(now.hosts[0], now.hosts[1]);
  std::swap(now.element_types[0].products[0], now.element_types[0].products[3]);
  std::swap(now.collectives[0], now.collectives[1]);
  auto const result = compare_machines(before, now);
  EXPECT_TRUE(result.fallen.empty());
  EXPECT_EQ(result.compared, 40u);
}

TEST(CompareMachines, MissingNumbersAreCounted) {
  auto const before = complete();
  auto now = before;
  now.element_types[0].products.resize(2);
  now.element_types[0].attentions.push_back({128, 1e10});
  now.link_between_hosts.reset();
  now.backend = "gloo";
  now.quiet = false;
  auto const result = compare_machines(before, now);
  EXPECT_EQ(result.compared, 36u);
  EXPECT_EQ(result.notes, (std::vector<std::string>{
                              "the backend was 'mpi' before and is 'gloo' now",
                              "the machine is not quiet now: other processes use its processors",
                              "numbers that were measured only before: 4",
                              "numbers that were measured only now: 1"}));
}

TEST(CompareMachines, OtherRanksAreNotCompared) {
  auto const before = complete();
  auto now = before;
  now.ranks[1].host = "b";
  now.ranks[1].speed = 0.5;
  now.link_latency_seconds[0][1] = 1;
  auto const result = compare_machines(before, now);
  EXPECT_TRUE(result.fallen.empty());
  ASSERT_EQ(result.notes.size(), 1u);
  EXPECT_EQ(
      result.notes[0],
      "numbers of ranks and of links between two ranks were not compared, because the ranks or "
      "their hosts are not the same");
  now.ranks = before.ranks;
  now.ranks.pop_back();
  EXPECT_EQ(compare_machines(before, now).notes.size(), 1u);
}

TEST(CompareMachines, TheTableHasARowForEachNumber) {
  auto const before = complete();
  auto now = before;
  EXPECT_EQ(to_text(compare_machines(before, now)), "0 of 40 numbers fell by more than 10 %.\n");
  now.element_types[0].products[1].flop_per_second = 4e10;
  now.collectives[0].times[0].seconds = 5e-5;
  now.hosts[1].name = now.ranks[2].host = now.ranks[3].host = "\x1b";
  EXPECT_EQ(
      to_text(compare_machines(before, now)),
      "2 of 21 numbers fell by more than 10 %:\n"
      "  number                                                      before  now    speed\n"
      "  element_types[float].products[512x512x512].flop_per_second  8e+10   4e+10  0.5\n"
      "  collectives[all_reduce world].times[4].seconds              2e-05   5e-05  0.4\n"
      "Note: numbers of ranks and of links between two ranks were not compared, because the ranks "
      "or their hosts are not the same.\n"
      "Note: numbers that were measured only before: 3.\n"
      "Note: numbers that were measured only now: 3.\n");
}

}  // namespace
