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

/// A sample of a mixture: the source, the number of the sample there, and the epoch of the source.
struct mixed_sample {
  std::size_t source = 0, sample = 0;
  std::uint64_t epoch = 0;

  friend bool operator==(mixed_sample const&, mixed_sample const&) = default;
};

/// The order of a mixture: for each position, counted from 0 over all epochs, the source and the
/// sample. It depends only on the seed and the sources.
///
/// Two sources alternate as evenly as their shares allow: of the first n samples, n times the share
/// of the lighter source, rounded, are from this source. Any number of sources is a binary tree of
/// such pairs. The tree joins the two lightest sources first, as Huffman's code does, then the two
/// lightest of the rest, and so on. In an epoch of a source each of its samples occurs once, in the
/// order of a `sampler`.
///
/// In any window of L successive positions, the number of samples of source s differs from L times
/// its share by less than count_error(s): by less than 1 for two sources, 2 for three and 3.5 for
/// any number. docs/design/data.md has the proof. No order of three or more sources can keep it
/// below 1 for all shares; this would make the order a balanced word (Fraenkel's conjecture, proved
/// for up to seven sources).
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

  /// The number of sources.
  [[nodiscard]] std::size_t size() const { return sources_.size(); }
  /// The part of all samples that are from a source; all parts add up to 1.
  [[nodiscard]] double share(std::size_t source) const;
  /// Returns the sample at a position.
  [[nodiscard]] mixed_sample at(std::uint64_t position) const;
  /// Returns the number of samples of a source at the first `positions` positions.
  [[nodiscard]] std::uint64_t count(std::size_t source, std::uint64_t positions) const;
  /// Returns the number that is above each difference between the number of samples of a source in
  /// a window and the window's length times the share.
  [[nodiscard]] double count_error(std::size_t source) const;
  /// Returns the greatest number of first positions at which no sample occurs twice.
  [[nodiscard]] std::size_t until_first_repeat() const;

  /// Returns a text with the shares as they were given, the seed, the number of samples in an epoch
  /// of the mixture, and the names of the sources.
  [[nodiscard]] std::string text(lean_vector<std::string> const& names, std::size_t samples) const;
  /// Returns a hash of the seed and the sources' properties.
  [[nodiscard]] std::uint64_t fingerprint() const;

 private:
  static constexpr std::size_t none = ~std::size_t{0};

  // A source or a pair. Nodes are numbered: first the sources, then the pairs, whose last one has
  // all sources.
  struct node {
    double weight = 0;
    std::size_t parent = none, lighter = none, heavier = none;
    std::uint64_t part_of_lighter = 0;  // in units of 2^-64, at most one half
    std::uint64_t seed = 0;             // the seed of the order of a source's samples
  };
  void join_two_lightest();
  /// Returns the number of samples that the lighter child of a pair has of the first `samples`.
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
  std::size_t channels = 0, height = 0;  ///< 0 without pictures
  std::vector<std::string> classes{};    ///< empty without names
};

/// Checks that samples of all sources have the same shape, and that the sources with names of
/// classes have the same names.
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
