// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "plait/core/namespaces.hpp"
#include "plait/layer/value.hpp"
#include "plait/tensor/view.hpp"

namespace plait::ext {

/// A description of a sequence of batches. A trainer checks that all ranks have the same
/// description.
struct batch_description {
  std::uint64_t number = 0;  ///< number of this sequence on its rank, see rank_handle::next_batches
  std::uint64_t seed = 0;
  std::size_t samples = 0;   ///< number of samples in a global batch
  std::size_t data_set = 0;  ///< number of samples in the data set
  bool is_shuffled = false, keeps_last = false;
  std::uint64_t content = 0;    ///< loader::fingerprint of the data set
  std::string text{};           ///< the data set's description of itself; may be empty
  bool for_evaluation = false;  ///< if true, nothing is random
  bool is_random = false;       ///< true if inputs differ from epoch to epoch
  std::uint64_t step = 0;       ///< step of the batch that the memory contains now
};

/// Consecutive samples in an order of samples: the indices `first` to `first + count - 1`.
struct sample_slice {
  std::size_t first = 0;
  std::size_t count = 0;

  friend constexpr bool operator==(sample_slice, sample_slice) = default;
};

/// Returns the share of rank `rank` in `count` samples. The samples are divided into consecutive
/// pieces that differ by at most one sample, longer pieces first: 10 samples on 4 ranks are 3, 3, 2
/// and 2. If `together` is more than 1, groups of `together` consecutive samples are divided
/// instead of single samples.
constexpr sample_slice share_of_samples(std::size_t count, int rank, int ranks,
                                        std::size_t together = 1) {
  if (together > 1) {
    auto const groups = share_of_samples((count + together - 1) / together, rank, ranks);
    std::size_t const first = groups.first * together, last = first + groups.count * together;
    std::size_t const begin = first < count ? first : count, end = last < count ? last : count;
    return {begin, end - begin};
  }
  auto const r = static_cast<std::size_t>(rank);
  std::size_t const each = count / static_cast<std::size_t>(ranks);
  std::size_t const longer = count % static_cast<std::size_t>(ranks);
  return {r * each + (r < longer ? r : longer), each + (r < longer ? 1 : 0)};
}

}  // namespace plait::ext

namespace plait {

/// The samples of one step for one data rank, in the memory of its device. A loader returns it, and
/// a trainer takes it.
///
/// Shapes: for each microbatch, rows = sequence * samples, row = position * samples + sample.
///         Inputs and targets of microbatch m begin at m times their stride.
template <class Memory>
struct device_batch {
  using memory = Memory;

  std::uint64_t step = 0;   ///< step to which the batch belongs, see batch_range::at
  std::size_t samples = 0;  ///< number of samples in one microbatch on this data rank
  std::size_t sequence = 1;
  int microbatches = 1;
  /// The number of slices of the global batch if each microbatch is one slice (see `reproducible`
  /// and `shares`); else 0.
  int slices = 0;
  int first_slice = 0;  ///< number of the slice that is the first microbatch
  /// The number of consecutive samples of the global batch that stay on one rank and in one
  /// microbatch.
  std::size_t together = 1;
  std::size_t first_sample = 0;  ///< index within the global batch of this data rank's first sample
  /// The number of samples that the global batch lacks. It is above 0 only in the last batch of an
  /// epoch, in which some rows then belong to no sample.
  std::size_t missing_samples = 0;
  std::byte* inputs = nullptr;
  std::size_t input_stride_bytes = 0;
  ext::value_info input{};        ///< kind and width of the inputs, per row
  std::size_t element_bytes = 0;  ///< size of an input element if inputs are features
  std::byte* targets = nullptr;
  std::size_t target_stride_bytes = 0;
  ext::value_info target{ext::value_kind::tokens, 1};  ///< kind and width of the targets, per row
  std::size_t target_bytes = sizeof(std::int32_t);
  double* weights = nullptr;  ///< weights of rows, for all microbatches; null if all are 1
  /// The position of each row within its document, for all microbatches; null if each sample is one
  /// document.
  std::int32_t* document_positions = nullptr;
  std::int64_t document_stride = 0;  ///< rows of a microbatch; 0 if each sample is one document
  // Copies of the batch in host memory.
  void const* host_inputs = nullptr;
  void const* host_targets = nullptr;
  double const* host_weights = nullptr;
  std::int32_t const* host_document_positions = nullptr;
  std::size_t const* sample_numbers = nullptr;  ///< indices in the data set, for messages
  double waited = 0;  ///< seconds for which the loader waited for the samples
  /// The description that all batches in this memory share.
  ext::batch_description const* description = nullptr;

  /// Returns the inputs in host memory if they are tokens, else null.
  [[nodiscard]] std::int32_t const* tokens() const {
    return input.kind == ext::value_kind::tokens ? static_cast<std::int32_t const*>(host_inputs)
                                                 : nullptr;
  }
  /// Returns the targets in host memory if they are integers, else null.
  [[nodiscard]] std::int32_t const* labels() const {
    return target.kind == ext::value_kind::tokens ? static_cast<std::int32_t const*>(host_targets)
                                                  : nullptr;
  }
  [[nodiscard]] std::size_t rows() const { return samples * sequence; }
  /// The number of samples for which all microbatches of this data rank together have rows. In the
  /// last batch of an epoch, some of these rows may belong to no sample.
  [[nodiscard]] std::size_t places() const {
    return samples * static_cast<std::size_t>(microbatches);
  }
  /// The number of samples in a microbatch of data rank `rank` of `ranks`. If it is less than
  /// `samples`, the last samples of the microbatch are missing, and the rows for them have no
  /// values that count. If microbatches are slices, the samples of the global batch are divided
  /// among slices, else among ranks.
  [[nodiscard]] std::size_t samples_in(int microbatch, int rank, int ranks) const {
    if (slices > 0) return slice_of(microbatch).count;
    auto const mine =
        ext::share_of_samples(places() * static_cast<std::size_t>(ranks) - missing_samples, rank,
                              ranks, together)
            .count;
    return std::min(mine - std::min(mine, samples * static_cast<std::size_t>(microbatch)), samples);
  }
  /// The number of samples in the global batch, which `ranks` data ranks share.
  [[nodiscard]] std::size_t all_samples(int ranks) const {
    std::size_t const all = slices > 0 ? samples * static_cast<std::size_t>(slices)
                                       : places() * static_cast<std::size_t>(ranks);
    return all - missing_samples;
  }
  /// The index within the global batch of a microbatch's first sample.
  [[nodiscard]] std::size_t first_sample_of(int microbatch) const {
    if (slices > 0) return slice_of(microbatch).first;
    return first_sample + samples * static_cast<std::size_t>(microbatch);
  }
  /// The samples of the global batch in a microbatch that is a slice.
  [[nodiscard]] ext::sample_slice slice_of(int microbatch) const {
    return ext::share_of_samples(samples * static_cast<std::size_t>(slices) - missing_samples,
                                 first_slice + microbatch, slices, together);
  }
  [[nodiscard]] std::byte* input_of(int microbatch) const {
    return inputs + input_stride_bytes * static_cast<std::size_t>(microbatch);
  }
  [[nodiscard]] std::byte* targets_of(int microbatch) const {
    return targets + target_stride_bytes * static_cast<std::size_t>(microbatch);
  }
  [[nodiscard]] double const* weights_of(int microbatch) const {
    return weights == nullptr ? nullptr : weights + rows() * static_cast<std::size_t>(microbatch);
  }
};

}  // namespace plait

namespace plait::ext {

/// A batch with inputs of type `Element` and targets of type `Target` (std::int32_t for tokens and
/// classes); `plait::batches` returns it. A trainer compares these types with the job's at compile
/// time, and the other properties of the batch at run time.
template <class Memory, class Element, class Target = std::int32_t>
struct batch_of : device_batch<Memory> {
  using element = Element;
  using target_element = Target;
};

}  // namespace plait::ext

namespace plait::detail {

/// Checks that the argument of a trainer is a batch of the job's types. `Element` and `Target`: the
/// types that the job takes; Target is void for a job without targets.
template <class Batch, class Memory, class Element, class Target>
consteval bool check_batch() {
  static_assert(
      requires { typename Batch::memory; },
      "trainer: a host buffer was given where a batch on the rank's device is needed; write `for "
      "(auto const& batch : plait::batches(dataset, plait::global_batch<N>{}, rank))` and pass "
      "that batch to the trainer");
  if constexpr (requires { typename Batch::memory; })
    static_assert(std::is_same_v<typename Batch::memory, Memory>,
                  "trainer: the batch is in the memory of another device than this rank's; make it "
                  "by plait::batches(dataset, batch size, rank) with the rank of this trainer");
  if constexpr (requires { typename Batch::element; }) {
    using given = typename Batch::element;
    static_assert(std::is_integral_v<given> == std::is_integral_v<Element>,
                  "trainer: the batch has tokens and the model takes features, or the other way "
                  "round; use another data set, or begin the model with an embedding");
    static_assert(
        std::is_integral_v<given> != std::is_integral_v<Element> || std::is_same_v<given, Element>,
        "trainer: the features of the batch have another type than the job computes "
        "with; write plait::batches<typename job::element>(dataset, batch size, rank)");
  }
  if constexpr (requires { typename Batch::target_element; } && !std::is_void_v<Target>) {
    using given = typename Batch::target_element;
    static_assert(!std::is_integral_v<Target> || std::is_integral_v<given>,
                  "trainer: the targets of the batch are real numbers and the loss takes integers "
                  "(plait::tokens); use a loss of plait::reals<W>, or a data set whose targets are "
                  "std::int32_t");
    static_assert(std::is_integral_v<Target> || !std::is_integral_v<given>,
                  "trainer: the targets of the batch are integers and the loss takes real numbers "
                  "(plait::reals<W>); declare `using target = float;` in the data set, or use a "
                  "loss of plait::tokens");
    static_assert(
        std::is_integral_v<given> != std::is_integral_v<Target> || std::is_same_v<given, Target>,
        "trainer: the real targets of the batch have another type than the type in which the job "
        "computes sums; write plait::batches<typename job::element>(dataset, batch size, rank)");
  }
  return std::is_base_of_v<device_batch<Memory>, Batch>;
}

}  // namespace plait::detail
