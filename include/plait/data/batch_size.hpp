// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "plait/core/error.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"

namespace plait {

namespace detail {

constexpr std::size_t samples_per_rank(std::size_t samples, int data_ranks) {
  if (data_ranks < 1 || samples % static_cast<std::size_t>(data_ranks) != 0)
    throw input_error(
        {"global_batch: ", samples, " samples cannot be divided equally over ", data_ranks,
         " data ranks; choose a batch size that is a multiple of the number of data ranks"});
  return samples / static_cast<std::size_t>(data_ranks);
}

constexpr std::size_t samples_per_slice(std::size_t samples, int slices) {
  if (samples % static_cast<std::size_t>(slices) != 0)
    throw input_error({"global_batch: ", samples, " samples cannot be divided equally into ",
                       "the ", slices, " slices of reproducible<", slices,
                       ">; choose a batch size that is a multiple of the number of slices"});
  return samples / static_cast<std::size_t>(slices);
}

/// Returns the number of samples of a microbatch if `sum` shares have `microbatches` microbatches
/// each. `shares`: the shares as text.
///
/// Errors: input_error if the samples cannot be divided equally.
[[nodiscard]] [[gnu::cold]] std::size_t samples_per_share(std::size_t samples, int sum,
                                                          int microbatches,
                                                          std::string const& shares);

constexpr std::size_t at_least_one_sample(std::size_t samples) {
  if (samples == 0) throw input_error("a batch must have at least 1 sample, got 0");
  return samples;
}

}  // namespace detail

/// The number of samples of one step on all data ranks together: `global_batch<64>{}`, or
/// `global_batch<>{n}` for a number known at run time.
///
/// Example (tests/reference/names_in_use_test.cpp global_batch):
///     plait::global_batch<64> const batch_size{};  // with 2 data ranks, each has 32
template <std::size_t Samples = 0>
struct global_batch {
  static constexpr bool is_static = true;
  static constexpr std::size_t samples = Samples;

  /// Returns the number of samples of one data rank.
  ///
  /// Errors: input_error if the samples cannot be divided equally over the ranks.
  [[nodiscard]] constexpr std::size_t per_rank(int data_ranks) const {
    return detail::samples_per_rank(samples, data_ranks);
  }
  /// Returns the number of samples of one slice.
  ///
  /// Errors: input_error if the samples cannot be divided equally over the slices.
  [[nodiscard]] constexpr std::size_t per_slice(int slices) const {
    return detail::samples_per_slice(samples, slices);
  }
};

/// A batch size that is known at run time. Errors: input_error for 0 samples.
template <>
struct global_batch<0> {
  static constexpr bool is_static = false;
  std::size_t samples;

  constexpr explicit global_batch(std::size_t count)
      : samples(detail::at_least_one_sample(count)) {}

  [[nodiscard]] constexpr std::size_t per_rank(int data_ranks) const {
    return detail::samples_per_rank(samples, data_ranks);
  }
  /// Returns the number of samples of one slice.
  ///
  /// Errors: input_error if the samples cannot be divided equally over the slices.
  [[nodiscard]] constexpr std::size_t per_slice(int slices) const {
    return detail::samples_per_slice(samples, slices);
  }
};

/// The number of samples of one step on each data rank: `per_rank_batch<16>{}`, or
/// `per_rank_batch<>{n}`.
template <std::size_t Samples = 0>
struct per_rank_batch {
  static constexpr bool is_static = true;
  static constexpr std::size_t samples = Samples;

  /// Returns the number of samples of one step on all data ranks together.
  [[nodiscard]] constexpr global_batch<> over(int data_ranks) const {
    return global_batch<>{data_ranks < 1 ? 0 : samples * static_cast<std::size_t>(data_ranks)};
  }
};

/// A batch size that is known at run time. Errors: input_error for 0 samples.
template <>
struct per_rank_batch<0> {
  static constexpr bool is_static = false;
  std::size_t samples;

  constexpr explicit per_rank_batch(std::size_t count)
      : samples(detail::at_least_one_sample(count)) {}

  [[nodiscard]] constexpr global_batch<> over(int data_ranks) const {
    return global_batch<>{data_ranks < 1 ? 0 : samples * static_cast<std::size_t>(data_ranks)};
  }
};

}  // namespace plait

namespace plait::detail {

template <class>
inline constexpr bool is_global_batch = false;
template <std::size_t Samples>
inline constexpr bool is_global_batch<global_batch<Samples>> = true;
template <class>
inline constexpr bool is_per_rank_batch = false;
template <std::size_t Samples>
inline constexpr bool is_per_rank_batch<per_rank_batch<Samples>> = true;

}  // namespace plait::detail

namespace plait::ext {

/// A `global_batch` whose size is known at compile time or at run time.
template <class B>
concept global_batch_size = detail::is_global_batch<B>;

}  // namespace plait::ext

namespace plait::detail {
/// Fails to compile, with advice, if the argument of a function is not a global batch. Functions
/// use this type for a defaulted argument, because compilers then print nothing else before the
/// message.
template <class Batch>
struct needs_global_batch {
  static_assert(!is_per_rank_batch<Batch>,
                "per_rank_batch<N> is given where the global batch is asked for; write "
                "global_batch<N * data ranks>{}, or per_rank_batch<N>{}.over(data ranks)");
  static_assert(is_per_rank_batch<Batch> || is_global_batch<Batch>,
                "the batch size is a bare number, which does not say whether it counts the samples "
                "of one data rank or of all; write global_batch<N>{} or global_batch<>{n}");
};
}  // namespace plait::detail

namespace plait::ext {

/// Fails to compile, with advice, if `Batch` is not a global batch.
template <class Batch>
consteval void require_global_batch() {
  static_cast<void>(detail::needs_global_batch<Batch>{});
}

static_assert(global_batch_size<global_batch<64>> && global_batch_size<global_batch<>>);
static_assert(!global_batch_size<per_rank_batch<16>>);

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/data/batch_size.ipp"
#endif
