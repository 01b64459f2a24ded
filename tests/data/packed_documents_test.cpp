// SPDX-License-Identifier: Apache-2.0
// Samples that consist of several documents: which targets the loss ignores, the numbers of the
// documents, and the positions that batches get.
#include "plait/data/packed_documents.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <unistd.h>

#include "plait/data/adaptor.hpp"
#include "plait/data/byte_text.hpp"
#include "plait/data/loader.hpp"
#include "plait/data/map.hpp"
#include "plait/data/mix.hpp"
#include "plait/data/split_data.hpp"
#include "plait/data/take.hpp"
#include "plait/data/token_shards.hpp"

namespace {

using numbers = std::vector<std::int32_t>;
constexpr std::int32_t ignored = plait::ext::ignored_target;

template <class Data>
numbers inputs(Data const& data, std::size_t sample) {
  numbers out(data.sequence_length());
  data.inputs(sample, out);
  return out;
}
template <class Data>
numbers targets(Data const& data, std::size_t sample) {
  numbers out(data.sequence_length());
  data.targets(sample, out);
  return out;
}
template <class Data>
numbers documents(Data const& data, std::size_t sample) {
  numbers out(data.sequence_length());
  plait::ext::write_documents(data, sample, 0, out);
  return out;
}
/// Returns the positions that a loader writes for a microbatch of one sample.
template <class Data>
numbers positions(Data const& data, std::size_t sample) {
  plait::ext::loader<Data> loader(data);
  numbers in(loader.inputs_per_sample()), to(in.size()), out(loader.positions_per_sample());
  std::size_t const samples[]{sample};
  loader.fill(samples, 1, {in, to, {}, out}, 0);
  return out;
}

template <class Error = plait::input_error, class Call>
std::string refusal(Call const& call) {
  try {
    call();
  } catch (Error const& problem) {
    return problem.what();
  }
  return "no error";
}

/// A file of 16-bit tokens.
std::filesystem::path file(std::string const& name, std::vector<std::uint16_t> const& tokens) {
  auto const path = std::filesystem::temp_directory_path() /
                    ("plait_packed_" + std::to_string(::getpid()) + name);
  std::vector<std::int32_t> header{20240520, 1, static_cast<std::int32_t>(tokens.size())};
  header.resize(256);
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<char const*>(header.data()), 1024);
  out.write(reinterpret_cast<char const*>(tokens.data()),
            static_cast<std::streamsize>(2 * tokens.size()));
  return path;
}

// The documents are "5 6 0", "7 0", "8 9 5 0" and "6 7": tokens in two files, 0 ends a document.
struct Packed : testing::Test {
  std::filesystem::path const first = file("a", {5, 6, 0, 7}),
                              second = file("b", {0, 8, 9, 5, 0, 6, 7});
  ~Packed() override {
    std::filesystem::remove(first);
    std::filesystem::remove(second);
  }
  plait::token_shards shards(plait::ext::token_options const& options) const {
    return {{first, second}, options};
  }
  plait::token_shards packed() const {
    return shards({.sequence = 5, .vocabulary = 10, .pack = true, .end_of_text = 0});
  }
};

TEST_F(Packed, TokensAreNumberedAndTargetsAcrossDocumentsIgnored) {
  auto const data = packed();
  ASSERT_EQ(data.size(), 2u);
  EXPECT_EQ(inputs(data, 0), (numbers{5, 6, 0, 7, 0}));
  EXPECT_EQ(targets(data, 0), (numbers{6, 0, ignored, 0, ignored}));
  EXPECT_EQ(documents(data, 0), (numbers{0, 0, 0, 1, 1}));
  EXPECT_EQ(positions(data, 0), (numbers{0, 1, 2, 0, 1}));
  EXPECT_EQ(inputs(data, 1), (numbers{8, 9, 5, 0, 6}));
  EXPECT_EQ(targets(data, 1), (numbers{9, 5, 0, ignored, 7}));
  EXPECT_EQ(documents(data, 1), (numbers{0, 0, 0, 0, 1}));
  EXPECT_EQ(positions(data, 1), (numbers{0, 1, 2, 3, 0}));
  EXPECT_EQ(data.description(),
            "token_shards(2 files from '" + first.filename().string() + "' to '" +
                second.filename().string() +
                "', 11 tokens of 16 bits, sequences of 5, a vocabulary of 10, documents that end "
                "with token 0)");
}

TEST_F(Packed, WithoutPackNothingChanges) {
  auto const data = shards({.sequence = 5, .vocabulary = 10});
  EXPECT_EQ(inputs(data, 0), inputs(packed(), 0));
  EXPECT_EQ(targets(data, 0), (numbers{6, 0, 7, 0, 8}));
  EXPECT_FALSE(plait::ext::has_documents_of(data));
  EXPECT_EQ(positions(data, 0), numbers{});
}

TEST_F(Packed, TheFirstTokenOfASampleMayEndADocument) {
  auto const data = shards({.sequence = 2, .vocabulary = 10, .pack = true, .end_of_text = 0});
  EXPECT_EQ(inputs(data, 1), (numbers{0, 7}));
  EXPECT_EQ(targets(data, 1), (numbers{ignored, 0}));
  EXPECT_EQ(positions(data, 1), (numbers{0, 0}));
}

TEST_F(Packed, WrongOptionsAreRefused) {
  EXPECT_EQ(refusal([&] { shards({.sequence = 5, .vocabulary = 10, .pack = true}); }),
            "token_options: .pack is true, but .end_of_text is not given; set it to the token that "
            "ends each document, from 0 to 9");
  EXPECT_EQ(
      refusal([&] { shards({.sequence = 5, .vocabulary = 10, .pack = true, .end_of_text = 10}); }),
      "token_options: .end_of_text is 10, which is not a token; set it to a number from 0 to "
      "9");
  EXPECT_EQ(refusal([&] { shards({.sequence = 5, .vocabulary = 10, .end_of_text = 3}); }),
            "token_options: .end_of_text is 3, but .pack is false, so it has no effect; set .pack "
            "= true, or leave out .end_of_text");
  EXPECT_EQ(refusal([] {
              (void)plait::byte_text::from_text("some text",
                                                {.sequence = 4, .pack = true, .end_of_text = 256});
            }),
            "byte_text: .end_of_text is 256, which is not a token; set it to a number from 0 to "
            "255");
}

TEST(PackedText, LinesAreDocuments) {
  auto const text = plait::byte_text::from_text("ab\ncd\nefg",
                                                {.sequence = 8, .pack = true, .end_of_text = '\n'});
  EXPECT_EQ(targets(text, 0), (numbers{'b', '\n', ignored, 'd', '\n', ignored, 'f', 'g'}));
  EXPECT_EQ(positions(text, 0), (numbers{0, 1, 2, 0, 1, 2, 0, 1}));
  EXPECT_EQ(targets(plait::byte_text::from_text("ab\ncd\nefg", 8), 0)[2], 'c');
}

TEST(PackedText, AdaptorsKeepDocuments) {
  auto const text = plait::byte_text::from_text("a\nbcd\nefg\nhi\njk\nl",
                                                {.sequence = 4, .pack = true, .end_of_text = '\n'});
  ASSERT_EQ(text.size(), 4u);
  auto const right = positions(text, 1);  // "d\nef"
  EXPECT_EQ(right, (numbers{0, 1, 0, 1}));
  EXPECT_EQ(positions(text | plait::take(2), 1), right);
  auto const [part, rest] = plait::split_data(text, 0.5, {.how = plait::sample_order::sequential});
  EXPECT_EQ(positions(part, 1), right);
  EXPECT_EQ(positions(rest, 0), positions(text, 2));
  auto const plain = plait::byte_text::from_text("nothing\nto keep apart", 4);
  auto const mixed = plait::mix({.seed = 1}, plait::share(text, 0.5), plait::share(plain, 0.5));
  std::size_t packed = 0;
  for (std::size_t sample = 0; sample < mixed.size(); ++sample) {
    auto const from = mixed.find(sample, 0);
    packed += from.source == 0;
    EXPECT_EQ(positions(mixed, sample),
              from.source == 0 ? positions(text, from.sample) : (numbers{0, 1, 2, 3}));
  }
  EXPECT_GT(packed, 0u);
  auto const unpacked = plait::mix({.seed = 1}, plait::share(plain, 0.5), plait::share(plain, 0.5));
  EXPECT_EQ(positions(unpacked, 0), numbers{});
}

struct falling {
  using concept_tag = plait::dataset_tag;
  using element = std::int32_t;
  numbers given;
  std::size_t size() const { return 1; }
  std::size_t sequence_length() const { return given.size(); }
  void inputs(std::size_t, std::span<std::int32_t> out) const { std::ranges::fill(out, 1); }
  void targets(std::size_t, std::span<std::int32_t> out) const { std::ranges::fill(out, 1); }
  void documents(std::size_t, std::span<std::int32_t> out) const {
    std::ranges::copy(given, out.begin());
  }
};

TEST(Documents, NumbersMayBeginAnywhereAndRiseInSteps) {
  EXPECT_EQ(positions(falling{{-3, -3, 4, 9, 9, 9}}, 0), (numbers{0, 1, 0, 0, 1, 2}));
}
TEST(Documents, NumbersThatFallAreRefused) {
  EXPECT_EQ(refusal([] { positions(falling{{0, 1, 1, 0}}, 0); }),
            "loader: sample 0 has document 0 at position 3 after document 1; the tokens of a "
            "document must be adjacent, and document numbers must not decrease within a sample");
}
TEST(Documents, ABufferOfAnotherSizeIsRefused) {
  auto const data = falling{{0, 0, 1}};
  plait::ext::loader<falling> loader(data);
  numbers in(3), to(3), out(2);
  std::size_t const samples[]{0};
  EXPECT_NE(refusal<plait::size_mismatch>([&] { loader.fill(samples, 1, {in, to, {}, out}, 0); }),
            "no error");
}
TEST(Documents, APlaceWithoutASampleIsOneDocument) {
  auto const data = falling{{0, 0, 1}};
  plait::ext::loader<falling> loader(data);
  numbers in(6), to(6), out(6);
  std::size_t const samples[]{0};
  loader.fill(samples, 1, {in, to, {}, out}, 0);
  EXPECT_EQ(out, (numbers{0, 0, 1, 1, 0, 2}));  // position-major, two samples
}

}  // namespace
