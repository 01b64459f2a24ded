// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/data/mixing_order.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/hash.hpp"
#include "plait/core/number_range.hpp"
#include "plait/core/quote.hpp"
#include "plait/core/random.hpp"
#include "plait/data/adaptor.hpp"
#include "plait/data/sampler.hpp"

namespace plait::ext {

PLAIT_DECL mixing_order::mixing_order(std::uint64_t seed, lean_vector<mixed_source> sources)
    : seed_(seed), sources_(std::move(sources)) {
  if (sources_.empty()) throw input_error("mix: there are no sources; give it at least one");
  double greatest = 0, sum = 0;
  for (std::size_t i = 0; i < size(); ++i) {
    detail::require_range(concat({"mix: the share of source ", i, " (the first is 0)"}),
                          sources_[i].share, number_ranges::finite_above_0);
    if (sources_[i].samples == 0)
      throw input_error({"mix: source ", i, " (the first is 0) of ", size(),
                         " has 0 samples; leave it out, or give it samples"});
    greatest = std::max(greatest, sources_[i].share);
  }
  // The shares are scaled by a power of 2, so that their sum cannot overflow, and so that it is
  // exact if the shares are integers.
  int exponent = 0;
  static_cast<void>(std::frexp(greatest, &exponent));
  for (std::size_t i = 0; i < size(); ++i) {
    // Each source has a seed of its own: otherwise two sources of the same size would have the same
    // order. The first word differs from the counters of other random numbers.
    auto const key = philox(seed, {{0x6d697865u, static_cast<std::uint32_t>(i), 0, ~0u}});
    nodes_.push_back({.weight = std::ldexp(sources_[i].share, -exponent),
                      .seed = std::uint64_t{key.word[0]} << 32 | key.word[1]});
    sum += nodes_.back().weight;
  }
  for (std::size_t i = 0; i < size(); ++i) {
    double const part = nodes_[i].weight / sum;
    if (part < least_share)
      throw input_error({"mix: the share of source ", i, " (the first is 0), ",
                         detail::to_text(sources_[i].share), ", is ", detail::to_text(part),
                         " of the sum of all shares, and it must be at least ",
                         detail::to_text(least_share),
                         "; leave the source out, or give it a larger share"});
  }
  while (nodes_.size() < 2 * size() - 1) join_two_lightest();
}

PLAIT_DECL void mixing_order::join_two_lightest() {
  std::size_t lighter = none, heavier = none;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].parent != none) continue;
    if (lighter == none || nodes_[i].weight < nodes_[lighter].weight) {
      heavier = lighter;
      lighter = i;
    } else if (heavier == none || nodes_[i].weight < nodes_[heavier].weight) {
      heavier = i;
    }
  }
  double const part = nodes_[lighter].weight / (nodes_[lighter].weight + nodes_[heavier].weight);
  nodes_[lighter].parent = nodes_[heavier].parent = nodes_.size();
  nodes_.push_back({.weight = nodes_[lighter].weight + nodes_[heavier].weight,
                    .lighter = lighter,
                    .heavier = heavier,
                    .part_of_lighter = static_cast<std::uint64_t>(std::ldexp(part, 64))});
}

PLAIT_DECL std::uint64_t mixing_order::of_lighter(node const& pair, std::uint64_t samples) {
  __extension__ typedef unsigned __int128 wide;
  return static_cast<std::uint64_t>(
      (wide{samples} * pair.part_of_lighter + (std::uint64_t{1} << 63)) >> 64);
}

PLAIT_DECL double mixing_order::share(std::size_t source) const {
  return nodes_[source].weight / nodes_.back().weight;
}

PLAIT_DECL mixed_sample mixing_order::at(std::uint64_t position) const {
  std::size_t where = nodes_.size() - 1;
  std::uint64_t use = position;  // counted from 0 among the samples of the node
  while (where >= size()) {
    auto const& pair = nodes_[where];
    std::uint64_t const before = of_lighter(pair, use);
    bool const is_lighter = of_lighter(pair, use + 1) > before;
    where = is_lighter ? pair.lighter : pair.heavier;
    use = is_lighter ? before : use - before;
  }
  auto const& source = sources_[where];
  std::uint64_t const epoch = use / source.samples;
  auto const index = static_cast<std::size_t>(use % source.samples);
  if (source.has_own_order) return {where, index, epoch};
  return {where, sampler(source.samples, {.seed = nodes_[where].seed}).at(epoch, index), epoch};
}

PLAIT_DECL std::uint64_t mixing_order::count(std::size_t source, std::uint64_t positions) const {
  std::size_t const up = nodes_[source].parent;
  if (up == none) return positions;
  std::uint64_t const together = count(up, positions);
  std::uint64_t const lighter = of_lighter(nodes_[up], together);
  return nodes_[up].lighter == source ? lighter : together - lighter;
}

PLAIT_DECL double mixing_order::count_error(std::size_t source) const {
  std::size_t const up = nodes_[source].parent;
  if (up == none) return 0;
  return 1 + nodes_[source].weight / nodes_[up].weight * count_error(up);
}

PLAIT_DECL std::size_t mixing_order::until_first_repeat() const {
  auto const repeats = [&](std::uint64_t positions) {
    for (std::size_t i = 0; i < size(); ++i)
      if (count(i, positions) > sources_[i].samples) return true;
    return false;
  };
  // Halves the range between `without`, a number of positions without a repeated sample, and
  // `with`, a number of positions with a repeated sample.
  std::uint64_t without = 1, with = 1;
  for (auto const& source : sources_) with += source.samples;
  while (with - without > 1) {
    std::uint64_t const middle = without + (with - without) / 2;
    (repeats(middle) ? with : without) = middle;
  }
  return static_cast<std::size_t>(without);
}

PLAIT_DECL std::string mixing_order::text(lean_vector<std::string> const& names,
                                          std::size_t samples) const {
  // The numbers come first, because messages shorten long texts.
  std::vector<double> shares;
  std::string of;
  for (std::size_t i = 0; i < size(); ++i) {
    shares.push_back(sources_[i].share);
    of += concat({(i == 0 ? "" : ", "), (names[i].empty() ? "data" : names[i])});
  }
  return concat(
      {"mix(", detail::to_text(shares), ", seed ", seed_, ", ", samples, " samples: ", of, ")"});
}

PLAIT_DECL std::uint64_t mixing_order::fingerprint() const {
  detail::hash out;
  out.add(seed_);
  for (std::size_t i = 0; i < size(); ++i)
    out.add(detail::to_text(sources_[i].share))
        .add(std::uint64_t{sources_[i].samples})
        .add(std::uint64_t{sources_[i].has_own_order});
  return out.value();
}

}  // namespace plait::ext

namespace plait::detail {

PLAIT_DECL void require_same_shapes(ext::lean_vector<mixed_shape> const& shapes) {
  auto const text = [](mixed_shape const& of) {
    return concat({"(", of.sequence_length, ", ", of.width, ") and targets of width ",
                   of.target_width,
                   (of.channels == 0 ? std::string{}
                                     : concat({" (pictures with ", of.channels,
                                               " channels and a height of ", of.height, ")"}))});
  };
  auto const shape = [](mixed_shape const& of) {
    return std::array{of.sequence_length, of.width, of.target_width, of.channels, of.height};
  };
  std::size_t named = 0;  // the first source whose classes have names
  for (std::size_t i = 1; i < shapes.size(); ++i) {
    if (shape(shapes[i]) != shape(shapes[0]))
      throw input_error({"mix: samples of source 0 have the shape ", text(shapes[0]),
                         ", and samples of source ", i, " have the shape ", text(shapes[i]),
                         "; give all sources the same sequence length, width, targets and "
                         "pictures, for example by plait::resize"});
    auto const &names = shapes[i].classes, &first = shapes[named].classes;
    if (first.empty()) named = i;
    if (first.empty() || names.empty() || names == first) continue;
    std::size_t at = 0;
    while (at < names.size() && at < first.size() && names[at] == first[at]) ++at;
    auto const name = [&](auto const& of) {
      return at < of.size() ? in_quotes(of[at]) : std::string("missing");
    };
    throw input_error({"mix: class ", at, " of source ", named, " is ", name(first),
                       ", and of source ", i, " it is ", name(names),
                       "; the same number must be the same class: give the second source the "
                       "classes of the first, as plait::table does with .classes"});
  }
}

PLAIT_DECL std::size_t samples_of_mixture(ext::mixing_order const& order, std::size_t asked) {
  constexpr std::size_t most = std::size_t{1} << 53;
  std::size_t const samples = asked == 0 ? order.until_first_repeat() : asked;
  if (samples > most)
    throw input_error({"mix: an epoch of ", samples, " samples is longer than ", most,
                       "; give mix_options::samples a smaller number"});
  return samples;
}

}  // namespace plait::detail
