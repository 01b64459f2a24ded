// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <type_traits>

#include "plait/backend/attention_shape.hpp"
#include "plait/backend/host/host_queue.hpp"
#include "plait/backend/host/maths/scored_attention.hpp"
#include "plait/layer/layer.hpp"
#include "plait/nn/attention.hpp"
#include "plait/tensor/dual_number.hpp"

namespace plait::nn {

namespace detail {

template <bool RunsOnHost>
consteval void check_host_queue() {
  static_assert(RunsOnHost,
                "scored_attention<...>: this layer has kernels for processors only, so it does not "
                "run on a GPU; use plait::threads, MPI or Gloo, or nn::attention, which has a "
                "causal mask and a window on every device");
}
template <class Score>
inline constexpr bool is_score =
    std::is_invocable_r_v<double, Score const&, double, std::size_t, std::size_t, std::size_t> &&
    std::is_invocable_v<Score const&, ext::dual_number<double>, std::size_t, std::size_t,
                        std::size_t>;

/// The kernels of scored_attention. The views are the queries, keys and values of this rank's
/// heads.
template <class Score>
struct scored_attention_kernel {
  // The forms of the layer cut whole heads, and first_key_column selects the keys of this rank.
  static constexpr bool any_placement = true;
  ext::attention_shape shape;
  std::size_t first_head = 0;
  std::size_t first_key_column = 0;

  /// `positions`: the position of each row within its document, with null data if each sample is
  /// one document.
  template <class Queue>
  void operator()(Queue const&, auto positions, auto q, auto k, auto v, auto y, auto log_sum,
                  auto scratch) const {
    check_host_queue<std::is_same_v<Queue, ext::host_queue>>();
    host_maths::scored_attention_forward(of_rank(positions), operands(q, k, v), y.data,
                                         log_sum.data, scratch.data, Score{});
  }
  template <class Queue>
  void operator()(Queue const&, auto positions, auto q, auto k, auto v, auto y, auto log_sum,
                  auto dy, auto dq, auto dk, auto dv, auto scratch) const {
    check_host_queue<std::is_same_v<Queue, ext::host_queue>>();
    std::fill_n(dk.data, dk.count(), typename decltype(dk)::element{});
    std::fill_n(dv.data, dv.count(), typename decltype(dv)::element{});
    host_maths::scored_attention_backward(of_rank(positions), operands(q, k, v), y.data,
                                          log_sum.data, dy.data, operands(dq, dk, dv), scratch.data,
                                          Score{});
  }

 private:
  [[nodiscard]] host_maths::scored_attention_shape of_rank(auto positions) const {
    return {shape, first_head, positions.data};
  }
  template <class Q, class K>
  auto operands(Q const& q, K const& k, K const& v) const {
    return ext::attention_operands<typename Q::element>{
        q.data, k.data + first_key_column, v.data + first_key_column, q.columns, k.columns};
  }
};

}  // namespace detail

/// The score of a masked key. The function of scored_attention returns it for each key that the
/// query must not see.
inline constexpr double masked_score = -std::numeric_limits<double>::infinity();

/// Options of scored_attention.
struct scored_attention_options {
  bool causal = true;      ///< as attention_options::causal
  std::size_t window = 0;  ///< as attention_options::window
  /// If true, a query attends only to keys of its own document, and positions count from the
  /// beginning of the document. The data set numbers the documents. If it does not, each sample is
  /// one document.
  bool documents = false;
};

/// Attention whose scores a function of the program changes or masks: y = softmax(score(q k^T /
/// sqrt(HeadWidth))) v for each head. `Score` is a type without data members. Its call operator
/// takes (score, query, key, head): a score of any type of numbers, the positions of query and key,
/// and the number of the head in the whole model. plait computes the derivative with dual numbers.
/// The options mask keys in addition to the function; by default the mask is causal.
///
/// A function that returns masked_score for a key must do so for every score. The kernel skips
/// blocks of 64 queries and 64 keys that are masked as a whole.
///
/// Shapes: as attention.
/// Moves:  as attention. A function gets the same numbers on every number of ranks.
/// Cost:   as host_maths::scored_attention_forward. The layer has kernels for processors only and
///         does not compile for GPUs.
///
/// Example (tests/nn/scored_attention_test.cpp scores):
///     struct alibi {  // keys further back count less; each head has another slope
///       auto operator()(auto score, std::size_t query, std::size_t key, std::size_t head) const {
///         return score - (double(query) - double(key)) / double(2 << head);
///       }
///     };
///     struct soft_cap {  // no score is above 20
///       auto operator()(auto score, std::size_t, std::size_t, std::size_t) const {
///         using std::tanh;
///         return 20 * tanh(score / 20);
///       }
///     };
///     struct sliding_window {  // the last 4 keys, and the first key as a sink
///       auto operator()(auto score, std::size_t query, std::size_t key, std::size_t) const {
///         bool const sees = key == 0 || query - key < 4;
///         return sees ? score : decltype(score)(plait::nn::masked_score);
///       }
///     };
template <std::size_t Heads, std::size_t KeyValueHeads, std::size_t HeadWidth, std::size_t Sequence,
          class Score, scored_attention_options Options = scored_attention_options{}>
struct scored_attention {
  static_assert(detail::is_score<Score>,
                "scored_attention<..., Score>: Score{} cannot be called; define `auto "
                "operator()(auto score, std::size_t query, std::size_t key, std::size_t head) "
                "const` in Score, which returns a number for plain numbers and for "
                "plait::ext::dual_number");
  static_assert(std::is_empty_v<Score>,
                "scored_attention<..., Score>: Score has data members, but the layer calls "
                "Score{}; make the numbers static constexpr members or template arguments");
  using plain = attention<Heads, KeyValueHeads, HeadWidth, Sequence,
                          {.causal = Options.causal, .window = Options.window}>;
  using groups = typename plain::groups;
  using concept_tag = layer_tag;
  using input = typename plain::input;
  using output = typename plain::output;
  using scores = slot<"scores", 0, 2 * host_maths::scored_attention_scratch(Sequence),
                      slot_element::accumulate>;
  using by_heads =
      form<"heads", shard<dim::features>, shard<dim::features>, use<scores, replicate>>;
  using by_groups =
      form<"groups", each<shard<dim::features>, replicate, replicate>, shard<dim::features>,
           units_of<Heads, KeyValueHeads>, use<scores, replicate>>;
  using forms =
      std::conditional_t<Heads == KeyValueHeads, plait::forms<whole, by_heads>,
                         std::conditional_t<KeyValueHeads == 1, plait::forms<whole, by_groups>,
                                            plait::forms<whole, by_heads, by_groups>>>;
  using log_sum = typename plain::log_sum;
  using saved = typename plain::saved;
  using scratch = plait::scratch<scores>;
  static constexpr std::size_t sequence = Sequence;
  static constexpr std::size_t units = KeyValueHeads;
  static constexpr bool takes_documents = Options.documents;
  static constexpr double flops_per_row = plain::flops_per_row;

  static void forward(auto& ops, auto const& l) {
    auto const& [q, k, v] = l.x;
    ops.run(kernel_for(l.context, q, k), positions_of(ops, q), q, k, v, l.y, l.saved[log_sum{}],
            l.scratch[scores{}]);
  }
  static void backward_input(auto& ops, auto const& l) {
    auto const& [q, k, v] = l.saved[input_slot{}];
    auto const& [dq, dk, dv] = l.dx;
    ops.run(kernel_for(l.context, q, k), positions_of(ops, q), q, k, v, l.saved[output_slot{}],
            l.saved[log_sum{}], l.dy, dq, dk, dv, l.scratch[scores{}]);
  }

 private:
  template <class Q>
  static auto positions_of(auto& ops, Q const& q) {
    if constexpr (Options.documents) return ops.document_positions(q);
    else return token_view<typename Q::memory>{};
  }
  template <class Q, class K>
  static detail::scored_attention_kernel<Score> kernel_for(auto const& context, Q const& q,
                                                           K const&) {
    std::size_t const heads = q.columns / HeadWidth;
    std::size_t const first = heads < Heads ? std::size_t(context.tensor_rank) * heads : 0;
    detail::scored_attention_kernel<Score> out{{context.sequence, context.batch, heads, HeadWidth,
                                                groups::queries_per_key, groups::options},
                                               first};
    if constexpr (Q::at != K::at) {  // this rank's queries use one key-value head
      out.shape.queries_per_key = heads;
      out.first_key_column = first / groups::queries_per_key * HeadWidth;
    }
    return out;
  }
};

/// Attention within documents: `attention` in which a query attends only to keys of its own
/// document. The data set numbers the documents of its samples.
///
/// Shapes: as scored_attention.
/// Moves:  as scored_attention.
/// Cost:   as scored_attention.
template <std::size_t Heads, std::size_t KeyValueHeads, std::size_t HeadWidth, std::size_t Sequence,
          attention_options Options = attention_options{}>
using document_attention =
    scored_attention<Heads, KeyValueHeads, HeadWidth, Sequence, host_maths::same_score,
                     {.causal = Options.causal, .window = Options.window, .documents = true}>;

}  // namespace plait::nn
