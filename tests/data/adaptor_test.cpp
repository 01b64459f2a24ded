// SPDX-License-Identifier: Apache-2.0
// test: alone
#include "plait/data/adaptor.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <limits>
#include <new>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "plait/core/error.hpp"
#include "plait/data/byte_text.hpp"
#include "plait/data/crop.hpp"
#include "plait/data/in_memory.hpp"
#include "plait/data/loader.hpp"
#include "plait/data/map.hpp"
#include "plait/data/normalize.hpp"
#include "plait/data/random.hpp"
#include "plait/data/random_flip.hpp"
#include "plait/data/resize.hpp"
#include "plait/data/split_data.hpp"
#include "plait/data/take.hpp"
#include "testing/count_allocations.hpp"

namespace {

/// Pictures of 2 x 6 x 8 whose numbers say where they are, with weights and a fingerprint.
struct pictures {
  using concept_tag = plait::dataset_tag;
  using element = float;
  using target = double;
  static constexpr bool targets_per_sample = true;
  [[nodiscard]] std::size_t size() const { return 40; }
  [[nodiscard]] std::size_t sequence_length() const { return 1; }
  [[nodiscard]] std::size_t width() const { return 96; }
  [[nodiscard]] plait::picture_shape picture_shape() const { return {2, 6, 8}; }
  void inputs(std::size_t sample, std::span<float> out) const {
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = float(1000 * (sample + 1) + 100 * (i / 48) + 10 * (i / 8 % 6) + i % 8);
  }
  void targets(std::size_t sample, std::span<double> out) const { out[0] = double(sample); }
  [[nodiscard]] double weight(std::size_t sample) const { return double(sample) / 2; }
  [[nodiscard]] std::uint64_t fingerprint() const { return 17; }
  [[nodiscard]] std::string description() const { return "pictures"; }
  [[nodiscard]] int classes() const { return 3; }
};

template <class Data>
auto sample_of(Data const& data, std::size_t sample, std::int64_t epoch = plait::ext::no_epoch) {
  using element = typename Data::element;
  std::size_t width = 1;
  if constexpr (plait::ext::feature_dataset<Data>) width = data.width();
  std::vector<element> out(data.sequence_length() * width);
  std::vector<element> scratch(plait::ext::scratch_elements_of(data));
  plait::ext::write_inputs(data, sample, epoch, std::span(out), std::span(scratch));
  return out;
}

template <class Body>
std::string text_of_error(Body body) {
  try {
    body();
  } catch (plait::input_error const& problem) {
    return problem.what();
  }
  return "no error";
}

TEST(Adaptor, PassesOnWhatItDoesNotChange) {
  pictures const data;
  auto const adapted = data | plait::take(30) | plait::crop<4, 4> | plait::random_flip();
  using type = std::remove_const_t<decltype(adapted)>;
  static_assert(plait::ext::feature_dataset<type> && plait::ext::weighted_dataset<type> &&
                plait::ext::picture_dataset<type>);
  static_assert(plait::ext::has_targets_per_sample<type> && plait::ext::is_random_data<type>);
  static_assert(std::same_as<plait::ext::target_of<type>, double>);
  EXPECT_EQ(adapted.size(), 30u);
  EXPECT_EQ(adapted.weight(7), 3.5);
  EXPECT_EQ(adapted.fingerprint(), 17u);
  EXPECT_EQ(adapted.classes(), 3);
  EXPECT_EQ(adapted.width(), 32u);
  EXPECT_EQ(adapted.picture_shape(), (plait::picture_shape{2, 4, 4}));
  std::vector<double> target(1);
  adapted.targets(9, target);
  EXPECT_EQ(target[0], 9);
  static_assert(!plait::ext::is_random_data<pictures> &&
                !plait::ext::is_random_data<decltype(data | plait::take(3) | plait::crop<2, 2>())>);
}

TEST(Adaptor, SaysWhatItIsWithItsNumbers) {
  pictures const data;
  EXPECT_EQ((data | plait::take(30) | plait::resize(7, 9) | plait::crop<4, 5>() |
             plait::random_crop<3, 3>(2, 5) | plait::random_flip(0.25) |
             plait::normalize({0.5, 1e-3}, {2, 3}) | plait::map([](float x) { return x; }, "same") |
             plait::random([](std::span<float>, plait::sample_random&) {}, 8))
                .description(),
            "pictures | take(30) | resize(7, 9) | crop<4, 5> | random_crop<3, 3>(2, seed 5) | "
            "random_flip(0.25, seed 0) | normalize({0.5, 0.001}, {2, 3}) | map(same) | random(f, "
            "seed 8)");
  auto const plain = plait::in_memory<float>::random_classes(10, 4, 2);
  EXPECT_EQ((plain | plait::normalize(0.1, 2)).description(), "data | normalize(0.1, 2)");
  EXPECT_EQ(plait::ext::description_of(plain), "");
  auto const parts = plait::split_data(data | plait::take(10), 0.8, {.seed = 4});
  EXPECT_EQ((parts.second | plait::take(1)).description(),
            "split_data(pictures | take(10), samples 8 to 9, shuffled by seed 4) | take(1)");
}

TEST(Adaptor, HoldsWhatIsMadeInTheCallAndRefersToWhatIsNamed) {
  auto const made = plait::in_memory<float>({1, 2, 3, 4}, {0, 1}, 2) | plait::take(1);
  EXPECT_EQ(sample_of(made, 0), (std::vector<float>{1, 2}));
  pictures const named;
  auto const refers = named | plait::take(1) | plait::take(1);
  EXPECT_EQ(&refers.data().data(), &named);
}

TEST(Adaptor, MapTakesNumbersOrSamples) {
  auto const data = plait::in_memory<float>({1, 2, 3, 4}, {0, 1}, 2);
  EXPECT_EQ(sample_of(data | plait::map([](float x) { return 10 * x; }), 1),
            (std::vector<float>{30, 40}));
  EXPECT_EQ(sample_of(data | plait::map([](std::span<float> all) { all[0] += all[1]; }), 0),
            (std::vector<float>{3, 2}));
  auto const text = plait::byte_text::from_text("abcdefg", 3);
  EXPECT_EQ(sample_of(text | plait::map([](std::int32_t token) { return token - 'a'; }), 1),
            (std::vector<std::int32_t>{3, 4, 5}));
}

TEST(Adaptor, NormalizesAllFeaturesOrEachOrChannels) {
  auto const data = plait::in_memory<double>({1, 2, 3, 4}, {0, 1}, 2);
  EXPECT_EQ(sample_of(data | plait::normalize(1, 2), 1), (std::vector<double>{1, 1.5}));
  EXPECT_EQ(sample_of(data | plait::normalize({1, 2}, {2, 4}), 1), (std::vector<double>{1, 0.5}));
  pictures const of;
  auto const plain = sample_of(of, 3), got = sample_of(of | plait::normalize({1, 2}, {4, 8}), 3);
  for (std::size_t i = 0; i < 96; ++i)
    EXPECT_EQ(got[i], (plain[i] - (i < 48 ? 1 : 2)) / (i < 48 ? 4 : 8));
}

TEST(Adaptor, CropsTakeTheMiddle) {
  pictures const data;
  auto const plain = sample_of(data, 2);
  std::vector<float> middle;
  for (std::size_t const row : {1u, 2u, 3u, 4u})
    for (std::size_t const column : {3u, 4u}) middle.push_back(plain[row * 8 + column]);
  for (std::size_t const row : {1u, 2u, 3u, 4u})
    for (std::size_t const column : {3u, 4u}) middle.push_back(plain[48 + row * 8 + column]);
  EXPECT_EQ(sample_of(data | plait::crop<4, 2>, 2), middle);
  EXPECT_EQ(sample_of(data | plait::random_crop<4, 2>(3), 2), middle);
  EXPECT_EQ(sample_of(data | plait::random_crop<6, 8>(4), 2), plain);
}

TEST(Adaptor, RandomCropsArePiecesOfThePaddedPicture) {
  pictures const data;
  auto const cropped = data | plait::random_crop<5, 7>(2);
  std::set<std::pair<std::size_t, std::size_t>> seen;
  for (std::int64_t epoch = 0; epoch < 400; ++epoch) {
    auto const plain = sample_of(data, 1), got = sample_of(cropped, 1, epoch);
    int matches = 0;
    for (std::size_t top = 0; top <= 5; ++top)
      for (std::size_t left = 0; left <= 5; ++left) {
        bool is_same = true;
        for (std::size_t i = 0; i < got.size(); ++i) {
          auto const y = std::ptrdiff_t(top + i % 35 / 7) - 2;
          auto const x = std::ptrdiff_t(left + i % 7) - 2;
          bool const is_inside = y >= 0 && y < 6 && x >= 0 && x < 8;
          float const expected =
              is_inside ? plain[i / 35 * 48 + std::size_t(y) * 8 + std::size_t(x)] : 0;
          is_same = is_same && got[i] == expected;
        }
        if (is_same) seen.insert({top, left}), ++matches;
      }
    EXPECT_EQ(matches, 1) << epoch;
  }
  EXPECT_EQ(seen.size(), 36u);
}

TEST(Adaptor, FlipsAreMirroredRowsHalfOfTheTime) {
  pictures const data;
  auto const flipped = data | plait::random_flip();
  int count = 0;
  for (std::int64_t epoch = 0; epoch < 100; ++epoch)
    for (std::size_t sample = 0; sample < 40; ++sample) {
      auto plain = sample_of(data, sample), got = sample_of(flipped, sample, epoch);
      if (got == plain) continue;
      for (std::size_t row = 0; row < 96; row += 8)
        std::ranges::reverse(std::span(plain).subspan(row, 8));
      EXPECT_EQ(got, plain);
      ++count;
    }
  EXPECT_NEAR(count, 2000, 5 * std::sqrt(1000));
  EXPECT_EQ(sample_of(data | plait::random_flip(1), 3), sample_of(data, 3));
  EXPECT_NE(sample_of(data | plait::random_flip(1), 3, 0), sample_of(data, 3));
  EXPECT_EQ(sample_of(data | plait::random_flip(0), 3, 0), sample_of(data, 3));
}

TEST(Adaptor, RandomNumbersDependOnSeedPlaceEpochAndSampleAlone) {
  pictures const data;
  auto const first_number = [&](auto const& of, std::size_t sample, std::int64_t epoch) {
    return sample_of(of, sample, epoch)[0];
  };
  auto const draw = [](std::span<float> all, plait::sample_random& numbers) {
    all[0] = float(numbers.uniform());
  };
  auto const one = data | plait::random(draw), same = data | plait::random(draw, 0, "other name");
  auto const seeded = data | plait::random(draw, 1);
  auto const second = one | plait::random(draw);
  std::set<float> all;
  for (std::size_t sample = 0; sample < 40; ++sample)
    for (std::int64_t const epoch : {std::int64_t{0}, std::int64_t{1}, std::int64_t{1} << 33}) {
      EXPECT_EQ(first_number(one, sample, epoch), first_number(same, sample, epoch));
      all.insert({first_number(one, sample, epoch), first_number(seeded, sample, epoch),
                  first_number(second, sample, epoch)});
    }
  EXPECT_EQ(all.size(), 360u);
  EXPECT_EQ(sample_of(one, 5), sample_of(data, 5));  // in evaluations
  // Within a part, a sample keeps the number that it has in the whole.
  auto const parts = plait::split_data(one, 0.5);
  for (std::size_t sample = 0; sample < 20; ++sample)
    EXPECT_EQ(first_number(parts.first, sample, 7),
              first_number(one, parts.first.number_of(sample), 7));
}

TEST(Adaptor, RandomNumbersAreUniformAndNormal) {
  double sum = 0, normal = 0, squares = 0;
  std::array<int, 6> counts{};
  for (std::size_t sample = 0; sample < 20'000; ++sample) {
    plait::sample_random numbers(3, 0, 4, sample);
    sum += numbers.uniform(-1, 3);
    ++counts[numbers.below(6)];
    std::array<double, 2> two{};
    numbers.normals(2, std::span<double>(two));
    normal += two[0];
    squares += two[1] * two[1];
  }
  EXPECT_NEAR(sum / 20'000, 1, 0.05);
  for (int const count : counts) EXPECT_NEAR(count, 20'000 / 6, 5 * std::sqrt(20'000 / 6));
  EXPECT_NEAR(normal / 20'000, 0, 0.1);
  EXPECT_NEAR(squares / 20'000, 4, 0.2);
}

auto all_of_them(pictures const& data) {
  return data | plait::resize(12, 16) | plait::random_crop<10, 10>(4) | plait::crop<8, 9> |
         plait::random_flip() | plait::normalize(100, 7) |
         plait::map([](float x) { return x + 1; }) |
         plait::random([](std::span<float> all, plait::sample_random& numbers) {
           all[numbers.below(std::uint32_t(all.size()))] = 0;
         }) |
         plait::take(20);
}

TEST(Adaptor, AllocatesNothingForASample) {
  pictures const data;
  auto const adapted = all_of_them(data);
  plait::ext::loader load(adapted);
  std::vector<std::size_t> const samples{3, 17};
  std::vector<float> inputs(2 * load.inputs_per_sample());
  std::vector<plait::ext::loader<decltype(adapted)>::target> targets(2);
  std::vector<double> weights(2);
  load.fill(samples, 1, {inputs, targets, weights}, 0);
  auto const before = plait_test::allocations.load();
  for (std::int64_t epoch = 0; epoch < 10; ++epoch)
    load.fill(samples, 1, {inputs, targets, weights}, epoch);
  EXPECT_EQ(plait_test::allocations.load(), before);
  // The loader gives what the data set does.
  auto const sample = sample_of(adapted, 17, 9);
  EXPECT_TRUE(std::ranges::equal(sample, std::span(inputs).subspan(load.inputs_per_sample())));
}

TEST(Adaptor, GivesTheSameOnSeveralThreads) {
  pictures const data;
  auto const adapted = all_of_them(data);
  std::vector<std::vector<float>> expected(60);
  for (std::size_t i = 0; i < 60; ++i)
    expected[i] = sample_of(adapted, i % 20, std::int64_t(i / 20));
  std::atomic<int> differ{0};
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < 4; ++thread)
    threads.emplace_back([&, thread] {
      for (std::size_t k = 0; k < 60; ++k) {
        std::size_t const i = (k * 7 + thread * 13) % 60;
        if (sample_of(adapted, i % 20, std::int64_t(i / 20)) != expected[i]) ++differ;
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(differ, 0);
}

TEST(Adaptor, SaysWhatDoesNotFit) {
  pictures const data;
  struct {
    std::function<void()> make;
    char const* text;
  } const all[]{
      {[&] { (void)(data | plait::take(41)); },
       "take: 41 samples were requested from a data set of 40; request at least 1 sample, and at "
       "most all"},
      {[&] { (void)(data | plait::take(0)); },
       "take: 0 samples were requested from a data set of 40"},
      {[&] { (void)(data | plait::crop<7, 8>); },
       "crop<7, 8>: a region cannot be cut out of pictures of 2 x 6 x 8, which are smaller than "
       "the region"},
      {[&] { (void)(data | plait::random_crop<11, 8>(2)); },
       "random_crop<11, 8>: a region cannot be cut out of pictures of 2 x 6 x 8 with a padding of "
       "2, "},
      {[&] { (void)(data | plait::random_flip(1.5)); },
       "random_flip: chance is 1.5; it must be from 0 to 1"},
      {[&] { (void)(data | plait::normalize({1, 2, 3}, {1, 2, 3})); },
       "normalize: 3 means and 3 deviations for samples of width 96 in 2 channels; pass one mean "
       "and one deviation for all features, or one of each for every feature or channel"},
      {[&] { (void)(data | plait::normalize({1, 2}, {1, 2, 3})); }, "normalize: 2 means and 3 "},
      {[&] { (void)(data | plait::normalize({1, 2}, {1, 0})); },
       "normalize: mean 2 and deviation 0 at place 1; both must be finite, and the deviation must "
       "be above 0"},
      {[&] { (void)(data | plait::normalize(std::nan(""), 1)); }, "normalize: mean nan and "},
  };
  for (auto const& [make, text] : all)
    EXPECT_NE(text_of_error(make).find(text), std::string::npos) << text_of_error(make);
}

TEST(Adaptor, ComparesTheShapeOfPicturesWithSamples) {
  struct wrong : pictures {
    [[nodiscard]] plait::picture_shape picture_shape() const { return {3, 6, 8}; }
  } const data;
  EXPECT_NE(text_of_error([&] { (void)(data | plait::random_flip()); })
                .find("random_flip: the data set declares pictures of the shape 3 x 6 x 8, but its "
                      "samples have the shape 1 x 96 features"),
            std::string::npos);
}

}  // namespace
