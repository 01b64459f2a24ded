// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <tuple>
#include <type_traits>

#include "plait/backend/attention_shape.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/layer/typing.hpp"
#include "plait/run/element_operations.hpp"
#include "plait/run/shapes.hpp"
#include "plait/tensor/view.hpp"

namespace plait::execution {

/// The attention of a layer's body. \see operations
template <class Rank>
class attention_operations : public element_operations<Rank> {
  using base = element_operations<Rank>;
  template <class T, placement At>
  using view_of = view<T, At, typename Rank::device_type::memory>;

 public:
  using base::base;
  using base::context;

  /// Causal self-attention of heads of `head_width`; qkv is query, key and value side by side.
  ///
  /// Shapes: qkv (rows, 3 heads head_width); out (rows, heads head_width); log_sum (rows, heads).
  template <class X, class T, class Kept, placement Qkv, placement Out, placement Sums>
  void attention(view_of<X, Qkv> qkv, view_of<T, Out> out, view_of<Kept, Sums> log_sum,
                 std::size_t head_width) {
    static_assert(typing::sound_heads<Qkv, Out>);
    constexpr auto name = "attention";
    shapes_.attention(name, named("qkv", qkv), named("out", out), named("log_sum", log_sum),
                      all_rows(), head_width);
    queue_.attention(qkv.data, out.data, log_sum.data, context.sequence, context.batch,
                     out.columns / head_width, head_width);
  }
  template <class X, class Y, class Kept, class Dy, class T, placement Qkv, placement Out,
            placement Sums, placement DOut, placement DQkv>
  void attention_backward(view_of<X, Qkv> qkv, view_of<Y, Out> out, view_of<Kept, Sums> log_sum,
                          view_of<Dy, DOut> dout, view_of<T, DQkv> dqkv, std::size_t head_width) {
    static_assert(typing::sound_heads<Qkv, Out>);
    static_assert(typing::sound_gradient<Out, DOut>);
    static_assert(typing::sound_gradient<Qkv, DQkv>);
    constexpr auto name = "attention_backward";
    named_shape const of_qkv = named("qkv", qkv), of_out = named("out", out);
    shapes_.attention(name, of_qkv, of_out, named("log_sum", log_sum), all_rows(), head_width);
    shapes_.equal(name, named("dout", dout), of_out);
    shapes_.equal(name, named("dqkv", dqkv), of_qkv);
    queue_.attention_backward(qkv.data, out.data, log_sum.data, dout.data, dqkv.data,
                              context.sequence, context.batch, out.columns / head_width,
                              head_width);
  }
  /// For the `prepare` of a layer that calls this attention: the device gets ready what it needs
  /// for the shape once.
  template <class T, placement Qkv>
  void prepare_attention(view_of<T, Qkv> qkv, std::size_t head_width) {
    queue_.template prepare_attention<std::remove_const_t<T>>(
        context.sequence, context.batch, qkv.columns / (3 * head_width), head_width);
  }

  /// Attention of heads and with the mask of `Groups`, an ext::head_groups; qkv are three views,
  /// as of a layer with these inputs. On ranks that have blocks of the query and all of key and
  /// value, which then are replicate, each reads the key-value head of its queries.
  ///
  /// Shapes: query and out (rows, heads head_width); key and value (rows, key_value_heads
  ///         head_width); log_sum (rows, heads).
  template <class Groups, class Q, class K, class V, class T, class Kept, placement Out,
            placement Sums>
  void attention(Groups groups, std::tuple<Q, K, V> const& qkv, view_of<T, Out> out,
                 view_of<Kept, Sums> log_sum) {
    constexpr auto name = "attention";
    auto const part = part_of(name, groups, qkv, out, log_sum);
    queue_.attention(part.shape, operands_of<std::remove_const_t<T>, true>(qkv, part), out.data,
                     log_sum.data);
  }
  /// dkey and dvalue are partial where key and value are replicate: the sums over the queries of
  /// this rank.
  template <class Groups, class Q, class K, class V, class Y, class Kept, class Dy, class Dq,
            class Dk, class Dv, placement Out, placement Sums, placement DOut>
  void attention_backward(Groups groups, std::tuple<Q, K, V> const& qkv, view_of<Y, Out> out,
                          view_of<Kept, Sums> log_sum, view_of<Dy, DOut> dout,
                          std::tuple<Dq, Dk, Dv> const& dqkv) {
    static_assert(typing::sound_gradient<Out, DOut>);
    static_assert(typing::sound_gradient<Q::at, Dq::at>);
    static_assert(typing::sound_gradient<K::at, Dk::at>);
    static_assert(typing::sound_gradient<V::at, Dv::at>);
    constexpr auto name = "attention_backward";
    auto const part = part_of(name, groups, qkv, out, log_sum);
    auto const& [q, k, v] = qkv;
    auto const& [dq, dk, dv] = dqkv;
    shapes_.equal(name, named("dout", dout), named("out", out));
    shapes_.equal(name, named("dquery", dq), named("query", q));
    shapes_.equal(name, named("dkey", dk), named("key", k));
    shapes_.equal(name, named("dvalue", dv), named("value", v));
    using element = typename Dq::element;
    if constexpr (K::at != Q::at) {  // nobody here reads the other key-value heads
      queue_.fill(static_cast<element>(0), dk.data, dk.count());
      queue_.fill(static_cast<element>(0), dv.data, dv.count());
    }
    queue_.attention_backward(part.shape, operands_of<element, true>(qkv, part), out.data,
                              log_sum.data, dout.data, operands_of<element, false>(dqkv, part));
  }
  template <class Groups, class Q, class K, class V>
  void prepare_attention(Groups, std::tuple<Q, K, V> const& qkv) {
    auto const& q = std::get<0>(qkv);
    queue_.template prepare_attention<std::remove_const_t<typename Q::element>>(
        whole_shape<Groups>(q.columns / Groups::head_width));
  }

 protected:
  using base::named, base::queue_, base::rank, base::shapes_;

 private:
  /// What this rank computes, and where in a row of key or value it begins.
  struct local_part {
    attention_shape shape;
    std::size_t first_key_column = 0;
  };

  [[nodiscard]] std::size_t all_rows() const { return context.sequence * context.batch; }

  template <class Groups>
  [[nodiscard]] attention_shape whole_shape(std::size_t heads) const {
    return {context.sequence,   context.batch,           heads,
            Groups::head_width, Groups::queries_per_key, Groups::options};
  }

  template <class Groups, class Q, class K, class V, class Y, class Kept>
  local_part part_of(char const* name, Groups, std::tuple<Q, K, V> const& qkv, Y const& out,
                     Kept const& log_sum) const {
    static_assert(typing::sound_groups<Q::at, K::at, V::at, Y::at>);
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

  template <class T, bool IsRead, class Views>
  static auto operands_of(Views const& of, local_part const& part) {
    auto const& [q, k, v] = of;
    return attention_operands<std::conditional_t<IsRead, T const, T>>{
        q.data, k.data + part.first_key_column, v.data + part.first_key_column, q.columns,
        k.columns};
  }
};

}  // namespace plait::execution
