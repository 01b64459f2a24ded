// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "plait/core/error.hpp"
#include "plait/data/batch_size.hpp"
#include "plait/data/dataset.hpp"
#include "plait/data/loader.hpp"
#include "plait/data/sampler.hpp"
#include "plait/mesh/mesh.hpp"
#include "plait/tensor/batch.hpp"

namespace plait {

struct batch_options {
  std::uint64_t seed = 0;
  sample_order how = sample_order::shuffled;
  last_batch last = last_batch::drop;
  /// Passes through the data set; 0 goes on for ever.
  std::uint64_t epochs = 1;
  /// Pieces of a step that are run one after the other; 0 takes one for each pipeline stage.
  int microbatches = 0;
};

/// The batches of one data rank, one for each step, in the memory of the rank's device.
///
/// All ranks that differ only along the tensor or stage axis get the same samples, every sample
/// goes to exactly one data rank per epoch.
/// Cost:   one allocation when it is made; the next batch takes the place of the last.
/// Errors: input_error if the samples of a data rank do not divide into microbatches.
template <class Data, class Batch, class Rank, class Element = void>
class batch_range {
  static_assert((require_global_batch<Batch>(), true));
  using memory = typename Rank::device_type::memory;
  using loader_type = loader<Data, Element>;  // says what a data set needs
  using element = typename loader_type::element;

 public:
  [[gnu::cold]] batch_range(Data const& data, Batch size, Rank& rank, batch_options const& options)
      : rank_(rank),
        loader_(data),
        sampler_(data.size(), {.seed = options.seed, .order = options.how, .last = options.last}),
        size_(size),
        epochs_(options.epochs) {
    batch_.microbatches =
        options.microbatches > 0 ? options.microbatches : rank.grid().size(axis::stage);
    std::size_t const per_rank = size.per_rank(rank.grid().size(batch_axes));
    auto const pieces = static_cast<std::size_t>(batch_.microbatches);
    if (per_rank % pieces != 0)
      throw input_error("batches: a global batch of " + std::to_string(size.samples) + " gives " +
                        std::to_string(per_rank) + " samples to each of " +
                        std::to_string(rank.grid().size(batch_axes)) +
                        " data ranks, which do not divide into " + std::to_string(pieces) +
                        " microbatches");
    samples_.resize(per_rank);
    batch_.samples = per_rank / pieces;
    batch_.sequence = data.sequence_length();
    batch_.element_bytes = sizeof(element);
    batch_.input = {std::is_integral_v<element> ? value_kind::tokens : value_kind::features,
                    loader_.inputs_per_sample() / data.sequence_length()};
    host_inputs_.resize(per_rank * loader_.inputs_per_sample());
    host_targets_.resize(per_rank * loader_.targets_per_sample());
    batch_.input_stride_bytes = host_inputs_.size() / pieces * sizeof(element);
    batch_.target_stride_bytes = host_targets_.size() / pieces * sizeof(std::int32_t);
    buffer_ = rank.device().allocate(target_offset() + host_targets_.size() * sizeof(std::int32_t));
    batch_.inputs = buffer_.data();
    batch_.targets = buffer_.data() + target_offset();
    batch_.labels = host_targets_.data();
    source_ = rank.next_number();
  }
  batch_range(batch_range const&) = delete;
  batch_range& operator=(batch_range const&) = delete;

  /// Steps in one epoch.
  [[nodiscard]] std::size_t steps_per_epoch() const { return sampler_.batches_per_epoch(size_); }

  /// True from the first step after the last epoch on.
  [[nodiscard]] bool is_past_end(std::uint64_t step) const {
    return epochs_ != 0 && step >= epochs_ * steps_per_epoch();
  }

  /// The batch of step `step`, counted from 0 over all epochs; valid until the next call.
  batch_of<memory, element> const& at(std::uint64_t step) {
    auto const where = sampler_.position(size_, step);
    auto const& grid = rank_.grid();
    auto const slice = sampler_.slice(
        size_, where.batch, grid.place_in_group(rank_.place(), batch_axes), grid.size(batch_axes));
    // In a partial batch the shares of the data ranks differ.
    bool const is_full = (where.batch + 1) * size_.samples <= loader_.data().size();
    batch_.first_sample = slice.first - where.batch * size_.samples;
    batch_.source = is_full ? source_ : 0;
    std::span<std::size_t> const mine(samples_.data(), slice.count);
    sampler_.fill(where.epoch, slice, mine);
    loader_.fill(mine, batch_.microbatches, host_inputs_, host_targets_);
    rank_.device().upload(host_inputs_.data(), batch_.inputs,
                          host_inputs_.size() * sizeof(element));
    rank_.device().upload(host_targets_.data(), batch_.targets,
                          host_targets_.size() * sizeof(std::int32_t));
    return batch_;
  }

  class iterator {
   public:
    iterator(batch_range& range, std::uint64_t step) : range_(&range), step_(step) {}
    batch_of<memory, element> const& operator*() const { return range_->at(step_); }
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

 private:
  [[nodiscard]] std::size_t target_offset() const {
    return (host_inputs_.size() * sizeof(element) + 63) / 64 * 64;
  }

  Rank& rank_;
  loader_type loader_;
  sampler sampler_;
  Batch size_;
  std::uint64_t epochs_;
  std::uint64_t source_;
  std::vector<std::size_t> samples_;
  std::vector<element> host_inputs_;
  std::vector<std::int32_t> host_targets_;
  typename Rank::device_type::arena buffer_;
  batch_of<memory, element> batch_;
};

namespace detail {

template <class Data>
inline constexpr bool is_dataset = token_dataset<Data> || feature_dataset<Data>;

template <class Data>
consteval void check_dataset() {
  static_assert(is_dataset<Data>,
                "batches(dataset, size, rank): what is given is no data set; write "
                "plait::in_memory<float> data(...) for samples in memory, or give a type of your "
                "own all of concept_tag, element, size, sequence_length, inputs and targets (of "
                "features width, too), as plait/data/dataset.hpp has them");
}

}  // namespace detail

/// The batches of `rank`: `for (auto const& batch : plait::batches(data, global_batch<64>{},
/// rank))`.
///
/// Features have the type of the data set. For a job that computes in another one, name that:
/// `plait::batches<plait::bfloat16>(data, ...)`.
template <class Element, class Data, class Batch, class Rank>
auto batches(Data const& data, Batch size, Rank& rank, batch_options const& options = {}) {
  detail::check_dataset<Data>();
  if constexpr (detail::is_dataset<Data>)
    return batch_range<Data, Batch, Rank, Element>(data, size, rank, options);
  else return std::vector<device_batch<typename Rank::device_type::memory>>{};  // no other error
}
/// \overload
template <class Data, class Batch, class Rank>
auto batches(Data const& data, Batch size, Rank& rank, batch_options const& options = {}) {
  return batches<void>(data, size, rank, options);
}

/// Without a rank every rank would read the same samples: does not compile.
template <class Data, class Batch>
auto batches(Data const&, Batch) {
  static_assert(!std::is_same_v<Data, Data>,
                "batches(dataset, size): without its rank, every data rank would read the same "
                "samples; write plait::batches(dataset, plait::global_batch<N>{}, rank)");
  return std::vector<device_batch<host_memory>>{};  // so that nothing else is reported
}

}  // namespace plait
