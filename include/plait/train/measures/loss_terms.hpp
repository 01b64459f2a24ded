// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "plait/core/error.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/precision.hpp"
#include "plait/core/type_list.hpp"
#include "plait/layer/layer.hpp"
#include "plait/tensor/batch.hpp"

namespace plait::execution {

/// Returns the index of the first label that is not ignored and is not in [0, classes), or -1. A
/// loss may ignore labels such as -100, and only the loss's function `count` can tell which. In a
/// row of several labels, this function therefore replaces a label by a class: if `count` of the
/// row does not increase, the label is not ignored. `counts_labels`: true if `count` returns a
/// number of labels. If `count` returns a sum of weights, the function assumes that negative labels
/// are ignored.
///
/// Cost: reads the labels once, on the host, and calls `count` for rows with a label that is not a
///       class.
std::ptrdiff_t find_bad_label(std::span<std::int32_t const> labels, std::size_t width,
                              std::size_t classes, bool counts_labels,
                              double (*count)(std::span<std::int32_t const>));

/// A loss whose labels the trainer has to check: the loss declares a number of `classes`, and its
/// function `count` does not refuse labels outside [0, classes).
template <class Loss>
concept checks_labels = requires { Loss::classes; } && !requires {
  requires std::is_same_v<typename Loss::count_refuses_labels, Loss>;
};

/// Throws input_error for the bad label at `index`, with the label, its sample and its position.
template <class Memory>
[[noreturn]] [[gnu::cold]] void refuse_label(device_batch<Memory> const& batch, std::size_t index,
                                             std::size_t classes) {
  std::size_t const row = index / batch.target.width, in_microbatch = row % batch.rows();
  std::size_t const place = row / batch.rows() * batch.samples + in_microbatch % batch.samples;
  throw input_error({"trainer got label ", batch.labels()[index], " at position ",
                     in_microbatch / batch.samples, " of sample ",
                     batch.sample_numbers != nullptr ? batch.sample_numbers[place] : place,
                     (batch.sample_numbers != nullptr ? " of the data set" : " of the batch"),
                     "; the loss takes labels from 0 to ", classes - 1,
                     ", and other labels only if its count() ignores them"});
}

/// The terms of a job's loss: the losses after the model, and the terms that layers within the
/// model add. For each term, weight * sum / count is added to the loss, where `sum` is the sum of
/// the term and `count` the number of its targets over the whole global batch. With 64 targets of
/// which 3 are ignored, the divisor is 61 on every rank and in every microbatch. A mean of the
/// means of ranks or microbatches would be another number. Targets are on the host, so the counts
/// are known before the first forward.
template <class Plan, class Element>
struct loss_terms {
  static constexpr int count = Plan::loss_terms();
  static constexpr value_info targets = Plan::tree.leaves[Plan::leaf_count - 1].inputs[1];
  using target =
      std::conditional_t<targets.kind == value_kind::tokens, std::int32_t, accumulate_t<Element>>;

  /// Returns the count of each term in the microbatches `first` to `end` - 1 of the batch of data
  /// rank `rank` of `ranks`. For a loss, the count is the number of targets that are not ignored.
  /// For a term of a layer within the model, it is the number of rows that have a sample. If the
  /// batch has weights, the count is the sum of the weights of these targets or rows.
  ///
  /// Errors: the exceptions of the losses' count; input_error for a bad label or a bad count.
  /// Cost:   reads the targets once for each loss, on the host.
  template <class Memory>
  static std::array<double, std::size_t(count)> count_in(device_batch<Memory> const& batch,
                                                         int first, int end, int rank, int ranks) {
    std::array<double, std::size_t(count)> out{};
    std::size_t samples = 0;
    for (int m = first; m < end; ++m) samples += batch.samples_in(m, rank, ranks);
    auto const present = [&](int m) { return batch.samples_in(m, rank, ranks); };
    for_each_term([&]<int Leaf, class Layer>(Layer*) {
      constexpr auto& leaf = Plan::tree.leaves[Leaf];
      auto& mine = out[std::size_t(leaf.term)];
      if constexpr (leaf.is_loss) mine = count_targets<Layer>(batch, first, end, samples, present);
      else mine = count_rows(batch, first, end, samples);
    });
    return out;
  }

  /// The weight of each term.
  static constexpr std::array<double, std::size_t(count)> weights = [] {
    std::array<double, std::size_t(count)> out{};
    for (auto const& leaf : Plan::tree.leaves)
      if (leaf.term >= 0) out[std::size_t(leaf.term)] = leaf.loss_weight;
    return out;
  }();

  /// The index of the term of the first loss after the model. Reports contain the count of this
  /// term.
  static constexpr std::size_t first_loss = [] {
    for (auto const& leaf : Plan::tree.leaves)
      if (leaf.is_loss) return std::size_t(leaf.term);
    return std::size_t(0);
  }();

  /// Returns true if a row with these targets contributes to at least one of the losses.
  static bool any_counts(std::span<target const> of_row) {
    bool any = false;
    for_each_term([&]<int Leaf, class Layer>(Layer*) {
      if constexpr (Plan::tree.leaves[Leaf].is_loss) any = any || Layer::count(of_row) > 0;
    });
    return any;
  }

  /// Returns the number of outputs of a row without padding. If the losses have classes, this is
  /// the number of classes.
  static consteval std::size_t outputs() {
    std::size_t width = Plan::tree.leaves[Plan::leaf_count - 1].inputs[0].width;
    for_each_term([&]<int Leaf, class Layer>(Layer*) {
      if constexpr (requires { Layer::classes; })
        if (Layer::classes < width) width = Layer::classes;
    });
    return width;
  }

 private:
  /// The number of the leaf (the layer without sub-layers) that computes each term.
  static constexpr std::array<int, std::size_t(count)> leaf_of = [] {
    std::array<int, std::size_t(count)> out{};
    for (int leaf = 0; leaf < Plan::leaf_count; ++leaf)
      if (int const term = Plan::tree.leaves[leaf].term; term >= 0) out[std::size_t(term)] = leaf;
    return out;
  }();

  template <class Body>
  static constexpr void for_each_term(Body body) {
    [&]<std::size_t... Term>(std::index_sequence<Term...>) {
      (body.template operator()<leaf_of[Term]>(
           static_cast<detail::type_at<typename Plan::leaf_types, std::size_t(leaf_of[Term])>*>(
               nullptr)),
       ...);
    }(std::make_index_sequence<std::size_t(count)>{});
  }

  template <class Loss>
  static consteval void check_count() {
    constexpr bool counts = requires(std::span<target const> some) {
      requires std::is_arithmetic_v<decltype(Loss::count(some))>;
    };
    static_assert(counts,
                  "count of this loss cannot be called with the targets, or does not return a "
                  "number; declare `static std::int64_t count(auto targets)`, which returns double "
                  "if targets have weights. For plait::tokens and integers `targets` is a "
                  "std::span<std::int32_t const>; for reals it is a span of float or double");
  }

  template <class Loss, class Memory, class Present>
  static double count_targets(device_batch<Memory> const& batch, int first, int end,
                              std::size_t samples, Present present) {
    std::size_t const begin = batch.rows() * static_cast<std::size_t>(first);
    std::size_t const rows = batch.rows() * static_cast<std::size_t>(end - first);
    auto const* const all = static_cast<target const*>(batch.host_targets);
    check_count<Loss>();
    if constexpr (checks_labels<Loss> && std::is_same_v<target, std::int32_t>)
      if (auto const bad = find_bad_label(
              {all + begin * targets.width, rows * targets.width}, targets.width, Loss::classes,
              std::is_integral_v<decltype(Loss::count(std::span<std::int32_t const>()))>,
              [](std::span<std::int32_t const> of_row) {
                return static_cast<double>(Loss::count(of_row));
              });
          bad >= 0)
        refuse_label(batch, begin * targets.width + static_cast<std::size_t>(bad), Loss::classes);
    auto const count_of = [&](std::size_t from, std::size_t number) {
      auto const found =
          Loss::count(std::span<target const>(all + from * targets.width, number * targets.width));
      if constexpr (std::is_floating_point_v<decltype(found)>) refuse_no_sum(double(found));
      else if (found < 0 || static_cast<std::size_t>(found) > number * targets.width)
        throw input_error({"trainer: count of the loss returned ", found, " of ",
                           number * targets.width, " targets; it must be from 0 to their number"});
      return static_cast<double>(found);
    };
    if (batch.host_weights == nullptr &&
        samples == batch.samples * static_cast<std::size_t>(end - first))
      return count_of(begin, rows);
    if constexpr (!ext::leaf_of<Loss>.takes_weights)
      if (batch.host_weights != nullptr)
        throw input_error(
            "trainer: the data set has weights of samples, but the job's loss does not use them. "
            "Multiply by l.dy.at(row) in the backward of the loss and declare `static constexpr "
            "bool takes_weights = true;` in the loss, or remove weight() from the data set");
    double sum = 0;
    for (int m = first; m < end; ++m) {
      std::size_t const there = present(m), from = batch.rows() * static_cast<std::size_t>(m);
      for (std::size_t row = from; row < from + batch.rows(); ++row)
        if (row % batch.samples < there)
          sum += (batch.host_weights == nullptr ? 1 : batch.host_weights[row]) * count_of(row, 1);
    }
    return sum;
  }

  /// Throws input_error if `found` cannot be a sum of weights.
  static void refuse_no_sum(double found) {
    if (!(found >= 0) || !std::isfinite(found))
      throw input_error({"trainer: count of the loss returned ", std::to_string(found),
                         "; a sum of weights of targets must be finite and not negative"});
  }

  template <class Memory>
  static double count_rows(device_batch<Memory> const& batch, int first, int end,
                           std::size_t samples) {
    if (batch.host_weights == nullptr) return static_cast<double>(samples * batch.sequence);
    double sum = 0;  // the weights of places without a sample are 0
    for (std::size_t row = batch.rows() * std::size_t(first); row < batch.rows() * std::size_t(end);
         ++row)
      sum += batch.host_weights[row];
    return sum;
  }
};

}  // namespace plait::execution

#if PLAIT_HEADER_ONLY
#include "plait/train/measures/loss_terms.ipp"
#endif
