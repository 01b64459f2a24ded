// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <type_traits>

#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/core/precision.hpp"
#include "plait/layer/layer.hpp"
#include "plait/plan/checks.hpp"
#include "plait/tensor/view.hpp"

namespace plait::execution {

// The name of this type is printed by compilers in the error for a sum that the form does not list.
template <class T, placement At, layer_body Body>
struct unlisted_sum {};
template <class Layer, printed_text Label, class Sum>
inline constexpr bool is_sum_of_form = false;

template <class Layer, printed_text Label, class Sum>
consteval void report_unlisted_sum() {
  static_assert(
      is_sum_of_form<Layer, Label, Sum>,
      "ops.sum_over_samples(x): the form of this layer lists no sum with these elements and this "
      "placement in this body, so the plan does not know the bytes that it sends; list "
      "ext::batch_sum<At, Width> in the form for each sum of the forward, and ext::batch_sum<At, "
      "Width, ext::layer_body::backward_input> for each of the backward");
}

/// Throws an error that compares the sums that a body has computed with the sums that its form
/// lists.
[[noreturn]] [[gnu::cold]] void fail_sum(std::string const& layer, form_info const& form, int made,
                                         std::size_t count, int listed, std::size_t width);

/// The operations for a body whose form lists sums over samples: `Operations`, and
/// sum_over_samples. The body must compute each listed sum once, in the order of the list.
template <class Operations, class Element, class Formed, layer_body Body>
class summing_operations : public Operations {
  static constexpr auto& form = Formed::form;

 public:
  explicit summing_operations(Operations const& ops) : Operations(ops) {}

  /// Sums x in place over the ranks that hold different samples of the microbatch, so that each of
  /// these ranks gets the sum over all samples. x must be equal on all tensor ranks, or cut by
  /// features over them.
  ///
  /// Shapes: x has the `Width` values of the form's next batch_sum, or this rank's block of these
  ///         values.
  /// Moves:  an all_reduce of x over the mesh axes along which ranks have different samples.
  /// Errors: plait::error on every rank if the sum is not the next sum that the form lists.
  template <class T, placement At, class Memory>
  void sum_over_samples(view<T, At, Memory> x) {
    check_listed<T, At>();
    int const number = next_clause();
    std::size_t const width = width_of(number);
    if (x.count() != width)
      fail_sum(this->shapes_.layer_text(), form, made_, x.count(), listed(), width);
    ++made_;
    this->sum_in_place(std::span<T>(x.data, x.count()), number);
  }

  /// Checks that the body has computed all sums that its form lists. A body that reads buffers or
  /// that is recomputed must compute no sum.
  ///
  /// Errors: plait::error on every rank if the body has computed fewer sums.
  void require_all_sums() const {
    if (this->context.reads_buffers || this->context.recomputes || made_ == listed()) return;
    fail_sum(this->shapes_.layer_text(), form, made_, 0, listed(), width_of(next_clause()));
  }

 private:
  static constexpr int listed() {
    int count = 0;
    for (int i = form.inner_count - form.sum_count; i < form.inner_count; ++i)
      count += form.inner[std::size_t(i)].body == Body;
    return count;
  }
  /// Returns the index of the form's clause for the next sum, or form.inner_count if there is none.
  [[nodiscard]] int next_clause() const {
    int number = form.inner_count - form.sum_count;
    for (int left = made_; number < form.inner_count; ++number)
      if (form.inner[std::size_t(number)].body == Body && left-- == 0) break;
    return number;
  }
  [[nodiscard]] std::size_t width_of(int clause) const {
    if (clause == form.inner_count) return 0;
    return form.inner[std::size_t(clause)].local_width(this->context.tensor_ranks);
  }
  template <class T, placement At>
  static consteval void check_listed() {
    constexpr bool is_listed = [] {
      for (int i = form.inner_count - form.sum_count; i < form.inner_count; ++i)
        if (auto const& clause = form.inner[std::size_t(i)];
            clause.body == Body && view_placement_of_value(clause.from) == At)
          return std::is_same_v<T, accumulate_t<Element>>;
      return false;
    }();
    if constexpr (!is_listed) {
      using layer = typename Formed::layer;
      report_unlisted_sum<layer, printed<planning::label_of_form<layer, Formed::number>{}>,
                          unlisted_sum<T, At, Body>>();
    }
  }

  int made_ = 0;
};

}  // namespace plait::execution

#if PLAIT_HEADER_ONLY
#include "plait/run/summing_operations.ipp"
#endif
