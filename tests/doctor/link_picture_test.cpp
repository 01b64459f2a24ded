// SPDX-License-Identifier: Apache-2.0
// test: libs=doctor
#include "plait/doctor/link_picture.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "doctor/planted_speeds.hpp"
#include "plait/core/error.hpp"
#include "plait/doctor/link_picture_parts.hpp"
#include "plait/doctor/speed_rules.hpp"
#include "plan/xml_fault.hpp"

namespace {

using plait::detail::doctor::colour_scale;
using plait::detail::doctor::drawing_of_links;
using plait::detail::doctor::ordered_links;
using plait::ext::finding;
using plait::ext::link_digits;
using plait::ext::link_svg;
using plait::ext::machine;

machine machine_of(plait::ext::measured_job const& job, std::string const& prefix = "node-") {
  machine out{.name = "desk", .date = "2026-11-30T09:15:00Z", .backend = "gloo"};
  for (auto const& host : job.hosts) out.ranks.push_back({.host = prefix + host});
  out.link_latency_seconds = job.links.latency_seconds;
  out.link_bytes_per_second = job.links.bytes_per_second;
  return out;
}

struct pictured {
  std::string name{};
  machine of{};
  std::vector<finding> findings{};
};

// Pictures of 1 to 300 ranks, with and without findings.
std::vector<pictured> pictures() {
  std::vector<pictured> out;
  auto const add = [&](std::string const& name, std::size_t ranks, std::size_t hosts,
                       std::string const& prefix, auto const& which) {
    auto job = planted::speeds(ranks, hosts, 0, 0.1);
    planted::slow_down(job, 2.5, true, [&](auto a, auto b) { return which(job, a, b); });
    out.push_back({name, machine_of(job, prefix), plait::ext::check_speeds(job)});
  };
  auto const none = [](auto const&, auto, auto) { return false; };
  auto const pair = [](auto const&, auto a, auto b) { return a == 0 && b == 1; };
  auto const host = [](auto const& job, auto a, auto b) {
    return (job.hosts[a] == "b") != (job.hosts[b] == "b");
  };
  std::string const is_long(200, 'm');
  add("one", 1, 1, "node-", none);
  add("two", 2, 2, "node-", pair);
  add("two on a host", 2, 1, "", none);
  add("eight, a slow pair", 8, 2, "node-", pair);
  add("eight hosts, a slow one", 8, 8, "node-", host);
  add("long names", 8, 2, is_long, pair);
  add("XML", 8, 4, "<&\"'>", host);
  add("sixteen", 16, 4, "node.example.org ", host);
  add("sixty-four, a slow host", 64, 8, "node-", host);
  add("sixty-four, long names", 64, 4, is_long, pair);
  add("three hundred", 300, 3, "node-", pair);
  auto many = planted::speeds(64, 1, 0, 0.1);
  for (std::size_t i = 0; i < 64; ++i) many.hosts[i] = "node-" + std::to_string(i);
  out.push_back({"sixty-four hosts", machine_of(many), plait::ext::check_speeds(many)});
  out.push_back({"one matrix", out[3].of, out[3].findings});
  out.back().of.link_latency_seconds.clear();
  out.back().of.name.assign(300, 'w');
  out.push_back({"nothing", {}, {}});
  return out;
}

TEST(LinkDigits, AreTenthsOfTheBest) {
  // example-begin digits
  plait::ext::machine of;
  of.ranks = {{.host = "a"}, {.host = "a"}, {.host = "b"}};
  of.link_bytes_per_second = {{0, 8e9, 1e9}, {8e9, 0, 1e9}, {1e9, 4e9, 0}};
  // Bandwidth in tenths of the best, 8 GB/s; rows send, columns receive:
  //          0  1   2
  //   a   0   -  9   1
  //       1   9  -   1
  //   b   2   1  5   -
  std::string const text = plait::ext::link_digits(of);
  // example-end
  EXPECT_EQ(text,
            "Bandwidth in tenths of the best, 8 GB/s; rows send, columns receive:\n"
            "          0  1   2\n"
            "  a   0   -  9   1\n"
            "      1   9  -   1\n"
            "  b   2   1  5   -\n"
            "\n"
            "Latency: not measured\n"
            "\n"
            "9 means 90 to 100 %, and '.' a pair that was not measured.\n");
}

TEST(LinkDigits, HaveLatenciesAndRanksByHost) {
  machine of;
  of.ranks = {{.host = "a"}, {.host = "b\n"}, {.host = "a"}};
  of.link_latency_seconds = {{0, 30e-6, 5e-6}, {40e-6, 0, 0}, {6e-6, 50e-6, 0}};
  EXPECT_EQ(link_digits(of),
            "Bandwidth: not measured\n"
            "\n"
            "Speed of short messages in tenths of the best, a latency of 5 us; rows send, columns "
            "receive:\n"
            "            0  2   1\n"
            "  a     0   -  9   1\n"
            "        2   8  -   1\n"
            "  b\\n   1   1  .   -\n"
            "\n"
            "9 means 90 to 100 %, and '.' a pair that was not measured.\n");
}

TEST(LinkDigits, OfMoreThan16RanksAreASentence) {
  auto const sixteen = link_digits(machine_of(planted::speeds(16, 4)));
  EXPECT_EQ(std::count(sixteen.begin(), sixteen.end(), '\n'), 2 * 18 + 3);
  EXPECT_EQ(link_digits(machine_of(planted::speeds(17, 1))),
            "The links between 17 ranks are too many for a terminal; draw them with --svg FILE.\n");
  EXPECT_EQ(link_digits({}), "The links between ranks were not measured.\n");
  EXPECT_EQ(link_digits({.ranks = {{.host = "a"}, {.host = "b"}}}),
            "The links between ranks were not measured.\n");
}

TEST(LinkDigits, HaveLinesOfOneLength) {
  for (std::string const prefix : {"", "node-", "a long name of a host, with 40 characters"}) {
    auto const text = link_digits(machine_of(planted::speeds(12, 3), prefix));
    std::set<std::size_t> lengths;
    for (std::size_t at = 0; at < text.size();) {
      auto const line = text.substr(at, text.find('\n', at) - at);
      if (line.starts_with("  ")) lengths.insert(line.size());
      at += line.size() + 1;
    }
    EXPECT_EQ(lengths.size(), 1u) << text;
    EXPECT_LE(*lengths.begin(), 80u) << text;
  }
}

std::string message(auto const& call) {
  try {
    (void)call();
  } catch (plait::input_error const& problem) {
    return problem.what();
  }
  return "no error";
}

TEST(LinkPicture, RefusesMatricesThatDoNotFit) {
  auto const healthy = machine_of(planted::speeds(4, 2));
  auto of = healthy;
  of.link_bytes_per_second.pop_back();
  EXPECT_EQ(message([&] { return link_digits(of); }),
            "machine: link_bytes_per_second has 3 rows, and ranks has 4 elements; give one for "
            "each rank, or no matrix");
  EXPECT_EQ(message([&] { return link_svg(of, {}); }), message([&] { return link_digits(of); }));
  of = healthy;
  of.link_latency_seconds[1].resize(9);
  EXPECT_EQ(message([&] { return link_svg(of, {}); }),
            "machine: link_latency_seconds[1] has 9 columns, and ranks has 4 elements; give one "
            "for each rank, or no matrix");
  of = healthy;
  of.link_latency_seconds[1][0] = std::nan("");
  EXPECT_EQ(message([&] { return link_digits(of); }),
            "machine::link_latency_seconds[1][0] is nan; it must be a finite number from 0 on");
  EXPECT_EQ(message([&] { return link_digits(healthy); }), "no error");
}

// The areas of the matrices: all tiles that begin at "M" in the paths of the picture.
struct box {
  int x, y, width, height;
  std::string fill;
};
std::vector<box> tiles_of(std::string const& svg) {
  std::vector<box> out;
  std::string const begin = "<path fill=\"";
  for (auto at = svg.find(begin); at != svg.npos; at = svg.find(begin, at + 1)) {
    auto const fill = svg.substr(at + begin.size(), 7);
    auto const end = svg.find("\"/>", at);
    for (auto tile = svg.find('M', at); tile < end; tile = svg.find('M', tile + 1)) {
      box one{.x = 0, .y = 0, .width = 0, .height = 0, .fill = fill};
      EXPECT_EQ(
          std::sscanf(svg.c_str() + tile, "M%d %dh%dv%d", &one.x, &one.y, &one.width, &one.height),
          4);
      out.push_back(one);
    }
  }
  return out;
}

TEST(LinkPicture, HasAllTextsWithinThePictureAndNoneOverAnother) {
  for (auto const& [name, of, findings] : pictures()) {
    auto const picture = drawing_of_links(of, findings);
    auto const& texts = picture.texts();
    ASSERT_FALSE(texts.empty());
    for (std::size_t i = 0; i < texts.size(); ++i) {
      auto const& text = texts[i];
      EXPECT_GE(text.x, 0) << name << ": " << text.text;
      EXPECT_GE(text.y, 0) << name << ": " << text.text;
      EXPECT_LE(text.x + text.width, picture.width()) << name << ": " << text.text;
      EXPECT_LE(text.y + text.height, picture.height()) << name << ": " << text.text;
      for (std::size_t j = 0; j < i; ++j) {
        auto const& other = texts[j];
        bool const apart = text.x + text.width <= other.x || other.x + other.width <= text.x ||
                           text.y + text.height <= other.y || other.y + other.height <= text.y;
        EXPECT_TRUE(apart) << name << ": '" << text.text << "' covers '" << other.text << "'";
      }
    }
    for (auto const& tile : tiles_of(link_svg(of, findings))) {
      ASSERT_GE(tile.x, 0) << name;
      ASSERT_LE(tile.x + tile.width, picture.width()) << name;
      ASSERT_LE(tile.y + tile.height, picture.height()) << name;
    }
  }
}

TEST(LinkPicture, HasASquareForEachPairInTheColourOfTheScale) {
  for (auto const& [name, of, findings] : pictures()) {
    auto const ranks = of.ranks.size();
    if (ranks < 2 || ranks > 256) continue;
    auto const tiles = tiles_of(link_svg(of, {}));
    colour_scale const scale(of.link_bytes_per_second, true);
    std::size_t squares = 0;
    for (std::size_t level = 0; level < colour_scale::levels; ++level) {
      std::size_t expected = 0;
      for (auto const& row : of.link_bytes_per_second)
        for (double const value : row) expected += value > 0 && scale.level(value) == level;
      squares += expected;
      if (!of.link_latency_seconds.empty()) continue;
      auto const drawn = std::count_if(tiles.begin(), tiles.end(), [&](auto const& each) {
        return each.fill == colour_scale::colour_of(level) && each.width == each.height;
      });
      EXPECT_EQ(static_cast<std::size_t>(drawn), expected) << name;
    }
    EXPECT_EQ(squares, ranks * (ranks - 1));
    auto const all = std::count_if(tiles.begin(), tiles.end(),
                                   [](auto const& each) { return each.width == each.height; });
    // Each matrix has all squares. A matrix without numbers has an explanation of its grey squares.
    bool const is_one = of.link_latency_seconds.empty();
    EXPECT_EQ(static_cast<std::size_t>(all), 2 * squares + (is_one ? 1 : 0)) << name;
  }
}

TEST(LinkPicture, ScaleHasTheBestAndTheWorstNumber) {
  colour_scale const rates({{0, 8e9}, {1e9, 0}}, true);
  EXPECT_EQ(rates.level(8e9), 0u);
  EXPECT_EQ(rates.level(1e9), colour_scale::levels - 1);
  EXPECT_DOUBLE_EQ(rates.value_at(0), 8e9);
  EXPECT_NEAR(rates.value_at(1), 1e9, 1);
  EXPECT_NEAR(rates.value_at(0.5), std::sqrt(8.0) * 1e9, 1);
  colour_scale const times({{0, 1e-6}, {1.1e-6, 0}}, false);
  EXPECT_EQ(times.level(1e-6), 0u);
  EXPECT_EQ(times.level(1.1e-6), 1u);  // The scale has a factor of 2.
  EXPECT_NEAR(times.value_at(1), 2e-6, 1e-12);
  EXPECT_TRUE(colour_scale({}, true).is_empty());
  EXPECT_TRUE(colour_scale({{0, 0}, {0, 0}}, true).is_empty());
  // Each colour is darker than the previous one.
  auto const sum = [](std::size_t level) {
    std::string_view const text = colour_scale::colour_of(level);
    long out = 0;
    for (std::size_t i = 1; i < 7; i += 2)
      out += std::stol(std::string(text.substr(i, 2)), nullptr, 16);
    return out;
  };
  for (std::size_t level = 1; level < colour_scale::levels; ++level)
    EXPECT_LT(sum(level), sum(level - 1) - 30);
}

// The pairs that are marked, as sender * ranks + receiver.
std::set<std::size_t> marked(ordered_links const& links, std::vector<finding> const& findings,
                             bool is_time = false) {
  auto const pairs = links.pairs_of(findings, is_time);
  std::set<std::size_t> out;
  for (std::size_t i = 0; i < pairs.size(); ++i)
    if (pairs[i] != 0) out.insert(i);
  return out;
}

TEST(LinkPicture, MarksThePairsOfFindings) {
  auto job = planted::speeds(8, 4, 0, 0.05);
  auto const healthy = machine_of(job);
  planted::slow_down(job, 3, true, [](auto a, auto b) { return a == 0 && b == 5; });
  job.links.latency_seconds[6][7] = 90e-6;
  auto const of = machine_of(job);
  ordered_links const links(of);
  auto const findings = plait::ext::check_speeds(job);
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(marked(links, findings), (std::set<std::size_t>{0 * 8 + 5}));
  EXPECT_EQ(marked(links, findings, true), (std::set<std::size_t>{6 * 8 + 7}));
  // Without slow numbers, all pairs of a finding are marked.
  ordered_links const fine(healthy);
  auto const about = [](char const* id, std::vector<int> ranks, char const* host) {
    return std::vector<finding>{{.id = id, .ranks = std::move(ranks), .host = host}};
  };
  EXPECT_EQ(marked(fine, about("slow-pair", {0, 5}, "")), (std::set<std::size_t>{5, 40}));
  EXPECT_EQ(marked(fine, about("slow-pair", {3}, "")).size(), 14u);
  EXPECT_EQ(marked(fine, about("slow-host", {2, 3, 4, 5}, "")).size(), 8u);
  EXPECT_EQ(marked(fine, about("slow-host", {2, 3}, "b")).size(), 26u);
  EXPECT_EQ(marked(fine, about("shared-link", {0, 1, 2}, "")).size(), 4u);
  EXPECT_TRUE(marked(fine, about("slow-rank", {3}, "b")).empty());
  EXPECT_TRUE(marked(fine, about("slow-pair", {-1, 99}, "b")).empty());
}

TEST(LinkPicture, DrawsOutlinesOfMarkedAreas) {
  auto job = planted::speeds(16, 4, 0, 0.05);
  planted::slow_down(job, 3, true, [](auto a, auto b) { return a / 4 == 1 && b / 4 == 2; });
  auto const of = machine_of(job);
  auto const svg = link_svg(of, plait::ext::check_speeds(job));
  // The area of 4 x 4 squares of 30 pixels has four edges of 4 squares; the legend has one square.
  std::vector<box> edges, sample;
  for (auto const& tile : tiles_of(svg))
    if (tile.fill == "#d95f02") (tile.width == 14 ? sample : edges).push_back(tile);
  ASSERT_EQ(edges.size(), 16u);
  EXPECT_EQ(sample.size(), 1u);
  auto const [left, right] = std::minmax_element(
      edges.begin(), edges.end(), [](auto const& a, auto const& b) { return a.x < b.x; });
  EXPECT_EQ(right->x + right->width - left->x, 4 * 30);
  EXPECT_NE(svg.find(">pairs of a finding</text>"), std::string::npos);
  auto const without = link_svg(of, {});
  EXPECT_EQ(without.find("#d95f02"), std::string::npos);
  EXPECT_EQ(without.find(">pairs of a finding</text>"), std::string::npos);
}

TEST(LinkPicture, EscapesNamesAndCutsLongOnes) {
  auto of = machine_of(planted::speeds(2, 2), "<&\"'>");
  of.name = "</text><script>";
  auto const svg = link_svg(of, {});
  EXPECT_NE(svg.find("&lt;&amp;&quot;&#39;&gt;a"), std::string::npos);
  EXPECT_NE(svg.find("&lt;/text&gt;&lt;script&gt;"), std::string::npos);
  for (auto const* const word : {"<script", "<style", "<image", "href", "url(", "<foreignObject"})
    EXPECT_EQ(svg.find(word), std::string::npos) << word;
  EXPECT_EQ(svg.find("http", svg.find("http") + 1), std::string::npos);
  auto const same_beginning = machine_of(planted::speeds(4, 2), "a-very-long-name-of-a-host-");
  EXPECT_NE(link_svg(same_beginning, {}).find(">...b</text>"), std::string::npos);
  EXPECT_NE(link_digits(same_beginning).find("  ...b"), std::string::npos);
  auto other = same_beginning;
  other.ranks[0].host = "b";
  EXPECT_NE(link_svg(other, {}).find("<title>a-very-long-name-of-a-host-b</title>"),
            std::string::npos);
  EXPECT_NE(link_digits(other).find("a-very-long-name-of-a..."), std::string::npos);
  // A name that is the beginning of all others keeps its last character.
  other.ranks = {{.host = "node-of-a-cluster-9"},
                 {.host = "node-of-a-cluster-91"},
                 {.host = "node-of-a-cluster-9123"},
                 {.host = "node-of-a-cluster-9"}};
  EXPECT_NE(link_digits(other).find("...9123"), std::string::npos);
}

TEST(LinkPicture, IsWellFormedAndTheSameEachTime) {
  for (auto const& [name, of, findings] : pictures()) {
    auto const svg = link_svg(of, findings);
    EXPECT_EQ(xml_reader::fault_of(svg), "") << name;
    EXPECT_EQ(svg, link_svg(of, findings));
  }
}

}  // namespace
