// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <new>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "plait/core/error.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/core/number_range.hpp"
#include "plait/data/batch_size.hpp"
#include "plait/data/dataset.hpp"
#include "plait/data/loader.hpp"
#include "plait/data/sampler.hpp"
#include "plait/mesh/mesh.hpp"
#include "plait/placement/slice_tree.hpp"
#include "plait/tensor/batch.hpp"

namespace plait {

struct batch_options {
  std::uint64_t seed = 0;
  sample_order how = sample_order::shuffled;
  last_batch last = last_batch::drop;
  /// Passes through the data set; 0 goes on for ever.
  std::uint64_t epochs = 1;
  /// Pieces of a step that are run one after the other; 0 takes one for each pipeline stage, and
  /// for a job that is reproducible<Slices> one for each slice of the rank, which is all it takes.
  int microbatches = 0;
};

}  // namespace plait

namespace plait::ext {

/// The batches of one data rank, one for each step, in the memory of the rank's device.
///
/// All ranks that differ only along the tensor or stage axis get the same samples, every sample
/// goes to exactly one data rank per epoch. `Held` is the data set, or a reference to it.
/// Cost:   one allocation and loader::fingerprint when it is made; each batch takes the place of
/// the
///         one before.
/// Errors: input_error if the samples of a data rank do not divide into microbatches, or those of a
///         batch into slices, or if the data set is smaller than one batch and the last is dropped;
///         out_of_memory.
template <class Held, class Batch, class Rank, class Element = void>
class batch_range {
  using Data = std::remove_cvref_t<Held>;
  static_assert((require_global_batch<Batch>(), true));
  using memory = typename Rank::device_type::memory;
  using loader_type = loader<Data, Element>;  // says what a data set needs
  using element = typename loader_type::element;
  using target = typename loader_type::target;

 public:
  using batch_type = batch_of<memory, element, target>;

  [[gnu::cold]] batch_range(Held&& data, Batch size, Rank& rank, batch_options const& options)
      : rank_(rank),
        data_(std::forward<Held>(data)),
        loader_(data_),
        sampler_(data_.size(), {.seed = options.seed, .order = options.how, .last = options.last}),
        size_(size),
        epochs_(options.epochs) {
    detail::require_range("batch_options::microbatches", options.microbatches,
                          number_ranges::at_least_0);
    if (steps_per_epoch() == 0)
      throw input_error("batches: a global batch of " + std::to_string(size.samples) +
                        " samples is larger than the data set of " + std::to_string(data_.size()) +
                        " samples, so that an epoch has no step; use a smaller batch, or "
                        ".last = plait::last_batch::keep");
    if (rank.groups().slices() > 0) cut_into_slices(rank.groups().slices(), options.microbatches);
    else cut_into_microbatches(options.microbatches);
    auto const pieces = static_cast<std::size_t>(batch_.microbatches);
    batch_.sequence = data_.sequence_length();
    batch_.element_bytes = sizeof(element);
    batch_.input = {std::is_integral_v<element> ? value_kind::tokens : value_kind::features,
                    loader_.inputs_per_sample() / data_.sequence_length()};
    allocate(batch_.places());
    batch_.target = {std::is_integral_v<target> ? value_kind::tokens : value_kind::reals,
                     loader_.target_width()};
    batch_.target_bytes = sizeof(target);
    batch_.input_stride_bytes = host_inputs_.size() / pieces * sizeof(element);
    batch_.target_stride_bytes = host_targets_.size() / pieces * sizeof(target);
    batch_.inputs = buffer_.data();
    batch_.targets = buffer_.data() + targets_at();
    batch_.host_inputs = host_inputs_.data();
    batch_.host_targets = host_targets_.data();
    if (!host_weights_.empty()) {
      batch_.weights = reinterpret_cast<double*>(buffer_.data() + weights_at());
      batch_.host_weights = host_weights_.data();
    }
    batch_.sample_numbers = samples_.data();
    batch_.description = &description_;
    description_ = {.number = rank.next_batches(),
                    .seed = options.seed,
                    .samples = size.samples,
                    .data_set = data_.size(),
                    .is_shuffled = options.how == sample_order::shuffled,
                    .keeps_last = options.last == last_batch::keep,
                    .content = loader_.fingerprint()};
  }
  batch_range(batch_range const&) = delete;
  batch_range& operator=(batch_range const&) = delete;

  /// Steps in one epoch.
  [[nodiscard]] std::size_t steps_per_epoch() const { return sampler_.batches_per_epoch(size_); }

  /// True from the first step after the last epoch on.
  [[nodiscard]] bool is_past_end(std::uint64_t step) const {
    return epochs_ != 0 && step / steps_per_epoch() >= epochs_;
  }

  /// The batch of step `step`, counted from 0 over all epochs. It is used before the next one is
  /// made, which takes its place: trainers refuse it afterwards.
  ///
  /// Errors: input_error if the step is past the end.
  batch_type at(std::uint64_t step) & {
    if (is_past_end(step)) refuse("the batch of step " + std::to_string(step) + " was");
    batch_.step = description_.step = step;
    auto const where = sampler_.position(size_, step);
    std::size_t const first = where.batch * size_.samples;
    batch_.missing_samples =
        size_.samples - std::min<std::size_t>(size_.samples, data_.size() - first);
    if (batch_.slices > 0) load_slices(where);
    else load_share(where);
    auto const upload = [&](auto const& values, void* to) {
      rank_.device().upload(values.data(), to, values.size() * sizeof(values[0]));
    };
    upload(host_inputs_, batch_.inputs);
    upload(host_targets_, batch_.targets);
    if (!host_weights_.empty()) upload(host_weights_, batch_.weights);
    return batch_;
  }
  /// A batch would lie in the memory of batches that nobody keeps.
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

  /// The batches from that of step `step` on: what is left after a checkpoint.
  class rest {
   public:
    rest(batch_range& range, std::uint64_t step) : range_(&range), step_(step) {}
    iterator begin() const { return {*range_, step_}; }
    std::default_sentinel_t end() const { return {}; }

   private:
    batch_range* range_;
    std::uint64_t step_;
  };
  /// Behind the last step there are none.
  ///
  /// Errors: input_error if the step is further past the end than that.
  [[nodiscard]] rest from(std::uint64_t step) & {
    if (step > 0 && is_past_end(step - 1))
      refuse("those from step " + std::to_string(step) + " on were");
    return {*this, step};
  }
  /// A loop over what is left of batches that nobody keeps would use them after their end.
  rest from(std::uint64_t step) && = delete;

  /// What is said of them to compare them.
  [[nodiscard]] batch_description const& description() const { return description_; }

 private:
  [[nodiscard]] int data_rank() const {
    return rank_.grid().place_in_group(rank_.place(), batch_axes);
  }
  [[nodiscard]] int data_ranks() const { return rank_.grid().size(batch_axes); }

  [[noreturn]] [[gnu::cold]] void refuse(std::string const& what) const {
    auto const each = steps_per_epoch();
    throw input_error("batches: " + what + " asked for, and the epochs, " +
                      std::to_string(epochs_) + " of " + std::to_string(each) +
                      " batches, end behind step " + std::to_string(epochs_ * each - 1) +
                      "; ask for a step before, or for more .epochs, of which 0 go on for ever");
  }
  [[gnu::cold]] void cut_into_microbatches(int asked) {
    batch_.microbatches = asked > 0 ? asked : rank_.grid().size(axis::stage);
    std::size_t const per_rank = size_.per_rank(data_ranks());
    auto const pieces = static_cast<std::size_t>(batch_.microbatches);
    if (per_rank % pieces != 0)
      throw input_error("batches: a global batch of " + std::to_string(size_.samples) + " gives " +
                        std::to_string(per_rank) + " samples to each of " +
                        std::to_string(data_ranks()) + " data ranks, which do not divide into " +
                        std::to_string(pieces) + " microbatches");
    batch_.samples = per_rank / pieces;
  }
  [[gnu::cold]] void cut_into_slices(int slices, int asked) {
    auto const mine = slice_tree(slices).of_rank(data_rank(), data_ranks());
    if (asked > 0)
      throw input_error("batches: .microbatches is " + std::to_string(asked) +
                        ", but the job is reproducible<" + std::to_string(slices) +
                        ">, whose microbatches are its slices; leave .microbatches out");
    batch_.slices = slices;
    batch_.first_slice = mine.first;
    batch_.microbatches = mine.count;
    batch_.samples = size_.per_slice(slices);
  }

  /// The share of this rank in a batch, one microbatch after the other.
  void load_share(epoch_position const& where) {
    auto const share = sampler_.slice(size_, where.batch, data_rank(), data_ranks());
    batch_.first_sample = share.first - where.batch * size_.samples;
    std::span<std::size_t> const mine(samples_.data(), share.count);
    sampler_.fill(where.epoch, share, mine);
    loader_.fill(mine, batch_.microbatches, {host_inputs_, host_targets_, host_weights_});
  }
  /// The slices of this rank, each for itself: a partial batch is shared out among all of them.
  void load_slices(epoch_position const& where) {
    auto const pieces = static_cast<std::size_t>(batch_.microbatches);
    for (std::size_t m = 0; m < pieces; ++m) {
      auto slice = batch_.slice_of(static_cast<int>(m));
      if (m == 0) batch_.first_sample = slice.first;
      slice.first += where.batch * size_.samples;
      std::span<std::size_t> const mine(samples_.data() + m * batch_.samples, slice.count);
      sampler_.fill(where.epoch, slice, mine);
      auto const part = [&](auto& all) {
        std::size_t const each = all.size() / pieces;
        return std::span(all).subspan(m * each, each);
      };
      loader_.fill(mine, 1, {part(host_inputs_), part(host_targets_), part(host_weights_)});
    }
  }

  /// Room for the samples of this rank on the host and on its device.
  [[gnu::cold]] void allocate(std::size_t samples) {
    std::size_t const each = loader_.inputs_per_sample() * sizeof(element) +
                             loader_.targets_per_sample() * sizeof(target) +
                             loader_.weights_per_sample() * sizeof(double) + sizeof(std::size_t);
    auto const fail = [&](std::string const& why) {
      throw out_of_memory("batches: a global batch of " + std::to_string(size_.samples) +
                              " samples gives " + std::to_string(samples) +
                              " samples to each data rank, whose inputs and targets take " +
                              std::to_string(each) + " bytes each; rank " +
                              std::to_string(rank_.world_rank()) + " has no room for them" + why +
                              "; use a smaller batch or more data ranks",
                          {.asked = samples * each});
    };
    if (samples > std::numeric_limits<std::ptrdiff_t>::max() / each) fail("");
    try {
      samples_.resize(samples);
      host_inputs_.resize(samples * loader_.inputs_per_sample());
      host_targets_.resize(samples * loader_.targets_per_sample());
      host_weights_.resize(samples * loader_.weights_per_sample());
      buffer_ = rank_.device().allocate(host_weights_.empty()
                                            ? targets_at() + host_targets_.size() * sizeof(target)
                                            : weights_at() + host_weights_.size() * sizeof(double));
    } catch (std::bad_alloc const&) {
      fail(" on the host");
    } catch (out_of_memory const& problem) {
      fail(std::string(": ") + problem.what());
    }
  }

  [[nodiscard]] std::size_t targets_at() const {
    return (host_inputs_.size() * sizeof(element) + 63) / 64 * 64;
  }
  [[nodiscard]] std::size_t weights_at() const {
    return (targets_at() + host_targets_.size() * sizeof(target) + 63) / 64 * 64;
  }

  Rank& rank_;
  Held data_;
  loader_type loader_;
  sampler sampler_;
  Batch size_;
  std::uint64_t epochs_;
  batch_description description_;
  std::vector<std::size_t> samples_;
  std::vector<element> host_inputs_;
  std::vector<target> host_targets_;
  std::vector<double> host_weights_;
  typename Rank::device_type::arena buffer_;
  batch_type batch_;
};

}  // namespace plait::ext

namespace plait::detail {

template <class Data>
inline constexpr bool is_dataset = ext::token_dataset<Data> || ext::feature_dataset<Data>;

template <class Data>
struct needs_dataset {
  static_assert(is_dataset<Data>,
                "batches(dataset, size, rank): what is given is no data set; write "
                "plait::in_memory<float> data(...) for samples in memory, or give a type of your "
                "own all of concept_tag, element, size, sequence_length, inputs and targets (of "
                "features width, too), as plait/data/dataset.hpp has them");
};

}  // namespace plait::detail

namespace plait {

/// The batches of `rank`: `for (auto const& batch : plait::batches(data, global_batch<64>{},
/// rank))`.
///
/// The last two arguments are not given: they say what is wrong with the others.
///
/// Features have the type of the data set. For a job that computes in another one, name that:
/// `plait::batches<plait::bfloat16>(data, ...)`. A data set that is named must outlive the batches;
/// one that is made in the call is kept by them.
///
/// Example (tests/reference/names_in_use_test.cpp batches):
///     auto batches =
///         plait::batches(data, plait::global_batch<32>{}, rank, {.seed = 1, .epochs = 2});
///     for (auto const& batch : batches) trainer.step(batch);  // 2 steps in each epoch
template <class Element, class Data, class Batch, class Rank>
auto batches(Data&& data, Batch size, Rank& rank, batch_options const& options = {},
             detail::needs_dataset<std::remove_cvref_t<Data>> = {},
             detail::needs_global_batch<Batch> = {}) {
  if constexpr (detail::is_dataset<std::remove_cvref_t<Data>>)
    return ext::batch_range<Data, Batch, Rank, Element>(std::forward<Data>(data), size, rank,
                                                        options);
  else return std::vector<device_batch<typename Rank::device_type::memory>>{};  // no other error
}
/// \overload
template <class Data, class Batch, class Rank>
auto batches(Data&& data, Batch size, Rank& rank, batch_options const& options = {},
             detail::needs_dataset<std::remove_cvref_t<Data>> = {},
             detail::needs_global_batch<Batch> = {}) {
  return batches<void>(std::forward<Data>(data), size, rank, options);
}

/// Without a rank every rank would read the same samples: does not compile.
template <class Data, class Batch>
auto batches(Data const&, Batch) {
  static_assert(!std::is_same_v<Data, Data>,
                "batches(dataset, size): without its rank, every data rank would read the same "
                "samples; write plait::batches(dataset, plait::global_batch<N>{}, rank)");
  return std::vector<device_batch<ext::host_memory>>{};  // so that nothing else is reported
}

}  // namespace plait
