// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <tuple>
#include <type_traits>

#include "plait/backend/attention_shape.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/layer/typing.hpp"
#include "plait/operation/rows.hpp"
#include "plait/run/carry_out.hpp"
#include "plait/run/element_operations.hpp"
#include "plait/run/shapes.hpp"
#include "plait/tensor/view.hpp"

namespace plait::execution {

/// The operations for attention that a layer's body may call. \see operations
template <class Rank>
class attention_operations : public element_operations<Rank> {
  using base = element_operations<Rank>;
  template <class T, placement At>
  using view_of = view<T, At, typename Rank::device_type::memory>;

 public:
  using base::base;
  using base::context;

  /// Computes causal self-attention with heads of `head_width` columns. A row of qkv contains the
  /// queries of all heads, then the keys of all heads, then the values.
  ///
  /// Shapes: qkv (rows, 3 heads head_width); out (rows, heads head_width); log_sum (rows, heads).
  template <class X, placement Qkv>
  void attention(view_of<X, Qkv> qkv, auto out, auto log_sum, std::size_t head_width) {
    shapes_.attention("attention", named("qkv", qkv), named("out", out), named("log_sum", log_sum),
                      all_rows(), head_width);
    put(operation::attention_side_by_side{}, qkv, out, log_sum, heads_of(out, head_width));
  }
  template <class X, placement Qkv>
  void attention_backward(view_of<X, Qkv> qkv, auto out, auto log_sum, auto dout, auto dqkv,
                          std::size_t head_width) {
    static_assert(typing::sound_gradient<out.at, dout.at>);
    constexpr auto name = "attention_backward";
    named_shape const of_qkv = named("qkv", qkv), of_out = named("out", out);
    shapes_.attention(name, of_qkv, of_out, named("log_sum", log_sum), all_rows(), head_width);
    shapes_.equal(name, named("dout", dout), of_out);
    shapes_.equal(name, named("dqkv", dqkv), of_qkv);
    put(operation::attention_side_by_side_backward{}, qkv, out, log_sum, dout, dqkv,
        heads_of(out, head_width));
  }
  /// Lets the device prepare attention(qkv, ...) for the shape of qkv, before the first pass. A
  /// layer whose bodies call attention(qkv, ...) calls this function in its `prepare`.
  template <class T, placement Qkv>
  void prepare_attention(view_of<T, Qkv> qkv, std::size_t head_width) {
    queue_.prepare(
        operation::attention_side_by_side{}, as_operand<true>(qkv),
        equal_heads{context.sequence, context.batch, qkv.columns / (3 * head_width), head_width});
  }

  /// Computes attention with the heads and the mask that `Groups`, an ext::head_groups, describes.
  /// `qkv` are the three views of a layer whose inputs are query, key and value. If the query is
  /// cut over the tensor ranks, while key and value are replicate, each rank reads only the
  /// key-value head that its queries use.
  ///
  /// Shapes: query and out (rows, heads head_width); key and value (rows, key_value_heads
  ///         head_width); log_sum (rows, heads).
  template <class Groups, class Q, class K, class V>
  void attention(Groups groups, std::tuple<Q, K, V> const& qkv, auto out, auto log_sum) {
    auto const part = part_of("attention", groups, qkv, out, log_sum);
    auto const [q, k, v] = operands_of<true>(qkv, part);
    carry_out(queue_, operation::attention{}, q, k, v, as_operand<false>(out),
              as_operand<false>(log_sum), part.shape);
  }
  /// Computes the gradients of query, key and value. If key and value are replicate, dkey and
  /// dvalue are partial, because each rank has only the sums over its own queries.
  template <class Groups, class Q, class K, class V, class Dq, class Dk, class Dv>
  void attention_backward(Groups groups, std::tuple<Q, K, V> const& qkv, auto out, auto log_sum,
                          auto dout, std::tuple<Dq, Dk, Dv> const& dqkv) {
    static_assert(typing::sound_gradient<out.at, dout.at>);
    static_assert(typing::sound_gradient<Q::at, Dq::at>);
    static_assert(typing::sound_gradient<K::at, Dk::at>);
    static_assert(typing::sound_gradient<V::at, Dv::at>);
    constexpr auto name = "attention_backward";
    auto const part = part_of(name, groups, qkv, out, log_sum);
    auto const& [query, key, value] = qkv;
    auto const& [dquery, dkey, dvalue] = dqkv;
    shapes_.equal(name, named("dout", dout), named("out", out));
    shapes_.equal(name, named("dquery", dquery), named("query", query));
    shapes_.equal(name, named("dkey", dkey), named("key", key));
    shapes_.equal(name, named("dvalue", dvalue), named("value", value));
    using element = typename Dq::element;
    if constexpr (K::at != Q::at) {  // this rank's queries use only one key-value head
      queue_.fill(static_cast<element>(0), dkey.data, dkey.count());
      queue_.fill(static_cast<element>(0), dvalue.data, dvalue.count());
    }
    auto const [q, k, v] = operands_of<true>(qkv, part);
    auto const [dq, dk, dv] = operands_of<false>(dqkv, part);
    carry_out(queue_, operation::attention_backward{}, q, k, v, as_operand<true>(out),
              as_operand<true>(log_sum), as_operand<true>(dout), dq, dk, dv, part.shape);
  }
  template <class Groups, class Q, class K, class V>
  void prepare_attention(Groups, std::tuple<Q, K, V> const& qkv) {
    auto const& q = std::get<0>(qkv);
    queue_.prepare(operation::attention{}, as_operand<true>(q),
                   whole_shape<Groups>(q.columns / Groups::head_width));
  }

 protected:
  using base::named, base::put, base::queue_, base::rank, base::shapes_;

 private:
  /// The part of an attention that this rank computes. `first_key_column` is the first column of
  /// this rank's heads in a row of key or of value.
  struct local_part {
    attention_shape shape;
    std::size_t first_key_column = 0;
  };

  [[nodiscard]] std::size_t all_rows() const { return context.sequence * context.batch; }

  template <class Out>
  [[nodiscard]] equal_heads heads_of(Out const& out, std::size_t head_width) const {
    return {context.sequence, context.batch, out.columns / head_width, head_width};
  }
  template <class Groups>
  [[nodiscard]] attention_shape whole_shape(std::size_t heads) const {
    return {context.sequence,   context.batch,           heads,
            Groups::head_width, Groups::queries_per_key, Groups::options};
  }

  template <class Groups, class Q, class K, class V, class Y, class Kept>
  local_part part_of(char const* name, Groups, std::tuple<Q, K, V> const& qkv, Y const& out,
                     Kept const& log_sum) const {
    static_assert(typing::sound_places<operation::attention, Q::at, K::at, V::at, Y::at, Kept::at>);
    static_assert(
        Q::at.parts == 1,
        "ops.attention(groups, qkv, out, ...): the query is cut in several parts, so that this "
        "rank's heads are not adjacent; write shard<dim::features>, without parts, in the form");
    constexpr bool cut = typing::is_columns(Q::at), shared = Q::at != K::at;
    auto const& [q, k, v] = qkv;
    auto const ranks = cut ? static_cast<std::size_t>(context.tensor_ranks) : std::size_t{1};
    shapes_.groups(name, named("query", q), named("key", k), named("value", v), named("out", out),
                   named("log_sum", log_sum), all_rows(),
                   {Groups::heads, Groups::key_value_heads, Groups::head_width, ranks, shared});
    std::size_t const heads = Groups::heads / ranks;
    local_part part{whole_shape<Groups>(heads)};
    if constexpr (shared) {
      part.first_key_column = rank() * heads / Groups::queries_per_key * Groups::head_width;
      part.shape.queries_per_key = heads;
    }
    return part;
  }

  /// Returns the columns of query, key and value, or of their gradients, that belong to this rank's
  /// heads.
  template <bool IsRead, class Views>
  static auto operands_of(Views const& of, local_part const& part) {
    auto const& [q, k, v] = of;
    attention_shape const& shape = part.shape;
    std::size_t const keys = shape.key_value_heads() * shape.head_width;
    auto const block = [](auto const& view, std::size_t first, std::size_t columns) {
      auto const all = as_operand<IsRead>(view);
      return matrix{all.data + first, all.rows, columns, all.columns};
    };
    return query_key_value{block(q, 0, shape.heads * shape.head_width),
                           block(k, part.first_key_column, keys),
                           block(v, part.first_key_column, keys)};
  }
};

}  // namespace plait::execution
