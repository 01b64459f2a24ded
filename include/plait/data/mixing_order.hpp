// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "plait/core/header_only.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/core/namespaces.hpp"

namespace plait::ext {

/// The properties of a mixture's source on which the order of the mixture depends.
struct mixed_source {
  double share = 0;  ///< relative to the shares of the other sources
  std::size_t samples = 0;
  bool has_own_order = false;  ///< if true, its samples are not shuffled
};

/// A sample of a mixture: its source, the number of the sample in this source, and the epoch of the
/// source.
struct mixed_sample {
  std::size_t source = 0, sample = 0;
  std::uint64_t epoch = 0;

  friend bool operator==(mixed_sample const&, mixed_sample const&) = default;
};

/// The order of a mixture: for each position, counted from 0 over all epochs, the source and the
/// sample in this source. The order depends only on the seed and the sources.
///
/// Two sources alternate as evenly as their shares allow: of the first n samples, n times the share
/// of the lighter source (the source with the smaller share), rounded, are from this source. Three
/// or more sources form a binary tree of such pairs. As in Huffman's code, the two sources with the
/// smallest shares are joined to a pair first, then the two smallest of the pairs and sources that
/// remain, and so on. In an epoch of a source each of its samples occurs once, in the order of a
/// `sampler`.
///
/// In any window of L successive positions, the number of samples of source s differs from L times
/// its share by less than count_error(s): by less than 1 for two sources, 2 for three and 3.5 for
/// any number. docs/design/data.md has the proof. No order of three or more sources can keep this
/// difference below 1 for all shares: such an order would be a balanced word (Fraenkel's
/// conjecture, proved for up to seven sources).
/// Cost:    no memory per sample; `at` takes some nanoseconds for each pair on the way through the
///          tree, and as long as a sampler's `at`, about 200 ns.
/// Threads: all members are const and may run at the same time.
class mixing_order {
 public:
  /// The smallest share of a source, as a part of the sum of all shares.
  static constexpr double least_share = 1e-12;

  /// Makes the order of at least one source.
  ///
  /// Errors: input_error if a source has no samples, or a share that is not finite, not above 0, or
  ///         smaller than least_share of the sum.
  mixing_order(std::uint64_t seed, lean_vector<mixed_source> sources);

  /// Returns the number of sources.
  [[nodiscard]] std::size_t size() const { return sources_.size(); }
  /// Returns the share of a source in all samples; the shares of all sources add up to 1.
  [[nodiscard]] double share(std::size_t source) const;
  /// Returns the sample at a position.
  [[nodiscard]] mixed_sample at(std::uint64_t position) const;
  /// Returns how many of the first `positions` positions have a sample of this source.
  [[nodiscard]] std::uint64_t count(std::size_t source, std::uint64_t positions) const;
  /// Returns an upper bound of the error of a source: in any window of L successive positions, the
  /// number of samples of the source differs from L times its share by less than this bound.
  [[nodiscard]] double count_error(std::size_t source) const;
  /// Returns the greatest n for which no sample occurs twice at the positions 0 to n - 1.
  [[nodiscard]] std::size_t until_first_repeat() const;

  /// Returns a text with the shares as they were given, the seed, the number of samples in an epoch
  /// of the mixture, and the names of the sources.
  [[nodiscard]] std::string text(lean_vector<std::string> const& names, std::size_t samples) const;
  /// Returns a hash of the seed and the sources' properties.
  [[nodiscard]] std::uint64_t fingerprint() const;

 private:
  static constexpr std::size_t none = ~std::size_t{0};

  // A node of the tree: a source or a pair. The sources have the lowest numbers, then come the
  // pairs; the last pair contains all sources.
  struct node {
    double weight = 0;
    std::size_t parent = none, lighter = none, heavier = none;
    std::uint64_t part_of_lighter = 0;  // in units of 2^-64, at most one half
    std::uint64_t seed = 0;             // the seed of the order of a source's samples
  };
  void join_two_lightest();
  /// Returns how many of the first `samples` samples of a pair are from the pair's lighter child.
  [[nodiscard]] static std::uint64_t of_lighter(node const& pair, std::uint64_t samples);

  std::uint64_t seed_;
  lean_vector<mixed_source> sources_;
  lean_vector<node> nodes_;
};

}  // namespace plait::ext

namespace plait::detail {

/// The shape of a source's samples, and the names of its classes.
struct mixed_shape {
  std::size_t sequence_length = 0, width = 0, target_width = 0;
  std::size_t channels = 0, height = 0;  ///< 0 if the samples are not pictures
  std::vector<std::string> classes{};    ///< empty if the classes have no names
};

/// Checks that samples of all sources have the same shape, and that all sources whose classes have
/// names have the same names.
///
/// Errors: input_error with the shapes of two sources, or the first names that differ.
[[gnu::cold]] void require_same_shapes(ext::lean_vector<mixed_shape> const& shapes);

/// Returns the number of samples in an epoch of a mixture: the number `asked`, or
/// until_first_repeat() if that is 0.
///
/// Errors: input_error if it is more than 2^53.
[[nodiscard]] [[gnu::cold]] std::size_t samples_of_mixture(ext::mixing_order const& order,
                                                           std::size_t asked);

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/data/mixing_order.ipp"
#endif
