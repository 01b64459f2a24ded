// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "plait/backend/arguments.hpp"
#include "plait/backend/attention_shape.hpp"
#include "plait/backend/cross_entropy_target.hpp"
#include "plait/backend/device.hpp"
#include "plait/backend/element_place.hpp"
#include "plait/backend/epilogue.hpp"
#include "plait/backend/host/host_arena.hpp"
#include "plait/backend/host/host_queue.hpp"
#include "plait/backend/matrix.hpp"
#include "plait/backend/window_shape.hpp"
#include "plait/core/bfloat16.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/float8.hpp"
#include "plait/core/macros.hpp"
#include "plait/core/rounded_block.hpp"
#include "plait/mesh/stream.hpp"
#include "plait/operation/rows.hpp"
#include "plait/testing/report.hpp"
#include "plait/testing/row_operands.hpp"

// Compares the kernels of a device with the kernels of the host, one operation of
// operation/rows.hpp after another.
namespace plait::testing::detail {

// Functions of the kind that users pass to operations. They are named types rather than lambdas,
// because some backends compile them for the device.
struct function_of_one {
  template <class A>
  PLAIT_HOST_DEVICE A operator()(A a) const {
    return a * a - A(1);
  }
};
struct function_of_two {
  template <class A>
  PLAIT_HOST_DEVICE A operator()(A a, A b) const {
    return a * b - a;
  }
};
struct function_of_place {
  template <class Row, class Shared>
  PLAIT_HOST_DEVICE auto operator()(ext::element_place const& at, Row const& row,
                                    Shared const& shared) const {
    auto const value = row[at.column] * shared[at.column];
    return value + static_cast<decltype(row[0] + row[0])>(at.position + 2 * at.sample);
  }
};
struct function_of_row {
  template <class T>
  PLAIT_HOST_DEVICE void operator()(std::size_t columns, T const* x, T* y) const {
    for (std::size_t c = 0; c < columns; ++c) y[c] = x[columns - 1 - c] + x[0];
  }
};

/// Runs the operations with elements of type T on a device and on the host.
template <class Device, class T>
class device_rows {
  using queue = typename Device::queue;
  using in = T const;
  using number = double const;
  using index = std::int32_t const;

 public:
  device_rows(Device& device, double tolerance, check_report& report,
              std::vector<std::string>& without)
      : device_(device), tolerance_(tolerance), report_(report), without_(without) {}

  /// Checks all operations twice: with several elements along each index, and with one element
  /// along each index.
  void check() {
    for (index_lengths const& at :
         {index_lengths(5).with('c', 19).with('n', 6).with('k', 7), index_lengths(1)}) {
      is_small_ = at['c'] == 1;
      check_memory(at);
      check_products(at);
      check_functions(at);
      check_norms(at);
      check_tables(at);
      check_attention(at);
      check_targets<ext::one_hot_target>(at, {});
      check_targets<ext::smoothed_target>(at, {.on_label = 0.75, .on_each = 0.125});
      check_images(at);
      check_norms_of_images(at);
      check_numbers(at);
    }
  }

 private:
  // ---- The operations: element types (const if only read) and arguments of their kernels -------

  void check_memory(index_lengths const& at) {
    using other = std::conditional_t<std::is_same_v<T, float>, double, float>;
    run<operation::fill, T>({at}, T(-2.5));
    run<operation::copy_bytes, std::byte const, std::byte>({at});
    run<operation::copy_blocks, in, T>({.lengths = at, .gaps = "from to"});
    run<operation::convert, in, other>({at});
    run<operation::swap, T, T>({at});
    run<operation::add, in, in, T>({at});
    run<operation::add_and_clear, T, T>({at});
    check_rounding<ext::rounded_block<bfloat16>>(at, " to bfloat16");
    check_rounding<ext::rounded_block<float8>>(at, " to float8");
  }

  /// Rounds blocks, and replaces numbers by them and adds them to numbers.
  template <class Block>
  void check_rounding(index_lengths const& at, char const* variant) {
    using word = ext::wire_word;
    run_as<operation::round_blocks, in, word, T, T>(
        {.lengths = at.with('c', ext::rounded_elements).with('w', sizeof(Block) / sizeof(word)),
         .text = "from(r c) -> words(r w), to(r c), +sum(r c)",
         .variant = variant},
        [](auto const& q, auto from, auto words, auto to, auto sum)
          requires ext::runs<std::remove_cvref_t<decltype(q)>, operation::round_blocks,
                             decltype(from), ext::matrix<Block>> &&
                   ext::runs<std::remove_cvref_t<decltype(q)>, operation::widen_blocks,
                             ext::matrix<Block const>, decltype(to)> &&
                   ext::runs<std::remove_cvref_t<decltype(q)>, operation::add_blocks,
                             ext::matrix<Block const>, decltype(sum)>
        {
          auto* const blocks = reinterpret_cast<Block*>(words.data);
          q.round_blocks(from.data, blocks, from.rows);
          q.widen_blocks(static_cast<Block const*>(blocks), to.data, to.rows);
          q.add_blocks(static_cast<Block const*>(blocks), sum.data, sum.rows);
        });
  }

  void check_products(index_lengths const& at) {
    using ext::transposes, ext::epilogue;
    std::string const gaps = "a b out";
    run<operation::matmul, in, in, T>({.lengths = at, .gaps = gaps}, transposes{}, false);
    run<operation::matmul, in, in, T>(
        {.lengths = at, .text = "a(k m), b(k n) -> +out(m n)", .gaps = gaps}, transposes{true},
        true);
    run<operation::matmul, in, in, T>(
        {.lengths = at, .text = "a(m k), b(n k) -> out(m n)", .gaps = gaps},
        transposes{false, true}, false);
    run_as<operation::matmul, in, in, in, in, T, T>(
        {.lengths = at,
         .text = "a(m k), b(k n), row(1 n), added(m n) -> out(m n), mapped(m n)",
         .variant = " with an epilogue"},
        [](auto const& q, auto a, auto b, auto row, auto added, auto out, auto mapped)
          requires ext::runs<std::remove_cvref_t<decltype(q)>, operation::matmul, decltype(a),
                             decltype(b), decltype(out), transposes, epilogue<T, function_of_one>>
        {
          q.run(operation::matmul{}, a, b, out, transposes{},
                epilogue<T, function_of_one>{
                    .row = row.data, .mapped = mapped.data, .added = added.data});
        });
    // With an epilogue of two operands, the product itself is not read again, so the product may
    // share memory with the epilogue's result.
    run_as<operation::matmul, in, in, in, T>(
        {.lengths = at,
         .text = "a(m k), b(k n), kept(m n) -> mapped(m n)",
         .variant = " with an epilogue"},
        [](auto const& q, auto a, auto b, auto kept, auto mapped)
          requires ext::runs<std::remove_cvref_t<decltype(q)>, operation::matmul, decltype(a),
                             decltype(b), decltype(mapped), transposes,
                             epilogue<T, function_of_two>>
        {
          q.run(operation::matmul{}, a, b, mapped, transposes{},
                epilogue<T, function_of_two>{.kept = kept.data, .mapped = mapped.data});
        });
    run_as<operation::matmul, in, in, T, T>(
        {.lengths = at,
         .text = "a(k m), b(k n) -> out(m n), +sums(1 m)",
         .variant = " with sums of an operand"},
        [](auto const& q, auto a, auto b, auto out, auto sums)
          requires ext::runs<std::remove_cvref_t<decltype(q)>, operation::matmul, decltype(a),
                             decltype(b), decltype(out), transposes, bool, ext::operand_sums<T>>
        {
          q.run(operation::matmul{}, a, b, out, transposes{true}, false,
                ext::operand_sums<T>{sums.data, true});
        });
    run<operation::accumulate_column_sums, in, T>({at});
    run<operation::add_row, in, T>({at});
  }

  void check_functions(index_lengths const& at) {
    run<operation::accumulate_columns, in, in, T>({at}, function_of_two{});
    run_as<operation::map, in, in, T>(
        {.lengths = at, .text = "a(r c), b(r c) -> y(r c)"},
        [](auto const& q, auto a, auto b, auto y)
          requires ext::runs<std::remove_cvref_t<decltype(q)>, operation::map, function_of_two,
                             decltype(y), decltype(a), decltype(b)>
        { q.run(operation::map{}, function_of_two{}, y, a, b); });
    std::size_t const samples = at['r'] == 1 ? 1 : 2;
    auto const rows = at.with('r', 3 * samples);
    run_as<operation::map_at, in, in, T>(
        {.lengths = rows, .text = "x(r c), shared(1 c) -> y(r c)"},
        [samples](auto const& q, auto x, auto shared, auto y)
          requires ext::runs<std::remove_cvref_t<decltype(q)>, operation::map_at, function_of_place,
                             ext::element_block, decltype(y), ext::element_operand<T>,
                             ext::element_operand<T>>
        {
          ext::element_block const of{.rows = y.rows,
                                      .columns = y.columns,
                                      .samples = samples,
                                      .first_position = 2,
                                      .first_sample = 1};
          q.run(operation::map_at{}, function_of_place{}, of, y,
                ext::element_operand<T>{x.data, x.count(), x.columns},
                ext::element_operand<T>{shared.data, shared.count(), shared.columns, 0, y.rows});
        });
    run_as<operation::rows, in, T>(
        {.lengths = at, .text = "x(r c) -> y(r c)", .gaps = "x"}, [](auto const& q, auto x, auto y)
          requires ext::runs<std::remove_cvref_t<decltype(q)>, operation::rows, function_of_row,
                             std::size_t, std::size_t, decltype(x), decltype(y)>
        { q.run(operation::rows{}, function_of_row{}, y.rows, y.columns, x, y); });
  }

  void check_norms(index_lengths const& at) {
    double const epsilon = 1e-5;
    run<operation::layer_norm, in, in, in, T, T>({at}, epsilon);
    run<operation::layer_norm_backward_input, in, in, in, in, T>({at});
    run<operation::layer_norm_backward_parameters, in, in, in, T, T>({at});
    run<operation::layer_norm_backward, in, in, in, in, T, T, T>({at}, ext::matrix<in>{},
                                                                 ext::matrix<T>{});
    // If there is a sum, the contents of dx are undefined afterwards, so the sum may share the
    // memory of dx.
    run_as<operation::layer_norm_backward, in, in, in, in, in, T, T, T>(
        {.lengths = at,
         .text = "dy(r c), x(r c), statistics(r 21), gamma(1 c), added(r c) -> sum(r c), "
                 "+dgamma(1 c), +dbeta(1 c)",
         .variant = " with a sum"},
        [](auto const& q, auto dy, auto x, auto statistics, auto gamma, auto added, auto sum,
           auto dgamma, auto dbeta)
          requires ext::runs<std::remove_cvref_t<decltype(q)>, operation::layer_norm_backward,
                             decltype(dy), decltype(x), decltype(statistics), decltype(gamma),
                             decltype(sum), decltype(dgamma), decltype(dbeta), decltype(added),
                             decltype(sum)>
        {
          q.run(operation::layer_norm_backward{}, dy, x, statistics, gamma, sum, dgamma, dbeta,
                added, sum);
        });
    run<operation::rms_norm, in, in, T, T>({at}, epsilon);
    run<operation::rms_norm_backward_input, in, in, in, in, T>({at});
    run<operation::rms_norm_backward_parameters, in, in, in, T>({at});
    run<operation::l2_normalise, in, T, T>({at}, epsilon);
    run<operation::l2_normalise_backward, in, in, in, T>({at});
  }

  void check_tables(index_lengths const& at) {
    // Some ids are row numbers before or after this rank's block of the table: other ranks have
    // these rows.
    auto const ids = static_cast<std::int32_t>(at['v'] + 2);
    run<operation::gather_rows, index, in, T>({.lengths = at, .below = ids}, std::size_t{1});
    run<operation::scatter_add_rows, index, in, T>({.lengths = at, .below = ids}, std::size_t{1});
    std::size_t const batch = at['b'];
    auto const positions = at.with('r', 3 * batch).with('p', 3);
    run<operation::add_positions, in, in, T>(
        {.lengths = positions, .text = "x(r c), table(p c) -> y(r c)"}, batch);
    run<operation::accumulate_positions, in, T>(
        {.lengths = positions, .text = "dy(r c) -> +dtable(p c)"}, batch);
    auto const step_text = "x(r c), step(1 1) -> y(r c)";
    run_as<operation::dropout, in, std::uint32_t const, T>(
        {.lengths = positions, .text = step_text}, [batch](auto const& q, auto x, auto step, auto y)
          requires ext::runs<std::remove_cvref_t<decltype(q)>, operation::dropout, decltype(x),
                             decltype(y), ext::dropout_key, double, ext::dropout_block>
        {
          q.run(operation::dropout{}, x, y,
                ext::dropout_key{.seed = 11, .site = 4, .step = step.data}, 0.4,
                ext::dropout_block{.batch_local = batch,
                                   .first_position = 2,
                                   .first_sample = 1,
                                   .first_column = 3,
                                   .sequence_global = 9,
                                   .width_global = x.columns + 5});
        });
  }

  void check_attention(index_lengths const& at) {
    std::size_t const batch = is_small_ ? 1 : 2, shared = is_small_ ? 1 : 2,
                      keys = is_small_ ? 1 : 3;
    std::size_t const width = is_small_ ? 1 : 8, heads = keys * shared;
    auto const lengths = at.with('r', at['r'] * batch)
                             .with('h', heads * width)
                             .with('g', keys * width)
                             .with('n', heads);
    ext::attention_shape shape{.sequence = at['r'],
                               .batch = batch,
                               .heads = heads,
                               .head_width = width,
                               .queries_per_key = shared};
    for (ext::attention_options const options :
         {ext::attention_options{}, ext::attention_options{.window = 2},
          ext::attention_options{.causal = false}}) {
      shape.options = options;
      run_as<operation::attention, in, in, in, T, T>(
          {.lengths = lengths,
           .text = "q(r h), k(r g), v(r g) -> out(r h), log_sum(r n)",
           .variant = " after prepare()"},
          [shape](auto const& q, auto query, auto key, auto value, auto out, auto log_sum)
            requires ext::runs<std::remove_cvref_t<decltype(q)>, operation::attention,
                               decltype(query), decltype(key), decltype(value), decltype(out),
                               decltype(log_sum), ext::attention_shape> &&
                     requires { q.prepare(operation::attention{}, query, shape); }
          {
            q.prepare(operation::attention{}, query, shape);
            q.run(operation::attention{}, query, key, value, out, log_sum, shape);
          });
      run<operation::attention_backward, in, in, in, in, in, in, T, T, T>(
          {.lengths = lengths,
           .text = "q(r h), k(r g), v(r g), out(r h), log_sum(r n), dout(r h) -> dq(r h), "
                   "dk(r g), dv(r g)"},
          shape);
    }
    ext::equal_heads const equal{at['r'], batch, heads, width};
    run_as<operation::attention_side_by_side, in, T, T>(
        {.lengths = lengths,
         .text = "qkv(r 3h) -> out(r h), log_sum(r n)",
         .variant = " after prepare()"},
        [equal](auto const& q, auto qkv, auto out, auto log_sum)
          requires ext::runs<std::remove_cvref_t<decltype(q)>, operation::attention_side_by_side,
                             decltype(qkv), decltype(out), decltype(log_sum), ext::equal_heads> &&
                   requires { q.prepare(operation::attention_side_by_side{}, qkv, equal); }
        {
          q.prepare(operation::attention_side_by_side{}, qkv, equal);
          q.run(operation::attention_side_by_side{}, qkv, out, log_sum, equal);
        });
    run<operation::attention_side_by_side_backward, in, in, in, in, T>(
        {.lengths = lengths, .text = "qkv(r 3h), out(r h), log_sum(r n), dout(r h) -> dqkv(r 3h)"},
        equal);
  }

  template <class Target>
  void check_targets(index_lengths const& of, Target target) {
    std::int32_t const ignored = 2;
    // The rows of gradients contain columns for the padding of the classes. In the logits the same
    // space is a gap between rows.
    auto const at = of.with('t', Target::terms).with('d', of['c'] + row_operands::gap);
    auto const classes = static_cast<std::int32_t>(at['c']);
    row_setting const whole{.lengths = at, .gaps = "logits", .below = classes};
    // The first class of this rank is 1: some labels are classes of other ranks.
    row_setting cut = whole;
    cut.below = classes + 2;
    if constexpr (!Target::is_smoothed)
      run<operation::row_max, in, T>({.lengths = at, .gaps = "x"});
    run<operation::cross_entropy_terms, in, index, in, T>(cut, target, std::size_t{1});
    run<operation::cross_entropy_statistics, in, index, T, T>(whole, target);
    run<operation::cross_entropy_sum, in, index, number, number, double>(whole, target, ignored);
    auto backward = cut;
    backward.text =
        "logits(r c), labels(r 1), max(r 1), terms(r t), scale(1 1), weights(r 1) -> dlogits(r d)";
    run<operation::cross_entropy_backward, in, index, in, in, number, number, T>(
        backward, target, ignored, std::size_t{1});
    if constexpr (Device::parts.joins_loss) check_joint_loss(whole, target, ignored);
    // Without weights, all weights are 1.
    auto without_weights = whole;
    without_weights.text = "terms(r t), labels(r 1), scale(1 1) -> +loss(1 1)";
    without_weights.variant = " without weights";
    run_as<operation::cross_entropy_sum, in, index, number, double>(
        without_weights, [=](auto const& q, auto terms, auto labels, auto scale, auto loss)
          requires ext::runs<std::remove_cvref_t<decltype(q)>, operation::cross_entropy_sum,
                             decltype(terms), decltype(labels), decltype(scale), decltype(scale),
                             decltype(loss), Target, std::int32_t>
        {
          q.run(operation::cross_entropy_sum{}, terms, labels, scale, ext::matrix<number>{}, loss,
                target, ignored);
        });
  }

  /// Checks the kernel that computes a loss and its gradient together. The host has only separate
  /// kernels for the two.
  template <class Target>
  void check_joint_loss(row_setting how, Target target, std::int32_t ignored) {
    using joint = operation::cross_entropy_with_gradient;
    how.text =
        "logits(r c), labels(r 1), scale(1 1), weights(r 1) -> terms(r t), dlogits(r d), "
        "+loss(1 1)";
    run_as<joint, in, index, number, number, T, T, double>(
        how, [=]<class Queue>(Queue const& q, auto logits, auto labels, auto scale, auto weights,
                              auto terms, auto dlogits, auto loss)
          requires std::same_as<Queue, ext::host_queue> ||
                   ext::runs<Queue, joint, decltype(logits), decltype(labels), decltype(scale),
                             decltype(weights), decltype(terms), decltype(dlogits), decltype(loss),
                             Target, std::int32_t>
        {
          if constexpr (std::same_as<Queue, ext::host_queue>) {
            std::vector<T> kept(logits.rows);
            ext::matrix<T> const max{kept.data(), logits.rows, 1};
            ext::matrix<in> const largest{max.data, max.rows, 1},
                made{terms.data, terms.rows, terms.columns};
            q.run(operation::cross_entropy_statistics{}, logits, labels, max, terms, target);
            q.run(operation::cross_entropy_sum{}, made, labels, scale, weights, loss, target,
                  ignored);
            q.run(operation::cross_entropy_backward{}, logits, labels, largest, made, scale,
                  weights, dlogits, target, ignored, std::size_t{0});
          } else {
            q.run(joint{}, logits, labels, scale, weights, terms, dlogits, loss, target, ignored);
          }
        });
  }

  void check_images(index_lengths const& at) {
    ext::window_shape const windows = is_small_ ? ext::window_shape{}
                                                : ext::window_shape{.channels = 2,
                                                                    .height = 5,
                                                                    .width = 6,
                                                                    .kernel_height = 3,
                                                                    .kernel_width = 2,
                                                                    .stride = 2,
                                                                    .padding = 1};
    std::size_t const first_row = is_small_ ? 0 : 1, rows = windows.out_height() - first_row;
    auto const lengths = at.with('i', windows.image())
                             .with('o', windows.channels * windows.out_map())
                             .with('p', windows.patch())
                             .with('q', at['s'] * rows * windows.out_width());
    run<operation::gather_patches, in, T>({lengths}, windows, first_row, rows);
    run<operation::add_patches, in, T>({lengths}, windows, first_row, rows);
    run<operation::max_pool, in, T>({.lengths = lengths, .text = "x(r i) -> y(r o)"}, windows);
    run<operation::max_pool_backward, in, in, T>(
        {.lengths = lengths, .text = "dy(r o), x(r i) -> dx(r i)"}, windows);
    run<operation::average_pool, in, T>({.lengths = lengths, .text = "x(r i) -> y(r o)"}, windows);
    run<operation::average_pool_backward, in, T>({.lengths = lengths, .text = "dy(r o) -> dx(r i)"},
                                                 windows);
    std::size_t const map = windows.map(), block = is_small_ ? 1 : 4;
    auto const maps = at.with('m', at['c'] * map);
    run<operation::add_to_maps, in, T>({.lengths = maps, .text = "bias(1 c) -> +y(r m)"}, map);
    run<operation::accumulate_map_sums, in, T>({.lengths = maps, .text = "dy(r m) -> +dbias(1 c)"},
                                               map);
    auto const blocks = at.with('a', is_small_ ? 1 : 3)
                            .with('m', at['b'] * block)
                            .with('n', (is_small_ ? 1 : 3) * block);
    run<operation::exchange_blocks, in, T>({.lengths = blocks, .text = "from(a m) -> to(b n)"},
                                           block);
  }

  void check_norms_of_images(index_lengths const& at) {
    double const epsilon = 1e-5, share = 0.25;
    // The last sample is missing, so it must not count.
    ext::norm_shape of{.samples = 1, .present = 1};
    if (!is_small_)
      of = {.samples = 4,
            .present = 3,
            .channels = 6,
            .map = 7,
            .samples_together = 2,
            .channels_together = 3};
    auto const lengths = at.with('r', of.samples)
                             .with('c', of.channels)
                             .with('m', of.image())
                             .with('s', 2 * of.sets());
    run<operation::set_statistics, in, T>({.lengths = lengths, .text = "x(r m) -> statistics(1 s)"},
                                          of, epsilon);
    run<operation::normalize_sets, in, in, in, in, T>(
        {.lengths = lengths, .text = "x(r m), statistics(1 s), gamma(1 c), beta(1 c) -> y(r m)"},
        of);
    run<operation::normalize_sets_backward, in, in, in, in, T>(
        {.lengths = lengths, .text = "dy(r m), x(r m), statistics(1 s), gamma(1 c) -> dx(r m)"},
        of);
    run<operation::normalize_sets_parameters, in, in, in, T, T>(
        {.lengths = lengths,
         .text = "dy(r m), x(r m), statistics(1 s) -> +dgamma(1 c), +dbeta(1 c)"},
        of);
    // The other operations normalise over sets of one channel and all samples.
    of.samples_together = of.samples;
    of.channels_together = 1;
    of.everywhere = 3 * of.count_of(0);
    auto const channels = lengths.with('s', 2 * of.channels);
    run<operation::accumulate_statistics, in, T, T>({channels}, of, share, epsilon);
    run<operation::sums_of_sets, in, T>({channels}, of);
    run<operation::squares_of_sets, in, in, T>({channels}, of);
    run<operation::whole_statistics, in, in, T>({channels}, of, epsilon);
    run<operation::given_statistics, in, in, T>({channels}, epsilon);
    run<operation::normalize_whole_backward, in, in, in, in, in, in, T>(
        {.lengths = channels,
         .text =
             "dy(r m), x(r m), statistics(1 s), dgamma(1 c), dbeta(1 c), gamma(1 c) -> dx(r m)"},
        of);
    run<operation::scale_sets, in, in, in, T>(
        {.lengths = channels, .text = "dy(r m), statistics(1 s), gamma(1 c) -> dx(r m)"}, of);
  }

  void check_numbers(index_lengths const& at) {
    for (char const* const nan : {"", "scale", "loss", "norm"}) {
      std::string_view const which = nan;
      bool const is_of_average = which.empty() || which == "scale";
      if (is_of_average) run<operation::average, number, in, T>({.lengths = at, .nan = nan}, 0.75);
      if constexpr (std::is_same_v<T, double>)
        if (which != "scale")
          run<operation::check_finite, number, number, double>({.lengths = at, .nan = nan});
    }
    if constexpr (std::is_same_v<T, double>) {
      run<operation::divide, number, double>({at}, 3.5);
      for (double const limit : {0.5, 1e6})
        run<operation::clip, number, double, double>({at}, limit);
      run<operation::clip, number, double, double>({.lengths = at, .nan = "squares"}, 0.5);
    }
  }

  // ---- One operation ----------------------------------------------------------------------------

  /// Runs queue.run(row, operands..., numbers...) on the host and on the device.
  template <operation::is_row Row, class... Elements, class... Numbers>
  void run(row_setting const& how, Numbers const&... numbers) {
    run_as<Row, Elements...>(how, [&](auto const& q, auto... operands)
                               requires ext::runs<std::remove_cvref_t<decltype(q)>, Row,
                                                  decltype(operands)..., Numbers...>
                             { q.run(Row{}, operands..., numbers...); });
  }

  /// Runs call(queue, operands...) on the host and on the device, if the device's queue accepts
  /// these arguments.
  template <operation::is_row Row, class... Elements, class Call>
  void run_as(row_setting const& how, Call const& call) {
    if constexpr (!std::invocable<Call const&, queue const&, ext::matrix<Elements>...>) {
      add_once(without_, name_of_call(Row::is, how, kind_of_element<T>()));
    } else {
      std::array<element_kind, sizeof...(Elements)> const kinds{kind_of_element<Elements>()...};
      row_operands const made(Row::is, how, kinds);
      ext::host_arena const expected(made.bytes().size());
      std::copy(made.bytes().begin(), made.bytes().end(), expected.data());
      auto const call_with = [&]<std::size_t... I>(auto const& q, std::byte* memory,
                                                   std::index_sequence<I...>) {
        call(q, made.template operand<Elements>(memory, I)...);
      };
      constexpr std::index_sequence_for<Elements...> all{};
      call_with(ext::host_queue{}, expected.data(), all);
      auto const where = name_with_extents(Row::is, how, kind_of_element<T>());
      auto const room = device_.allocate(made.bytes().size());
      std::vector<std::byte> got(made.bytes().size());
      try {
        device_.upload(made.bytes().data(), room.data(), got.size());
        call_with(device_.on(ext::stream::compute), room.data(), all);
        device_.download(room.data(), got.data(), got.size());
        device_.synchronize();
        made.compare(report_, where, expected.data(), got.data(), tolerance_);
      } catch (std::exception const& failure) {
        report_.failures.push_back(ext::concat({where, ": threw: ", failure.what()}));
        end_streams();
      }
      add_once(report_.checked, where);
    }
  }

  /// Waits for operations that are still running after an error, because their operands are in
  /// memory that is freed next.
  void end_streams() const {
    try {
      device_.synchronize();
    } catch (std::exception const&) {  // the wait reports the first error again
    }
  }
  static void add_once(std::vector<std::string>& names, std::string const& name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }

  Device& device_;
  double tolerance_;
  check_report& report_;
  std::vector<std::string>& without_;
  bool is_small_ = false;
};

}  // namespace plait::testing::detail
