// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "plait/core/clock.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/data/batch_options.hpp"
#include "plait/data/batch_size.hpp"
#include "plait/data/dataset.hpp"
#include "plait/data/host_batch.hpp"
#include "plait/data/loader.hpp"
#include "plait/data/reads_ahead.hpp"
#include "plait/data/sampler.hpp"
#include "plait/mesh/mesh.hpp"
#include "plait/placement/batch_slicing.hpp"
#include "plait/tensor/batch.hpp"

namespace plait::ext {

/// The batches of one data rank, one for each step, in the memory of the rank's device.
///
/// All ranks that differ only along the tensor or stage axis get the same samples. Each sample goes
/// to exactly one data rank in an epoch. `Held` is the data set, or a reference to it. If
/// `batch_options::ahead` is not 0, threads of the rank read the samples of the next steps,
/// beginning at the first step that the program requests. The values of a batch do not depend on
/// these threads.
/// Cost:   the constructor allocates once and computes loader::fingerprint. On the device each
///         batch replaces the previous batch; the host has buffers for 1 + ahead batches.
/// Errors: input_error if the number of samples of a data rank is not a multiple of the number of
///         microbatches, if the number of samples of a batch is not a multiple of the number of
///         slices or, under `shares`, of the number of microbatches of all data ranks, or if the
///         data set is smaller than one batch and partial batches are dropped; out_of_memory; error
///         if the threads that read ahead cannot be started.
template <class Held, class Rank, class Element = void>
class batch_range {
  using Data = std::remove_cvref_t<Held>;
  using memory = typename Rank::device_type::memory;
  using loader_type = loader<Data, Element>;  // also checks that Data is a data set
  using element = typename loader_type::element;
  using target = typename loader_type::target;
  using host_type = detail::host_batch<loader_type>;
  using clock = std::chrono::steady_clock;

 public:
  using batch_type = batch_of<memory, element, target>;

  [[gnu::cold]] batch_range(Held&& data, global_batch<> size, Rank& rank,
                            batch_options const& options);
  batch_range(batch_range const&) = delete;
  batch_range& operator=(batch_range const&) = delete;
  [[gnu::cold]] ~batch_range() = default;

  /// Returns the number of steps in one epoch.
  [[nodiscard]] std::size_t steps_per_epoch() const { return sampler_.batches_per_epoch(size_); }

  /// Returns true if step `step` is after the last step of the last epoch.
  [[nodiscard]] bool is_past_end(std::uint64_t step) const {
    return epochs_ != 0 && step / steps_per_epoch() >= epochs_;
  }

  /// Returns the batch of step `step`, counted from 0 over all epochs. The next call replaces the
  /// batch; trainers refuse the old batch afterwards.
  ///
  /// Errors: input_error if the step is past the end.
  batch_type at(std::uint64_t step) &;
  /// Deleted for temporaries, because the batch would refer to memory that the temporary owns.
  batch_type at(std::uint64_t step) && = delete;

  class iterator {
   public:
    iterator(batch_range& range, std::uint64_t step) : range_(&range), step_(step) {}
    batch_type operator*() const { return range_->at(step_); }
    iterator& operator++() {
      ++step_;
      return *this;
    }
    friend bool operator==(iterator const& it, std::default_sentinel_t) {
      return it.range_->is_past_end(it.step_);
    }

   private:
    batch_range* range_;
    std::uint64_t step_;
  };
  iterator begin() { return {*this, 0}; }
  std::default_sentinel_t end() { return {}; }

  /// The batches from a step on, for a range-based for loop: a resumed run trains on these
  /// remaining batches.
  class rest {
   public:
    rest(batch_range& range, std::uint64_t step) : range_(&range), step_(step) {}
    iterator begin() const { return {*range_, step_}; }
    std::default_sentinel_t end() const { return {}; }

   private:
    batch_range* range_;
    std::uint64_t step_;
  };
  /// Returns the batches from `step` on; no batches if `step` is the step after the last.
  ///
  /// Errors: input_error if `step` is later than the step after the last.
  [[nodiscard]] rest from(std::uint64_t step) & {
    if (step > 0 && is_past_end(step - 1)) refuse(concat({"those from step ", step, " on were"}));
    return {*this, step};
  }
  /// Deleted for temporaries, because a loop over the result would use the temporary after its
  /// destruction.
  rest from(std::uint64_t step) && = delete;

  /// Returns the properties by which ranks and checkpoints compare batches.
  [[nodiscard]] batch_description const& description() const { return description_; }

  /// Returns the number of epochs; 0 if the batches never end.
  [[nodiscard]] std::uint64_t epochs() const { return epochs_; }
  /// Returns the number of rows of each microbatch of this rank: positions times samples.
  [[nodiscard]] std::size_t rows() const { return batch_.rows(); }
  [[nodiscard]] int microbatches() const { return batch_.microbatches; }
  [[nodiscard]] std::size_t sequence_length() const { return batch_.sequence; }
  [[nodiscard]] bool has_weights() const { return batch_.weights != nullptr; }
  [[nodiscard]] bool has_documents() const { return batch_.document_positions != nullptr; }

  /// Returns the number of bytes of host memory that this rank needs in addition to the data set.
  [[nodiscard]] std::size_t host_bytes() const;

 private:
  [[noreturn]] [[gnu::cold]] void refuse(std::string const& what) const;
  [[gnu::cold]] void cut_into_microbatches(int asked);
  [[gnu::cold]] void cut_into_slices(batch_slicing const& how, int asked);
  [[nodiscard]] int asked_or_usual(int asked) const {
    return asked > 0 ? asked : rank_.grid().size(axis::stage);
  }

  [[gnu::cold]] void start_readers(batch_options const& options);
  /// Fills one place (the memory of one sample) of a buffer. Each reader thread calls this function
  /// with its own loader.
  void fill(int reader, std::size_t buffer, std::uint64_t step, std::size_t place) {
    load(loaders_[static_cast<std::size_t>(reader)], host_[buffer], share_in(step), place);
  }

  /// The samples of a step that this rank trains on.
  struct step_share {
    std::uint64_t epoch = 0;
    std::size_t begin = 0;    // place of the batch's first sample in the epoch's order
    std::size_t samples = 0;  // number of samples in the batch
    sample_slice share{};     // this rank's part of the batch; not used if microbatches are slices
  };
  [[nodiscard]] step_share share_in(std::uint64_t step) const;
  /// The number of a sample, and the epoch in which it is read.
  struct read_sample {
    std::size_t number = loader_type::no_sample;
    std::uint64_t epoch = 0;
  };
  /// Returns the sample at a place of this rank's batch. Places are ordered by microbatch. If
  /// microbatches are slices, the samples of a partial batch are spread over all slices.
  [[nodiscard]] read_sample sample_at(step_share const& of, std::size_t place) const;
  /// Copies the sample at a place from the data set into host memory.
  void load(loader_type& with, host_type& to, step_share const& of, std::size_t place) const;
  void point_to(host_type const& host);

  /// Allocates memory for this rank's samples on the host and on its device.
  [[gnu::cold]] void allocate(std::size_t samples, std::size_t buffers);

  [[nodiscard]] std::size_t targets_at() const {
    return (host_.front().inputs.size() * sizeof(element) + 63) / 64 * 64;
  }
  [[nodiscard]] std::size_t weights_at() const {
    return (targets_at() + host_.front().targets.size() * sizeof(target) + 63) / 64 * 64;
  }
  [[nodiscard]] std::size_t positions_at() const {
    return (weights_at() + host_.front().weights.size() * sizeof(double) + 63) / 64 * 64;
  }

  Rank& rank_;
  Held data_;
  std::vector<loader_type> loaders_;  // one for each reader thread
  sampler sampler_;
  global_batch<> size_;
  std::uint64_t epochs_;
  bool for_evaluation_;
  int data_rank_ = rank_.grid().place_in_group(rank_.coordinates(), batch_axes);
  int data_ranks_ = rank_.grid().size(batch_axes);
  batch_description description_;
  lean_vector<host_type> host_;
  typename Rank::device_type::arena buffer_;
  batch_type batch_;
  // The readers are declared last, so that they are destroyed before the buffers that their threads
  // fill.
  std::optional<detail::reads_ahead> ahead_{};
};

template <class Held, class Rank, class Element>
batch_range<Held, Rank, Element>::batch_range(Held&& data, global_batch<> size, Rank& rank,
                                              batch_options const& options)
    : rank_(rank),
      data_(std::forward<Held>(data)),
      sampler_(data_.size(), {.seed = options.seed,
                              .order = has_own_order<Data> ? sample_order::sequential : options.how,
                              .last = options.last}),
      size_(size),
      epochs_(options.epochs),
      for_evaluation_(options.for_evaluation) {
  detail::check(options);
  detail::require_features(data_);
  loaders_.emplace_back(data_);
  if (steps_per_epoch() == 0)
    throw input_error({"batches: a global batch of ", size.samples,
                       " samples is larger than the data set of ", data_.size(),
                       " samples, so an epoch would have no step; use a smaller batch, or set "
                       ".last = plait::last_batch::keep"});
  batch_.together = rank.groups().samples_together();
  if (rank.groups().slicing().is_given())
    cut_into_slices(rank.groups().slicing(), options.microbatches);
  else cut_into_microbatches(options.microbatches);
  if (batch_.samples % batch_.together != 0)
    throw input_error(
        {"batches: a microbatch has ", batch_.samples,
         " samples on each data rank, but a layer of the job computes statistics of groups of "
         "samples, and ",
         batch_.together,
         " samples of a group must be in the same microbatch; choose a batch size and "
         ".microbatches so that each microbatch has whole groups, or change the layer's .group"});
  auto const pieces = static_cast<std::size_t>(batch_.microbatches);
  auto& loader = loaders_.front();
  batch_.sequence = data_.sequence_length();
  batch_.element_bytes = sizeof(element);
  batch_.input = {std::is_integral_v<element> ? value_kind::tokens : value_kind::features,
                  loader.inputs_per_sample() / data_.sequence_length()};
  allocate(batch_.places(), static_cast<std::size_t>(options.ahead) + 1);
  batch_.target = {std::is_integral_v<target> ? value_kind::tokens : value_kind::reals,
                   loader.target_width()};
  batch_.target_bytes = sizeof(target);
  auto const& host = host_.front();
  batch_.input_stride_bytes = host.inputs.size() / pieces * sizeof(element);
  batch_.target_stride_bytes = host.targets.size() / pieces * sizeof(target);
  batch_.inputs = buffer_.data();
  batch_.targets = buffer_.data() + targets_at();
  if (!host.weights.empty())
    batch_.weights = reinterpret_cast<double*>(buffer_.data() + weights_at());
  if constexpr (host_type::has_positions)
    if (!host.positions.empty()) {
      batch_.document_positions = reinterpret_cast<std::int32_t*>(buffer_.data() + positions_at());
      batch_.document_stride = static_cast<std::int64_t>(batch_.rows());
    }
  point_to(host);
  batch_.description = &description_;
  description_ = {.number = rank.next_batches(),
                  .seed = options.seed,
                  .samples = size.samples,
                  .data_set = data_.size(),
                  .is_shuffled = sampler_.options().order == sample_order::shuffled,
                  .keeps_last = options.last == last_batch::keep,
                  .content = loader.fingerprint(),
                  .text = description_of(data_),
                  .for_evaluation = options.for_evaluation,
                  .is_random = is_random_data<Data> && !options.for_evaluation};
  if (options.ahead > 0) start_readers(options);
}

template <class Held, class Rank, class Element>
auto batch_range<Held, Rank, Element>::at(std::uint64_t step) & -> batch_type {
  if (is_past_end(step)) refuse(concat({"the batch of step ", step, " was"}));
  batch_.step = description_.step = step;
  auto const begin = clock::now();
  auto const of = share_in(step);
  batch_.missing_samples = size_.samples - of.samples;
  batch_.first_sample = batch_.slices > 0 ? batch_.slice_of(0).first : of.share.first;
  auto& host = host_[ahead_ ? ahead_->take(step) : 0];
  if (!ahead_)
    for (std::size_t place = 0; place < batch_.places(); ++place)
      load(loaders_.front(), host, of, place);
  batch_.waited = std::chrono::duration<double>(clock::now() - begin).count();
  point_to(host);
  auto const upload = [&](auto const& values, void* to) {
    rank_.device().upload(values.data(), to, values.size() * sizeof(values[0]));
  };
  upload(host.inputs, batch_.inputs);
  upload(host.targets, batch_.targets);
  if (!host.weights.empty()) upload(host.weights, batch_.weights);
  if constexpr (host_type::has_positions)
    if (!host.positions.empty()) upload(host.positions, batch_.document_positions);
  return batch_;
}

template <class Held, class Rank, class Element>
std::size_t batch_range<Held, Rank, Element>::host_bytes() const {
  std::size_t bytes =
      host_.size() * batch_.places() * host_type::bytes_per_sample(loaders_.front());
  for (auto const& loader : loaders_) bytes += loader.host_bytes();
  return bytes;
}

template <class Held, class Rank, class Element>
void batch_range<Held, Rank, Element>::refuse(std::string const& what) const {
  auto const each = steps_per_epoch();
  throw input_error(
      {"batches: ", what, " requested, but the epochs, ", epochs_, " of ", each,
       " batches, end after step ", epochs_ * each - 1,
       "; request an earlier step, or set .epochs to a larger number (0 for no end)"});
}

template <class Held, class Rank, class Element>
void batch_range<Held, Rank, Element>::cut_into_microbatches(int asked) {
  batch_.microbatches = asked_or_usual(asked);
  std::size_t const per_rank = size_.per_rank(data_ranks_);
  auto const pieces = static_cast<std::size_t>(batch_.microbatches);
  if (per_rank % pieces != 0)
    throw input_error({"batches: a global batch of ", size_.samples, " gives ", per_rank,
                       " samples to each of ", data_ranks_,
                       " data ranks, which cannot be divided equally into ", pieces,
                       " microbatches"});
  batch_.samples = per_rank / pieces;
}

template <class Held, class Rank, class Element>
void batch_range<Held, Rank, Element>::cut_into_slices(batch_slicing const& how, int asked) {
  int const microbatches = asked_or_usual(asked);
  if (how.slices == 0) {
    batch_.samples = detail::samples_per_share(size_.samples, how.count(data_ranks_, 1),
                                               microbatches, text_of_shares(how.shares));
  } else {
    if (asked > 0)
      throw input_error({"batches: .microbatches is ", asked, ", but the job is reproducible<",
                         how.slices,
                         ">, in which each slice is one microbatch; leave .microbatches out"});
    batch_.samples = size_.per_slice(how.slices);
  }
  auto const mine = how.of_rank(data_rank_, data_ranks_, microbatches);
  batch_.slices = how.count(data_ranks_, microbatches);
  batch_.first_slice = mine.first;
  batch_.microbatches = mine.count;
}

template <class Held, class Rank, class Element>
void batch_range<Held, Rank, Element>::start_readers(batch_options const& options) {
  for (int more = 1; more < options.readers; ++more) loaders_.emplace_back(data_);
  ahead_.emplace(
      detail::reads_ahead::shape{.ahead = static_cast<std::size_t>(options.ahead),
                                 .places = batch_.places(),
                                 .readers = options.readers},
      detail::reads_ahead::source{[this](int reader, std::size_t buffer, std::uint64_t step,
                                         std::size_t place) { fill(reader, buffer, step, place); },
                                  [this](std::uint64_t step) { return is_past_end(step); }});
}

template <class Held, class Rank, class Element>
auto batch_range<Held, Rank, Element>::share_in(std::uint64_t step) const -> step_share {
  auto const where = sampler_.position(size_, step);
  step_share of{.epoch = where.epoch, .begin = where.batch * size_.samples};
  of.samples = std::min<std::size_t>(size_.samples, data_.size() - of.begin);
  // If partial batches are dropped, an epoch in the data set's own order begins with the samples
  // that are left from the epoch before.
  if (has_own_order<Data> && sampler_.options().last == last_batch::drop) {
    std::uint64_t const first = step * size_.samples;
    of.epoch = first / data_.size();
    of.begin = static_cast<std::size_t>(first % data_.size());
  }
  of.share = share_of_samples(of.samples, data_rank_, data_ranks_, batch_.together);
  return of;
}

template <class Held, class Rank, class Element>
auto batch_range<Held, Rank, Element>::sample_at(step_share const& of, std::size_t place) const
    -> read_sample {
  auto share = of.share;
  if (batch_.slices > 0) {
    auto const slice = static_cast<int>(place / batch_.samples);
    share =
        share_of_samples(of.samples, batch_.first_slice + slice, batch_.slices, batch_.together);
    place %= batch_.samples;
  }
  if (place >= share.count) return {.epoch = of.epoch};
  std::size_t const index = of.begin + share.first + place;
  if constexpr (has_own_order<Data>)  // a batch may reach into the next epoch
    return {index % data_.size(), of.epoch + index / data_.size()};
  else return {sampler_.at(of.epoch, index), of.epoch};
}

template <class Held, class Rank, class Element>
void batch_range<Held, Rank, Element>::load(loader_type& with, host_type& to, step_share const& of,
                                            std::size_t place) const {
  auto const sample = sample_at(of, place);
  to.samples[place] = sample.number;
  with.fill_place(sample.number,
                  for_evaluation_ ? no_epoch : static_cast<std::int64_t>(sample.epoch), place,
                  batch_.samples, to.buffers());
}

template <class Held, class Rank, class Element>
void batch_range<Held, Rank, Element>::point_to(host_type const& host) {
  batch_.host_inputs = host.inputs.data();
  batch_.host_targets = host.targets.data();
  batch_.host_weights = host.weights.empty() ? nullptr : host.weights.data();
  if constexpr (host_type::has_positions)
    batch_.host_document_positions = host.positions.empty() ? nullptr : host.positions.data();
  batch_.sample_numbers = host.samples.data();
}

template <class Held, class Rank, class Element>
void batch_range<Held, Rank, Element>::allocate(std::size_t samples, std::size_t buffers) {
  auto const& loader = loaders_.front();
  std::size_t const each = host_type::bytes_per_sample(loader);
  auto const fail = [&](std::string const& why) {
    throw out_of_memory(
        concat({"batches: a global batch of ", size_.samples, " samples gives ", samples,
                " samples to each data rank, whose inputs and targets take ", each, " bytes each",
                (buffers > 1 ? concat({", ", buffers, " times with .ahead"}) : std::string{}),
                "; rank ", rank_.world_rank(), " has no memory for them", why,
                "; use a smaller batch or more data ranks"}),
        {.asked = samples * each});
  };
  if (samples > std::numeric_limits<std::ptrdiff_t>::max() / each / buffers) fail("");
  try {
    host_.reserve(buffers);
    for (std::size_t i = 0; i < buffers; ++i) host_.push_back(host_type(loader, samples));
    auto const& host = host_.front();
    std::size_t bytes = host.weights.empty() ? targets_at() + host.targets.size() * sizeof(target)
                                             : weights_at() + host.weights.size() * sizeof(double);
    if constexpr (host_type::has_positions)
      if (!host.positions.empty())
        bytes = positions_at() + host.positions.size() * sizeof(std::int32_t);
    buffer_ = rank_.device().allocate(bytes);
  } catch (std::bad_alloc const&) {
    fail(" on the host");
  } catch (out_of_memory const& problem) {
    fail(std::string(": ") + problem.what());
  }
}

}  // namespace plait::ext

namespace plait::detail {

template <class Data>
inline constexpr bool is_dataset = ext::token_dataset<Data> || ext::feature_dataset<Data>;

template <class Data>
struct needs_dataset {
  static_assert(is_dataset<Data>,
                "batches(dataset, size, rank): the first argument is not a data set; write "
                "plait::in_memory<float> data(...) for samples in memory. A data set type of your "
                "own must define concept_tag, element, size, sequence_length, inputs and targets "
                "(and width, if its samples are features); see plait/data/dataset.hpp");
};

}  // namespace plait::detail

namespace plait {

/// Returns the batches of `rank`: `for (auto const& batch : plait::batches(data,
/// global_batch<64>{}, rank))`.
///
/// Callers omit the last two arguments: their types only check the other arguments and report
/// errors.
///
/// The features of a batch have the element type of the data set. If the job computes in another
/// type, name that type: `plait::batches<plait::bfloat16>(data, ...)`. A named data set must
/// outlive the batches; a temporary data set is moved into the batches.
///
/// Example (tests/reference/names_in_use_test.cpp batches):
///     auto batches =
///         plait::batches(data, plait::global_batch<32>{}, rank, {.seed = 1, .epochs = 2});
///     for (auto const& batch : batches) trainer.step(batch);  // 2 steps in each epoch
template <class Element, class Data, class Batch, class Rank>
auto batches(Data&& data, Batch size, Rank& rank, batch_options const& options = {},
             detail::needs_dataset<std::remove_cvref_t<Data>> = {},
             detail::needs_global_batch<Batch> = {}) {
  if constexpr (detail::is_dataset<std::remove_cvref_t<Data>> && ext::global_batch_size<Batch>)
    return ext::batch_range<Data, Rank, Element>(std::forward<Data>(data),
                                                 global_batch<>{size.samples}, rank, options);
  // Prevents further compile errors.
  else return std::vector<device_batch<typename Rank::device_type::memory>>{};
}
/// \overload
template <class Data, class Batch, class Rank>
auto batches(Data&& data, Batch size, Rank& rank, batch_options const& options = {},
             detail::needs_dataset<std::remove_cvref_t<Data>> = {},
             detail::needs_global_batch<Batch> = {}) {
  return batches<void>(std::forward<Data>(data), size, rank, options);
}

/// Fails to compile, because the argument `rank` is missing: all ranks would read the same samples.
template <class Data, class Batch>
auto batches(Data const&, Batch) {
  static_assert(!std::is_same_v<Data, Data>,
                "batches(dataset, size): without its rank, every data rank would read the same "
                "samples; write plait::batches(dataset, plait::global_batch<N>{}, rank)");
  return std::vector<device_batch<ext::host_memory>>{};  // prevents further compile errors
}

}  // namespace plait
