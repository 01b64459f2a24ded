// SPDX-License-Identifier: Apache-2.0
// test: libs=checkpoint
#include "plait/checkpoint/manifest_text.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace {

using plait::ext::checkpoint_block;
using plait::ext::checkpoint_crc;
using plait::ext::checkpoint_manifest;
using plait::ext::parse_manifest;
using plait::ext::to_text;

using sizes = std::vector<std::size_t>;

// Returns a manifest of two ranks: a matrix cut by columns, a vector on one rank, a scalar, and a
// tensor without elements.
checkpoint_manifest example() {
  return {.step = 200,
          .samples = 12800,
          .settings = {{"seed", "7"}, {"global_batch", "64"}, {"optimizer", "adamw \"0.9\""}},
          .job = "gpt",
          .tensors = {{"wte.weight", {3, 4}, "F32"},
                      {"h.0.b", {5}, "BF16"},
                      {"scale", {}, "F64"},
                      {"none", {0, 2}, "F32"}},
          .blocks = {{"rank-0.safetensors", "wte.weight", {0, 0}, {3, 3}, 0x0123abcd},
                     {"rank-1.safetensors", "wte.weight", {0, 3}, {3, 1}, 0xffffffff},
                     {"rank-0.safetensors", "h.0.b", {0}, {5}, 0},
                     {"rank-1.safetensors", "scale", {}, {}, 9}},
          .extra = {std::byte{0x00}, std::byte{0xa5}}};
}

std::string refusal(std::function<void()> const& call) {
  try {
    call();
  } catch (plait::input_error const& problem) {
    std::string const text = problem.what(), start = "checkpoint manifest 'plait.json'";
    EXPECT_TRUE(text.starts_with(start)) << text;
    return text.substr(start.size());
  }
  return "no input_error";
}

std::string refusal_of(checkpoint_manifest const& manifest) {
  return refusal([&] { (void)to_text(manifest); });
}

std::string refusal_of_text(std::string const& text) {
  return refusal([&] { (void)parse_manifest(text); });
}

// Returns a text, followed by its checksum.
std::string sealed(std::string const& body) {
  return body + plait::detail::manifest_tail(plait::detail::crc_of_text(body));
}

// Returns the example's text with `to` in place of `from`, and a new checksum.
std::string changed(std::string const& from, std::string const& to) {
  std::string text = to_text(example());
  text.resize(text.size() - plait::detail::manifest_tail(0).size());
  auto const at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return sealed(text.replace(at, from.size(), to));
}

TEST(Checksum, IsThatOfZlib) {
  std::string_view const text = "123456789";
  auto const bytes = std::as_bytes(std::span(text));
  EXPECT_EQ(checkpoint_crc(bytes), 0xcbf43926u);
  EXPECT_EQ(checkpoint_crc(bytes.subspan(4), checkpoint_crc(bytes.first(4))), 0xcbf43926u);
  EXPECT_EQ(checkpoint_crc(std::span<std::byte const>{}), 0u);
}

TEST(Checksum, OfATensorCoversItsBytes) {
  auto const path = std::filesystem::temp_directory_path() /
                    ("plait_checksum_" + std::to_string(::getpid()) + ".safetensors");
  std::vector<float> values(600'000);  // more than one read takes
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  {
    plait::safetensors_writer writer(
        path, std::vector<plait::safetensors_entry>{{"a", plait::stored_type::f32, {1}},
                                                    {"b", plait::stored_type::f32, {600'000}},
                                                    {"c", plait::stored_type::f32, {0}}});
    writer.write("a", std::span(values).first(1));
    writer.write("b", std::span(values));
    writer.commit();
  }
  {
    plait::safetensors_reader const reader(path);
    EXPECT_EQ(checkpoint_crc(reader, "b"), checkpoint_crc(std::as_bytes(std::span(values))));
    EXPECT_EQ(checkpoint_crc(reader, "c"), 0u);
  }
  std::filesystem::remove(path);
}

TEST(Manifest, WhatIsWrittenIsReadBack) {
  EXPECT_EQ(parse_manifest(to_text(example())), example());
  EXPECT_EQ(parse_manifest(to_text({.job = "j"})), checkpoint_manifest{.job = "j"});
  std::string const text = to_text(example());
  EXPECT_EQ(to_text(parse_manifest(text)), text);
}

// Every later version reads format 1: this file is never changed.
TEST(Manifest, FormatOneIsRead) {
  char const* const tests = std::getenv("PLAIT_TESTS");
  auto const here = tests != nullptr ? std::filesystem::path(tests) / "checkpoint"
                                     : std::filesystem::path(__FILE__).parent_path();
  auto const folder = here / "fixtures" / "format_1";
  EXPECT_EQ(plait::ext::read_manifest(folder), example());
  std::ifstream file(folder / "plait.json", std::ios::binary);
  std::string const text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(to_text(example()), text);  // a manifest without ages still has this format
}

// A state that has been reset has another age than the step, which format 2 stores.
TEST(Manifest, FormatTwoHasAges) {
  auto aged = example();
  aged.ages = {{"h.0.b", 0}, {"wte.weight", 199}};
  char const* const tests = std::getenv("PLAIT_TESTS");
  auto const here = tests != nullptr ? std::filesystem::path(tests) / "checkpoint"
                                     : std::filesystem::path(__FILE__).parent_path();
  auto const folder = here / "fixtures" / "format_2";
  EXPECT_EQ(plait::ext::read_manifest(folder), aged);
  std::ifstream file(folder / "plait.json", std::ios::binary);
  std::string const text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(to_text(aged), text);
  auto const with = [&](std::string const& ages, std::string const& other) {
    std::string out = text.substr(0, text.size() - plait::detail::manifest_tail(0).size());
    return refusal_of_text(sealed(out.replace(out.find(ages), ages.size(), other)));
  };
  EXPECT_EQ(with("\"wte.weight\": 199", "\"h.0.b\": 199"),
            " has the age of the tensor 'h.0.b' twice");
  EXPECT_EQ(with("\"h.0.b\": 0,", "\"h.0.c\": 0,"),
            " has the age of the tensor 'h.0.c', which it does not describe");
  EXPECT_EQ(with(": 199", ": 201"),
            " is of step 200, and has the age 201 of the tensor 'wte.weight'");
  EXPECT_EQ(with(": 199", ": -1"), " has an invalid value for the key 'wte.weight'");
  EXPECT_EQ(with("\"ages\"", "\"agos\""), " has the unknown key 'agos'");
  EXPECT_EQ(with("\"format\": 2", "\"format\": 1"), " has the unknown key 'ages'");
  EXPECT_EQ(refusal_of_text(changed("\"format\": 1", "\"format\": 2")), " has no key 'ages'");
}

TEST(Manifest, EveryChangedByteIsRefused) {
  std::string const text = to_text(example());
  for (std::size_t at = 0; at < text.size(); ++at)
    for (int const change : {0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0xff}) {
      std::string other = text;
      other[at] = static_cast<char>(other[at] ^ change);
      EXPECT_NE(refusal_of_text(other), "no input_error") << at << ": " << other[at];
    }
}

TEST(Manifest, EveryTruncationIsRefused) {
  std::string const text = to_text(example());
  for (std::size_t size = 0; size < text.size(); ++size)
    EXPECT_NE(refusal_of_text(text.substr(0, size)), "no input_error") << size;
  EXPECT_EQ(refusal_of_text(text.substr(0, text.size() - 1)).substr(0, 13), " is damaged: ");
  EXPECT_NE(refusal_of_text(text + " "), "no input_error");
}

TEST(Manifest, ANewerFormatSaysSo) {
  std::string const sentence =
      " has format 3, but this version of plait reads only formats 1 to 2; use a newer plait";
  EXPECT_EQ(refusal_of_text(changed("\"format\": 1", "\"format\": 3")), sentence);
  EXPECT_EQ(refusal_of_text("{\n\"format\": 3, \"and\": \"another\"} # end"), sentence);
  // A digit that the disk has changed is reported as damage, not as a newer format.
  std::string text = to_text(example());
  text.replace(text.find("1,"), 1, "2");
  EXPECT_EQ(refusal_of_text(text).substr(0, 13), " is damaged: ");
  EXPECT_EQ(refusal_of_text(""), " does not begin with the first line of a plait manifest");
  EXPECT_EQ(refusal_of_text("{}"), " does not begin with the first line of a plait manifest");
}

TEST(Manifest, OtherTextsAreRefused) {
  EXPECT_EQ(refusal_of_text(changed("\"samples\"", "\"sample\"")), " has the unknown key 'sample'");
  EXPECT_EQ(refusal_of_text(changed("\"samples\": 12800", "\"step\": 12800")),
            " has the key 'step' twice");
  EXPECT_EQ(refusal_of_text(changed("\"samples\": 12800,\n", "")), " has no key 'samples'");
  EXPECT_EQ(refusal_of_text(changed(",\"shape\":[5]", "")),
            " has a tensor without the key 'shape'");
  EXPECT_EQ(refusal_of_text(changed(",\"offset\":[0]", "")),
            " has a block without the key 'offset'");
  EXPECT_EQ(refusal_of_text(changed("\"seed\":", "\"global_batch\":")),
            " has the setting 'global_batch' twice");
  auto const value = [](std::string const& key) {
    return " has an invalid value for the key '" + key + "'";
  };
  for (std::string const other :
       {"-1", "1.0", "1e2", "\"200\"", "null", "true", "[200]", "{}", "9223372036854775808"})
    EXPECT_EQ(refusal_of_text(changed("\"step\": 200", "\"step\": " + other)), value("step"));
  for (std::string const other : {"1", "[]", "null"})
    EXPECT_EQ(refusal_of_text(changed("\"gpt\"", other)), value("job"));
  for (std::string const other : {"\"0\"", "\"0g\"", "\"A5\"", "1"})
    EXPECT_EQ(refusal_of_text(changed("\"00a5\"", other)), value("extra"));
  for (std::string const other : {"\"0123ABCD\"", "\"0123abcdef\"", "\"\"", "0"})
    EXPECT_EQ(refusal_of_text(changed("\"0123abcd\"", other)), value("crc32"));
  for (std::string const other : {"5", "[-5]", "[5.0]", "[[5]]", "{}", "[\"5\"]"})
    EXPECT_EQ(refusal_of_text(changed("\"shape\":[5]", "\"shape\":" + other)), value("shape"));
  EXPECT_EQ(refusal_of_text(changed("\"7\"", "7")), value("seed"));
  EXPECT_EQ(refusal_of_text(changed("\"tensors\": [\n{", "\"tensors\": [\n[],\n{")),
            value("tensors"));
  // This list has no end, so the key is within it.
  std::string const open = changed("\"tensors\": [\n{", "\"tensors\": [\n[{");
  std::string const blocks = "\"blocks\":";
  EXPECT_EQ(refusal_of_text(open),
            " is not JSON (at its byte " + std::to_string(open.find(blocks) + blocks.size()) + ")");
  EXPECT_NE(refusal_of_text(changed("[\n{", "{{")), "no input_error");
  std::string const zero = changed("gpt", std::string("g\0t", 3));
  EXPECT_EQ(refusal_of_text(zero),
            " is not JSON (at its byte " + std::to_string(zero.find('\0') + 1) + ")");
  std::string deep = "{\n\"format\": 1,\n\"settings\": ";
  for (int i = 0; i < 300'000; ++i) deep += "{\"a\":";
  EXPECT_NE(refusal_of_text(sealed(deep)), "no input_error");
  std::string lists(300'000, '[');
  lists.resize(600'000, ']');
  EXPECT_EQ(refusal_of_text(changed("\"7\"", lists)), value("seed"));
  EXPECT_EQ(refusal_of_text(changed("[5]", lists)), value("shape"));
  EXPECT_EQ(refusal_of_text(changed("[5]", "[18446744073709551616]")), value("shape"));
  EXPECT_EQ(refusal_of_text(changed("\"type\":\"BF16\"", "\"name\":\"BF16\"")),
            " has the key 'name' twice");
  EXPECT_EQ(refusal_of_text(changed("\"samples\"", "\"\\u0073tep\"")), " has the key 'step' twice");
  EXPECT_EQ(refusal_of_text(changed("\"step\": 200", "\"step\": 1e400")),
            " is not JSON (it has a number that is too large)");
  std::string const large = changed("\"gpt\"", "\"gpt\"" + std::string(100'000'000, ' '));
  EXPECT_EQ(refusal_of_text(large),
            " has " + std::to_string(large.size()) + " bytes; at most 100000000 are allowed");
}

TEST(Manifest, RulesNameTensorAndNumbers) {
  auto const with = [](std::function<void(checkpoint_manifest&)> const& change) {
    auto manifest = example();
    change(manifest);
    return refusal_of(manifest);
  };
  EXPECT_EQ(with([](auto& m) { m.step = -1; }), " is of step -1, which is negative");
  EXPECT_EQ(with([](auto& m) { m.job = ""; }), " does not name a job");
  EXPECT_EQ(with([](auto& m) { m.settings.push_back({"seed", "8"}); }),
            " has the setting 'seed' twice");
  EXPECT_EQ(with([](auto& m) { m.tensors[1].name = "wte.weight"; }),
            " has the tensor 'wte.weight' twice");
  EXPECT_EQ(with([](auto& m) { m.blocks[2].tensor = "h.1.b"; }),
            " has a block of the tensor 'h.1.b', which it does not describe");
  EXPECT_EQ(with([](auto& m) { m.tensors[1].type = "F31"; }),
            ": tensor 'h.0.b' has an unknown type, 'F31'");
  EXPECT_EQ(with([](auto& m) { m.tensors[1].shape = sizes(65, 1); }),
            ": tensor 'h.0.b' has a shape of more than 64 sizes");
  EXPECT_EQ(with([](auto& m) { m.tensors[1].shape = {std::size_t{1} << 40, 1 << 30}; }),
            ": tensor 'h.0.b' is too large, its shape is (1099511627776, 1073741824)");
  EXPECT_EQ(with([](auto& m) { m.tensors[1].shape = {0, std::size_t{1} << 40, 1 << 30}; }),
            ": tensor 'h.0.b' is too large, its shape is (0, 1099511627776, 1073741824)");
  EXPECT_EQ(
      with([](auto& m) { m.blocks[1].offset = {1, 3}; }),
      ": tensor 'wte.weight' has the shape (3, 4), without a rectangle (3, 1) from (1, 3) on");
  EXPECT_EQ(with([](auto& m) { m.blocks[1].offset = {3}; }),
            ": tensor 'wte.weight' has the shape (3, 4), without a rectangle (3, 1) from (3) on");
  EXPECT_EQ(with([](auto& m) { m.blocks[1].extent = {3, 0}; }),
            ": tensor 'wte.weight' has an empty rectangle (3, 0) from (0, 3) on");
  EXPECT_EQ(with([](auto& m) { m.blocks[0].extent = {3, 2}; }),
            ": tensor 'wte.weight' has the shape (3, 4) and rectangles with 9 of its 12 elements");
  EXPECT_EQ(with([](auto& m) { m.blocks[0].extent = {3, 4}; }),
            ": tensor 'wte.weight' has the shape (3, 4) and rectangles with more than its 12 "
            "elements");
  EXPECT_EQ(with([](auto& m) { m.blocks[1].offset = {0, 2}; }),
            ": tensor 'wte.weight' has the shape (3, 4) , but its rectangles contain some of its "
            "elements twice and others not at all");
  EXPECT_EQ(with([](auto& m) { m.blocks[1].file = m.blocks[0].file; }),
            ": tensor 'wte.weight' has two rectangles in the file 'rank-0.safetensors'");
  EXPECT_EQ(with([](auto& m) { m.settings[0].second = "\xff"; }),
            " cannot be written: a name or a setting is not UTF-8");
  for (std::string const& name :
       {std::string(), std::string("/etc/passwd"), std::string("../a"), std::string(".."),
        std::string("."), std::string("a/b"), std::string("a\0b", 3), std::string("plait.json"),
        std::string("a b"), std::string("a\\b"), std::string("\xc3\xa4"), std::string(".hidden"),
        std::string(256, 'a')})
    EXPECT_NE(with([&](auto& m) { m.blocks[1].file = name; }).find("not a plain name"),
              std::string::npos)
        << name;
}

// Random cuts of a tensor cover it. With one block moved, shrunk or doubled they do not.
TEST(Manifest, CoverageIsExact) {
  std::uint64_t state = 1;
  auto const random = [&](std::size_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::size_t>(state >> 33) % below;
  };
  for (int round = 0; round < 60; ++round) {
    sizes shape(1 + random(4));
    for (auto& n : shape) n = 1 + random(6);
    std::vector<checkpoint_block> blocks{{"", "t", sizes(shape.size(), 0), shape, 0}};
    for (std::size_t cut = random(12); cut-- > 0;) {
      auto& one = blocks[random(blocks.size())];
      std::size_t const axis = random(shape.size());
      if (one.extent[axis] == 1) continue;
      auto rest = one;
      std::size_t const left = 1 + random(one.extent[axis] - 1);
      one.extent[axis] = left;
      rest.offset[axis] += left;
      rest.extent[axis] -= left;
      blocks.push_back(rest);
    }
    auto const refused = [&](std::vector<checkpoint_block> list) {
      for (std::size_t i = 0; i < list.size(); ++i) list[i].file = std::to_string(i);
      return refusal_of({.job = "j", .tensors = {{"t", shape, "F32"}}, .blocks = list});
    };
    EXPECT_EQ(refused(blocks), "no input_error");
    // The reference counts element by element.
    auto const counts_once = [&](std::vector<checkpoint_block> const& list) {
      std::size_t const all = plait::detail::elements_of(shape);
      std::vector<int> count(all, 0);
      for (auto const& one : list)
        plait::detail::for_each_run(shape, one.offset, one.extent,
                                    [&](std::size_t first, std::size_t n) {
                                      for (std::size_t i = 0; i < n; ++i) ++count[first + i];
                                    });
      return std::ranges::all_of(count, [](int n) { return n == 1; });
    };
    for (std::size_t i = 0; i < blocks.size(); ++i)
      for (std::size_t axis = 0; axis < shape.size(); ++axis)
        for (int const change : {0, 1, 2}) {
          auto other = blocks;
          auto& one = other[i];
          if (change == 0 && one.offset[axis] > 0) --one.offset[axis];
          if (change == 1 && one.offset[axis] + one.extent[axis] < shape[axis]) ++one.offset[axis];
          if (change == 2) one = blocks[random(blocks.size())];
          EXPECT_EQ(refused(other) == "no input_error", counts_once(other));
        }
  }
}

TEST(Manifest, ManyBlocksAreCheckedSoon) {
  auto const seconds = [](std::size_t rows) {
    checkpoint_manifest manifest{
        .job = "j", .tensors = {{"t", {2 * rows, 500}, "F32"}}, .blocks = {}};
    for (std::size_t row = 0; row < rows; ++row)
      for (std::size_t column = 0; column < 100; ++column)
        manifest.blocks.push_back(
            {std::to_string(manifest.blocks.size()), "t", {2 * row, 5 * column}, {2, 5}, 0});
    auto const before = std::clock();
    plait::detail::check_manifest(manifest, plait::detail::manifest_name("plait.json"));
    return static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
  };
  // Four times as many tensors take less processor time than a quadratic algorithm would take.
  double few = 1, many = 1;
  for (int i = 0; i < 3; ++i) few = std::min(few, seconds(50)), many = std::min(many, seconds(200));
  EXPECT_LT(many, 10 * few) << "for 5000 blocks " << few << " s";
  sizes const cut(7, 2), one(7, 1), none(7, 0);
  EXPECT_EQ(refusal_of({.job = "j",
                        .tensors = {{"t", cut, "F32"}},
                        .blocks = {{"a", "t", none, one, 0}, {"b", "t", one, one, 0}}})
                .substr(0, 30),
            ": tensor 't' has the shape (2,");
  std::vector<checkpoint_block> corners;
  for (std::size_t i = 0; i < 128; ++i) {
    sizes offset(7);
    for (std::size_t axis = 0; axis < 7; ++axis) offset[axis] = i >> axis & 1;
    corners.push_back({std::to_string(i), "t", offset, one, 0});
  }
  EXPECT_EQ(refusal_of({.job = "j", .tensors = {{"t", cut, "F32"}}, .blocks = corners}),
            ": tensor 't' is cut along 7 dimensions; at most 6 are allowed");
}

TEST(Manifest, DifferencesAreSentences) {
  using settings = std::vector<std::pair<std::string, std::string>>;
  settings const saved{{"seed", "7"}, {"global_batch", "64"}, {"schedule", ""}};
  auto const difference = [&](settings const& now, std::vector<std::string_view> const& allowed) {
    std::string all;
    for (auto const& one : plait::ext::differences(saved, now, allowed))
      all += (all.empty() ? "" : ", ") + one;
    return all.empty() ? "none" : all;
  };
  EXPECT_EQ(difference(saved, {}), "none");
  EXPECT_EQ(difference({{"schedule", ""}, {"global_batch", "64"}, {"seed", "7"}}, {}), "none");
  settings const other{{"global_batch", "32"}, {"schedule", "gpipe"}, {"seed", "7"}};
  EXPECT_EQ(difference(other, {}),
            "global_batch is 64 in the checkpoint and 32 now, schedule is '' in the checkpoint and "
            "gpipe now");
  EXPECT_EQ(difference(other, {"global_batch"}), "schedule is '' in the checkpoint and gpipe now");
  EXPECT_EQ(difference(other, {"global_batch", "schedule"}), "none");
  EXPECT_EQ(difference({{"seed", "7"}}, {"schedule"}),
            "global_batch is 64 in the checkpoint and not set now");
  settings more = saved;
  more.push_back({"line\nbreak", std::string(300, 'x')});
  EXPECT_EQ(difference(more, {}),
            "line\\nbreak is not set in the checkpoint and " + std::string(200, 'x') + "... now");
  EXPECT_EQ(difference(more, {"line\nbreak"}), "none");
}

TEST(Manifest, DifferencesNameAParameterThatMuonUpdatesOtherwise) {
  auto const difference = [](std::string const& saved, std::string const& now) {
    std::string all;
    for (auto const& one : plait::ext::differences({{"optimizer", "muon"}, {"matrices", saved}},
                                                   {{"optimizer", "muon"}, {"matrices", now}}))
      all += (all.empty() ? "" : ", ") + one;
    return all;
  };
  std::string const both = "matrix a.weight\nelements a.bias\nelements b.weight\n";
  EXPECT_EQ(difference(both, both), "");
  EXPECT_EQ(
      difference(both, "matrix a.weight\nelements a.bias\nmatrix b.weight\n"),
      "matrices of muon selects other parameters: 'b.weight' is updated element by element in "
      "the checkpoint and as a whole matrix now");
  EXPECT_EQ(difference(both, "elements a.weight\nelements a.bias\nmatrix b.weight\n"),
            "matrices of muon selects other parameters: 'a.weight' is updated as a whole matrix in "
            "the checkpoint and element by element now; parameters that differ: 2");
  // The setting `model` compares the parameters that only one of the models has.
  EXPECT_EQ(difference(both, both + "matrix c.weight\n"), "");
  EXPECT_EQ(difference(both, "matrix a.weight\nelements a.bias\n"), "");
}

}  // namespace
