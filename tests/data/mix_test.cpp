// SPDX-License-Identifier: Apache-2.0
#include "plait/data/mix.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "plait/core/error.hpp"
#include "plait/data/byte_text.hpp"
#include "plait/data/in_memory.hpp"
#include "plait/data/loader.hpp"
#include "plait/data/map.hpp"
#include "plait/data/mixing_order.hpp"
#include "plait/data/normalize.hpp"
#include "plait/data/random.hpp"
#include "plait/data/split_data.hpp"

namespace {

using plait::ext::mixed_source;
using plait::ext::mixing_order;
using plait::ext::no_epoch;
using shares_type = std::vector<double>;

mixing_order order_of(shares_type const& shares, std::vector<std::size_t> const& sizes = {},
                      std::uint64_t seed = 0) {
  plait::ext::lean_vector<mixed_source> sources;
  for (std::size_t i = 0; i < shares.size(); ++i)
    sources.push_back({.share = shares[i], .samples = sizes.empty() ? 1000 : sizes[i]});
  return {seed, sources};
}

/// Shares of 1, 2, 3, 5 and 12 sources, among them some that are hard for a tree.
std::vector<shares_type> const all_shares{
    {3},
    {0.7, 0.3},
    {1, 1},
    {1e-6, 1},
    {0.123456789, 3.14159},
    {1e300, 2.5e299},
    {1, 1, 1},
    {0.5, 0.49, 0.01},
    {100, 10, 1},
    {0.1, 0.2, 0.7},
    {1, 1, 1, 1, 1},
    {0.4, 0.3, 0.15, 0.1, 0.05},
    {16, 8, 4, 2, 1},
    {0.9, 0.025, 0.025, 0.0249, 0.0251},
    {0.31, 0.17, 0.000123, 0.2718, 0.4142},
    {55, 34, 21, 13, 8, 5, 3, 2, 1, 1, 0.999, 0.001},
};

/// Returns the largest difference, over all windows of positions from `first` to `first + length`,
/// between the number of samples of a source and the length of the window times the share.
double largest_difference(mixing_order const& order, std::vector<std::size_t> const& found,
                          std::size_t source) {
  // In the window [i, j) it is the difference of the sums of two prefixes, so that the largest is
  // between the least and the greatest of them.
  double least = 0, greatest = 0, sum = 0;
  for (auto const is : found) {
    sum += (is == source ? 1 : 0) - order.share(source);
    least = std::min(least, sum), greatest = std::max(greatest, sum);
  }
  return greatest - least;
}

std::vector<std::size_t> sources_at(mixing_order const& order, std::uint64_t first,
                                    std::size_t length) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < length; ++i) out.push_back(order.at(first + i).source);
  return out;
}

TEST(Mix, EachWindowHasTheShares) {
  double worst = 0;
  for (auto const& shares : all_shares) {
    auto const order = order_of(shares);
    double const bound = shares.size() == 1   ? 0
                         : shares.size() == 2 ? 1
                         : shares.size() == 3 ? 2
                                              : 3.5;
    for (std::uint64_t const first :
         {std::uint64_t{0}, std::uint64_t{1234567}, std::uint64_t{1} << 50}) {
      auto const found = sources_at(order, first, 6000);
      for (std::size_t i = 0; i < shares.size(); ++i) {
        double const difference = largest_difference(order, found, i);
        EXPECT_LT(difference, order.count_error(i) + 1e-9) << i << " of " << shares.size();
        EXPECT_LE(order.count_error(i), bound);
        worst = std::max(worst, difference);
      }
    }
  }
  EXPECT_GT(worst, 1.2);  // the bound of two sources is too narrow for more
}

// The definition of windows, one by one, on fewer positions.
TEST(Mix, EachWindowHasTheSharesOneByOne) {
  for (auto const& shares : {all_shares[1], all_shares[7], all_shares[11], all_shares[14]}) {
    auto const order = order_of(shares);
    auto const found = sources_at(order, 0, 1000);
    for (std::size_t source = 0; source < shares.size(); ++source) {
      double greatest = 0;
      for (std::size_t i = 0; i < found.size(); ++i) {
        double count = 0;
        for (std::size_t j = i; j < found.size(); ++j) {
          count += found[j] == source;
          greatest = std::max(greatest, std::abs(count - double(j + 1 - i) * order.share(source)));
        }
      }
      EXPECT_LT(greatest, order.count_error(source));
      EXPECT_NEAR(greatest, largest_difference(order, found, source), 1e-9);
    }
  }
}

// With two sources, the numbers of samples are known: a half up to the position, rounded.
TEST(Mix, TwoSourcesAlternateEvenly) {
  auto const order = order_of({5, 3});
  std::uint64_t of_3 = 0;
  for (std::uint64_t n = 0; n < 4000; ++n) {
    ASSERT_EQ(of_3, (6 * n + 8) / 16);  // n * 3 / 8, rounded
    of_3 += order.at(n).source;
  }
  EXPECT_EQ(sources_at(order_of({1, 1}), 0, 5), (std::vector<std::size_t>{0, 1, 0, 1, 0}));
}

TEST(Mix, CountsSamplesOfEachSource) {
  for (auto const& shares : all_shares) {
    auto const order = order_of(shares);
    std::vector<std::uint64_t> counts(shares.size());
    for (std::uint64_t n = 0; n < 2000; ++n) {
      for (std::size_t i = 0; i < shares.size(); ++i) ASSERT_EQ(order.count(i, n), counts[i]);
      ++counts[order.at(n).source];
    }
    double sum = 0;
    for (std::size_t i = 0; i < shares.size(); ++i) sum += order.share(i);
    EXPECT_NEAR(sum, 1, 1e-12);
    double given = std::accumulate(shares.begin(), shares.end(), 0.0);
    EXPECT_NEAR(order.share(0), shares[0] / given, 1e-15);
  }
}

/// The samples of each source, epoch after epoch, in the order of the mixture.
std::vector<std::vector<std::size_t>> samples_of_sources(mixing_order const& order,
                                                         std::size_t positions) {
  std::vector<std::vector<std::size_t>> out(order.size());
  for (std::size_t n = 0; n < positions; ++n) {
    auto const found = order.at(n);
    out[found.source].push_back(found.sample);
  }
  return out;
}

TEST(Mix, EachEpochOfASourceHasEachSampleOnce) {
  std::vector<std::size_t> const sizes{97, 10, 1, 64, 300};
  for (auto const& shares : {shares_type{0.4, 0.3, 0.15, 0.1, 0.05}, shares_type{1, 1, 1, 1, 1}}) {
    auto const order = order_of(shares, sizes, 5);
    std::vector<std::size_t> seen(sizes.size());
    for (std::size_t n = 0; n < 3000; ++n) {
      auto const found = order.at(n);
      ASSERT_EQ(found.epoch, seen[found.source]++ / sizes[found.source]);
    }
    auto const samples = samples_of_sources(order, 3000);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      std::set<std::vector<std::size_t>> orders;
      std::size_t const epochs = samples[i].size() / sizes[i];
      for (std::size_t epoch = 0; epoch < epochs; ++epoch) {
        auto const* const begin = samples[i].data() + epoch * sizes[i];
        std::vector<std::size_t> once(begin, begin + sizes[i]);
        orders.insert(once);
        std::ranges::sort(once);
        for (std::size_t k = 0; k < once.size(); ++k) ASSERT_EQ(once[k], k);
      }
      EXPECT_EQ(orders.size(), sizes[i] > 9 ? epochs : 1);  // another order in each
    }
  }
}

TEST(Mix, TheSeedAndTheSourceDecideOnTheOrder) {
  auto const samples = [](std::uint64_t seed) {
    return samples_of_sources(order_of({1, 1}, {50, 50}, seed), 100);
  };
  EXPECT_EQ(samples(1), samples(1));
  EXPECT_NE(samples(1)[0], samples(2)[0]);
  EXPECT_NE(samples(1)[0], samples(1)[1]);  // sources of the same size differ
}

TEST(Mix, AnEpochEndsBeforeTheFirstRepeat) {
  for (auto const& shares : all_shares)
    for (std::size_t const most : {1u, 7u, 40u}) {
      std::vector<std::size_t> sizes;
      for (std::size_t i = 0; i < shares.size(); ++i) sizes.push_back(most + 3 * i);
      auto const order = order_of(shares, sizes);
      std::size_t positions = 0;
      while (order.at(positions).epoch == 0) ++positions;
      EXPECT_EQ(order.until_first_repeat(), positions);
    }
}

/// Samples of a source that contain their number, with random changes and weights.
struct numbered {
  using concept_tag = plait::dataset_tag;
  using element = float;
  using target = float;
  static constexpr bool targets_per_sample = true;
  std::size_t samples = 0;
  int source = 0;
  [[nodiscard]] std::size_t size() const { return samples; }
  [[nodiscard]] std::size_t sequence_length() const { return 2; }
  [[nodiscard]] std::size_t width() const { return 1; }
  void inputs(std::size_t sample, std::int64_t epoch, std::span<float> out) const {
    out[0] = float(1000 * source + int(sample));
    out[1] = float(epoch);
  }
  void targets(std::size_t sample, std::span<float> out) const {
    out[0] = float(1000 * source + int(sample));
  }
  [[nodiscard]] std::string description() const {
    return plait::ext::concat({"numbered ", source});
  }
};
struct weighted : numbered {
  [[nodiscard]] double weight(std::size_t sample) const { return 2 + double(sample); }
};

template <class Data>
std::vector<float> inputs_of(Data const& data, std::size_t sample, std::int64_t epoch) {
  std::vector<float> out(data.sequence_length() * data.width());
  std::vector<float> scratch(plait::ext::scratch_elements_of(data));
  plait::ext::write_inputs(data, sample, epoch, std::span(out), std::span(scratch));
  return out;
}
template <class Data>
float target_of_sample(Data const& data, std::size_t sample, std::int64_t epoch) {
  std::vector<float> out(1);
  plait::ext::write_targets(data, sample, epoch, std::span(out));
  return out[0];
}

TEST(Mix, SamplesAreThoseOfTheSourcesInTheirEpoch) {
  numbered const a{.samples = 11, .source = 0};
  auto const mixed = plait::mix({.seed = 3, .samples = 40}, plait::share(a, 0.5),
                                plait::share(weighted{{.samples = 7, .source = 1}}, 0.3),
                                plait::share(numbered{.samples = 100, .source = 2}, 0.2));
  using type = std::remove_const_t<decltype(mixed)>;
  static_assert(plait::ext::feature_dataset<type> && plait::ext::weighted_dataset<type>);
  static_assert(plait::ext::has_targets_per_sample<type> && plait::ext::is_random_data<type>);
  static_assert(plait::ext::has_own_order<type>);
  static_assert(std::same_as<plait::ext::target_of<type>, float>);
  EXPECT_EQ(mixed.size(), 40u);
  EXPECT_EQ(&mixed.data<0>(), &a);
  for (std::int64_t epoch = -1; epoch < 5; ++epoch)
    for (std::size_t sample = 0; sample < 40; ++sample) {
      auto const position = std::uint64_t(std::max<std::int64_t>(epoch, 0)) * 40 + sample;
      auto const found = mixed.order().at(position);
      EXPECT_EQ(mixed.find(sample, epoch), found);
      auto const number = float(1000 * found.source + found.sample);
      EXPECT_EQ(inputs_of(mixed, sample, epoch),
                (std::vector{number, epoch == no_epoch ? -1 : float(found.epoch)}));
      EXPECT_EQ(target_of_sample(mixed, sample, epoch), number);
      EXPECT_EQ(plait::ext::weight_of(mixed, sample, epoch),
                found.source == 1 ? 2 + double(found.sample) : 1);
    }
}

// An adaptor of a mixture passes on its epochs, and its own changes differ in each epoch.
TEST(Mix, CanBeAdapted) {
  auto const mixed = plait::mix({.samples = 10}, plait::share(numbered{8, 0}, 2),
                                plait::share(weighted{{8, 1}}, 1));
  auto const adapted = mixed | plait::map([](float x) { return 2 * x; }) |
                       plait::random([](std::span<float> all, plait::sample_random& numbers) {
                         all[1] = float(numbers.uniform());
                       });
  static_assert(plait::ext::has_own_order<std::remove_const_t<decltype(adapted)>>);
  std::set<float> drawn;
  for (std::int64_t epoch = 0; epoch < 4; ++epoch)
    for (std::size_t sample = 0; sample < 10; ++sample) {
      float const number = target_of_sample(mixed, sample, epoch);
      EXPECT_EQ(inputs_of(adapted, sample, epoch)[0], 2 * number);
      EXPECT_EQ(target_of_sample(adapted, sample, epoch), number);
      EXPECT_EQ(adapted.weight(sample, epoch), mixed.weight(sample, epoch));
      drawn.insert(inputs_of(adapted, sample, epoch)[1]);
    }
  EXPECT_EQ(drawn.size(), 40u);
}

// The loader, which batches use, reads inputs, targets and weights in one epoch.
TEST(Mix, IsLoadedInAnEpoch) {
  auto const mixed = plait::mix({.samples = 10}, plait::share(numbered{8, 0}, 2),
                                plait::share(weighted{{8, 1}}, 1));
  plait::ext::loader loader(mixed);
  std::vector<float> inputs(2), targets(2);
  std::vector<double> weights(2);
  for (std::int64_t epoch = 0; epoch < 3; ++epoch)
    for (std::size_t sample = 0; sample < 10; ++sample) {
      loader.fill_place(sample, epoch, 0, 1, {inputs, targets, weights});
      EXPECT_EQ(inputs, inputs_of(mixed, sample, epoch));
      EXPECT_EQ(targets[1], target_of_sample(mixed, sample, epoch));
      EXPECT_EQ(weights[1], mixed.weight(sample, epoch));
    }
}

// A mixture in a mixture keeps its order, and thus its shares.
TEST(Mix, CanBeASource) {
  auto const inner = plait::mix({.seed = 1, .samples = 9}, plait::share(numbered{8, 0}, 2),
                                plait::share(numbered{8, 1}, 1));
  auto const outer = plait::mix({.seed = 2, .samples = 50}, plait::share(inner, 1),
                                plait::share(numbered{8, 2}, 1));
  std::size_t next = 0;
  for (std::int64_t epoch = 0; epoch < 3; ++epoch)
    for (std::size_t sample = 0; sample < 50; ++sample) {
      float const number = target_of_sample(outer, sample, epoch);
      EXPECT_EQ(inputs_of(outer, sample, epoch)[0], number);
      if (outer.find(sample, epoch).source != 0) continue;
      EXPECT_EQ(number, target_of_sample(inner, next % 9, std::int64_t(next / 9)));
      ++next;
    }
  EXPECT_EQ(next, 75u);
}

TEST(Mix, TakesPartsAdaptedDataAndTokens) {
  auto const text = plait::byte_text::from_text(std::string(400, 'a'), 8);
  auto const [train, held_out] = plait::split_data(text, 0.8);
  auto const mixed =
      plait::mix(plait::share(train, 1),
                 plait::share(plait::byte_text::from_text(std::string(200, 'b'), 8), 1));
  using type = std::remove_const_t<decltype(mixed)>;
  static_assert(plait::ext::token_dataset<type> && !plait::ext::weighted_dataset<type>);
  std::vector<std::int32_t> out(8);
  std::size_t of_b = 0;
  for (std::size_t i = 0; i < mixed.size(); ++i) {
    plait::ext::write_inputs(mixed, i, 0, std::span(out), std::span<std::int32_t>{});
    of_b += out[3] == 'b';
  }
  EXPECT_EQ(of_b, 24u);          // all of the smaller source,
  EXPECT_EQ(mixed.size(), 49u);  // and as many of the other, and one
  auto const first = plait::in_memory<float>({1, 2, 3, 4}, {0, 1}, 2);
  auto const scaled = plait::mix({}, plait::share(first | plait::normalize(1, 2), 1),
                                 plait::share(first | plait::normalize(0, 1), 1));
  EXPECT_EQ(scaled.size(), 4u);
  static_cast<void>(held_out);
}

// Ranks and checkpoints compare the text and the fingerprint.
TEST(Mix, SaysWhatItIs) {
  auto const in = [](std::uint64_t seed, double share, std::size_t size, std::size_t samples = 0) {
    return plait::mix({.seed = seed, .samples = samples}, plait::share(numbered{size, 0}, share),
                      plait::share(weighted{{10, 1}}, 0.3));
  };
  EXPECT_EQ(in(7, 0.7, 10).description(),
            "mix({0.7, 0.3}, seed 7, 14 samples: numbered 0, numbered 1)");
  std::set<std::string> texts;
  std::set<std::uint64_t> fingerprints;
  auto const add = [&](auto const& data) {
    texts.insert(data.description());
    fingerprints.insert(plait::ext::loader(data).fingerprint());
  };
  add(in(7, 0.7, 10));
  add(in(7, 0.7, 10));
  EXPECT_EQ(fingerprints.size(), 1u);
  add(in(8, 0.7, 10));
  add(in(7, 0.6, 10));
  add(in(7, 0.7, 10, 5));
  add(in(7, 0.7, 11));
  EXPECT_EQ(fingerprints.size(), 5u);
  EXPECT_EQ(texts.size(), 5u);
}

template <class Error = plait::input_error, class Run>
std::string message_of(Run run) {
  try {
    run();
  } catch (Error const& problem) {
    return problem.what();
  }
  return "no error";
}

#define EXPECT_MIX_SAYS(expression, words)                                \
  do {                                                                    \
    auto const said = message_of([&] { static_cast<void>(expression); }); \
    EXPECT_NE(said.find(words), std::string::npos) << said;               \
  } while (false)

TEST(Mix, RefusesSharesAndSizesThatMakeNoMixture) {
  double const infinity = std::numeric_limits<double>::infinity();
  for (double const share : {0.0, -1.0, infinity, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_MIX_SAYS(order_of({1, share}), "mix: the share of source 1 (the first is 0) is ");
  EXPECT_MIX_SAYS(order_of({1, 0}), "a finite number above 0");
  EXPECT_MIX_SAYS(
      order_of({1, 1e-300}),
      "mix: the share of source 1 (the first is 0), 1e-300, is 1e-300 of the sum of all "
      "shares, and it must be at least 1e-12; leave the source out");
  EXPECT_MIX_SAYS(order_of({1, 1}, {5, 0}),
                  "mix: source 1 (the first is 0) of 2 has 0 samples; leave it out");
  EXPECT_MIX_SAYS(order_of({}), "mix: there are no sources");
  auto const mixed = plait::mix({}, plait::share(numbered{8, 0}, 1));
  EXPECT_EQ(mixed.size(), 8u);
  EXPECT_EQ(message_of<plait::size_mismatch>([&] { (void)mixed.find(8); }),
            "mix: sample 8 of a mixture of 8 samples");
  EXPECT_MIX_SAYS(plait::mix({.samples = std::size_t{1} << 60}, plait::share(numbered{8, 0}, 1)),
                  "mix: an epoch of 1152921504606846976 samples is longer than 9007199254740992");
}

/// Pictures with names of classes.
struct named_pictures {
  using concept_tag = plait::dataset_tag;
  using element = float;
  plait::picture_shape shape{};
  std::vector<std::string> names{};
  [[nodiscard]] std::size_t size() const { return 4; }
  [[nodiscard]] std::size_t sequence_length() const { return 1; }
  [[nodiscard]] std::size_t width() const { return shape.elements(); }
  [[nodiscard]] plait::picture_shape picture_shape() const { return shape; }
  [[nodiscard]] std::vector<std::string> const& classes() const { return names; }
  void inputs(std::size_t, std::span<float> out) const { std::ranges::fill(out, 1.0F); }
  void targets(std::size_t, std::span<std::int32_t> out) const { out[0] = 0; }
};

TEST(Mix, RefusesSourcesThatDoNotFitTogether) {
  auto const mixed = [](named_pictures a, named_pictures b) {
    return plait::mix({}, plait::share(std::move(a), 1), plait::share(std::move(b), 1));
  };
  auto const same = mixed({{3, 2, 4}, {"cat", "dog"}}, {{3, 2, 4}, {"cat", "dog"}});
  EXPECT_EQ(same.picture_shape(), (plait::picture_shape{3, 2, 4}));
  EXPECT_EQ(same.classes().size(), 2u);
  (void)mixed({{3, 2, 4}, {"cat", "dog"}}, {{3, 2, 4}, {}});
  EXPECT_MIX_SAYS(
      mixed({{3, 2, 4}, {}}, {{3, 4, 2}, {}}),
      "mix: samples of source 0 have the shape (1, 24) and targets of width 1 (pictures "
      "with 3 channels and a height of 2), and samples of source 1 have the shape (1, "
      "24) and targets of width 1 (pictures with 3 channels and a height of 4); give");
  EXPECT_MIX_SAYS(mixed({{3, 2, 4}, {}}, {{1, 2, 4}, {}}), "have the shape (1, 8)");
  EXPECT_MIX_SAYS(
      mixed({{3, 2, 4}, {"cat", "dog"}}, {{3, 2, 4}, {"cat", "horse"}}),
      "mix: class 1 of source 0 is 'dog', and of source 1 it is 'horse'; the same number");
  EXPECT_MIX_SAYS(mixed({{3, 2, 4}, {"cat", "dog"}}, {{3, 2, 4}, {"cat"}}),
                  "mix: class 1 of source 0 is 'dog', and of source 1 it is missing;");
  auto const text = [](std::size_t length) {
    return plait::byte_text::from_text(std::string(100, 'a'), length);
  };
  EXPECT_MIX_SAYS(plait::mix({}, plait::share(text(8), 1), plait::share(text(9), 1)),
                  "mix: samples of source 0 have the shape (8, 1) and targets of width 1, and "
                  "samples of source 1 have the shape (9, 1)");
}

}  // namespace
