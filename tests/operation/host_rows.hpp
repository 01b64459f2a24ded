// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "plait/backend/attention_shape.hpp"
#include "plait/backend/cross_entropy_target.hpp"
#include "plait/backend/host/host_queue.hpp"
#include "plait/backend/matrix.hpp"
#include "plait/backend/window_shape.hpp"
#include "plait/operation/row.hpp"
#include "plait/operation/rows.hpp"
#include "plait/run/convolution.hpp"

/// Rows of operations on matrices of double, with the host's own kernels.
namespace host_rows {

namespace operation = plait::operation;
namespace ext = plait::ext;
using ext::host_queue;

struct matrix {
  std::size_t rows = 0, columns = 0;
  std::vector<double> values{};

  matrix() = default;
  matrix(std::size_t r, std::size_t c) : rows(r), columns(c), values(r * c) {}
};

/// The units of an index that a rank has, in order.
using units = std::vector<std::size_t>;

/// The arguments of an operation: matrices in the order of the row, with zeros in those that it
/// writes, and the units of each index, for operations that have to know their place.
struct pieces {
  std::vector<matrix> operands;
  std::map<char, units> of;

  [[nodiscard]] std::size_t first(char index) const {
    auto const& mine = of.at(index);
    return mine.empty() ? 0 : mine.front();
  }
};

/// The name of an operand in the text of a row.
constexpr std::string_view name_of(operation::row const& of, int number) {
  auto const [begin, size] = of.name_of(number);
  return {begin, std::size_t(size)};
}
/// The number of the operand of a name, or -1.
constexpr int number_of(operation::row const& of, std::string_view name) {
  int const count = operation::signature(of).count;
  for (int i = 0; i < count; ++i)
    if (name_of(of, i) == name) return i;
  return -1;
}
template <class Row>
std::size_t place_of(std::string_view name) {
  return static_cast<std::size_t>(number_of(Row::is, name));
}

inline ext::matrix<double> block(matrix& of) { return {of.values.data(), of.rows, of.columns}; }
inline ext::matrix<double const> block(matrix const& of) {
  return {of.values.data(), of.rows, of.columns};
}

using integers = std::vector<std::int32_t>;

/// An operand as a queue gets it.
template <class Row, std::size_t Number>
auto operand_of(pieces& in, integers* room) {
  constexpr auto name = name_of(Row::is, Number);
  matrix& of = in.operands[Number];
  if constexpr (name == "ids" || name == "labels") {
    for (double const value : of.values) room[Number].push_back(static_cast<std::int32_t>(value));
    return ext::matrix<std::int32_t const>{room[Number].data(), of.rows, of.columns};
  } else if constexpr (operation::indices_of<Row>.operands[Number].is_written) {
    return block(of);
  } else {
    return block(std::as_const(of));
  }
}

// ---- Numbers that kernels take after the operands -----------------------------------------------

constexpr std::size_t head = 2;                                      // columns of a head
constexpr std::size_t taps = 2, wide = 3, narrow = wide - taps + 1;  // lengths of convolutions
constexpr std::size_t pooled = 4, pools = 2;                         // elements of maps
constexpr std::size_t map = 3, together = 2;  // sizes of sets for norms of images
constexpr std::size_t samples_of_position = 2;
constexpr std::size_t dropout_rows = 3, dropout_columns = 6;
constexpr double epsilon = 1e-3;

struct product_of_both {  // linear in neither
  double operator()(double a, double b) const { return a * b + a * a * b * b; }
};

/// Attention of no sequence, which does nothing, where shapes would be refused.
inline ext::attention_shape shape_of(matrix const& q, matrix const& k) {
  std::size_t const heads = q.columns / head, key_heads = k.columns / head;
  if (key_heads == 0 || heads % key_heads != 0 || k.rows != q.rows) return {};
  return {q.rows, 1, heads, head, heads / key_heads};
}
inline ext::window_shape windows_of(matrix const& images) {
  return {.channels = images.columns / pooled,
          .width = pooled,
          .kernel_width = pooled / pools,
          .stride = pooled / pools};
}

template <class Row>
std::tuple<> numbers(Row, pieces const&) {
  return {};
}
inline auto numbers(operation::matmul, pieces const&) {
  return std::tuple(ext::transposes{}, false);
}
inline auto numbers(operation::accumulate_columns, pieces const&) {
  return std::tuple(product_of_both{});
}
inline auto numbers(operation::layer_norm, pieces const&) { return std::tuple(epsilon); }
inline auto numbers(operation::layer_norm_backward, pieces const&) {
  return std::tuple(ext::matrix<double const>{}, ext::matrix<double>{});
}
inline auto numbers(operation::rms_norm, pieces const&) { return std::tuple(epsilon); }
inline auto numbers(operation::l2_normalise, pieces const&) { return std::tuple(epsilon); }
inline auto numbers(operation::gather_rows, pieces const& in) { return std::tuple(in.first('v')); }
inline auto numbers(operation::scatter_add_rows, pieces const& in) {
  return std::tuple(in.first('v'));
}
inline auto numbers(operation::attention_side_by_side, pieces const& in) {
  matrix const& y = in.operands[1];
  return std::tuple(ext::equal_heads{y.rows, 1, y.columns / head, head});
}
inline auto numbers(operation::attention_side_by_side_backward, pieces const& in) {
  return numbers(operation::attention_side_by_side{}, in);
}
inline auto numbers(operation::attention, pieces const& in) {
  return std::tuple(shape_of(in.operands[0], in.operands[1]));
}
inline auto numbers(operation::attention_backward, pieces const& in) {
  return numbers(operation::attention{}, in);
}
inline auto numbers(operation::cross_entropy_terms, pieces const& in) {
  return std::tuple(ext::one_hot_target{}, in.first('c'));
}
inline auto numbers(operation::cross_entropy_statistics, pieces const&) {
  return std::tuple(ext::one_hot_target{});
}
inline auto numbers(operation::cross_entropy_sum, pieces const&) {
  return std::tuple(ext::one_hot_target{}, std::int32_t{-1});
}
inline auto numbers(operation::cross_entropy_backward, pieces const& in) {
  return std::tuple(ext::one_hot_target{}, std::int32_t{-1}, in.first('c'));
}
inline auto numbers(operation::dropout, pieces const& in) {
  static std::uint32_t const step = 7;
  return std::tuple(
      ext::dropout_key{.seed = 5, .site = 3, .step = &step}, 0.5,
      ext::dropout_block{1, in.first('r'), 0, in.first('c'), dropout_rows, dropout_columns});
}
inline auto numbers(operation::add_to_maps, pieces const&) { return std::tuple(map); }
inline auto numbers(operation::accumulate_map_sums, pieces const&) { return std::tuple(map); }
inline auto numbers(operation::max_pool, pieces const& in) {
  return std::tuple(windows_of(in.operands[0]));
}
inline auto numbers(operation::average_pool, pieces const& in) {
  return std::tuple(windows_of(in.operands[0]));
}
inline auto numbers(operation::max_pool_backward, pieces const& in) {
  return std::tuple(windows_of(in.operands[2]));
}
inline auto numbers(operation::average_pool_backward, pieces const& in) {
  return std::tuple(windows_of(in.operands[1]));
}

// ---- Running ------------------------------------------------------------------------------------

template <class Row, class... Numbers>
void run_with(pieces& in, Numbers const&... of_kernel) {
  constexpr int terms = number_of(Row::is, "terms");
  if constexpr (terms >= 0)  // a row of another length is refused by shapes
    if (in.operands[std::size_t(terms)].columns != ext::one_hot_target::terms) return;
  integers room[operation::signature::most_operands];
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    host_queue{}.run(Row{}, operand_of<Row, I>(in, room)..., of_kernel...);
  }(std::make_index_sequence<std::size_t(operation::indices_of<Row>.count)>{});
}

/// The positions' rows of a table that has them all, or those alone.
template <class Row>
void run_positions(pieces& in) {
  bool const adds = std::is_same_v<Row, operation::add_positions>;
  matrix& table = in.operands[1];
  std::size_t const positions = in.of.at('r').size(),
                    skipped = table.rows == positions ? 0 : in.first('r');
  ext::matrix<double> const rows{table.values.data() + skipped * table.columns, positions,
                                 table.columns};
  auto const x = block(std::as_const(in.operands[0]));
  if constexpr (adds)
    host_queue{}.run(Row{}, x, ext::matrix<double const>{rows.data, rows.rows, rows.columns},
                     block(in.operands[2]), samples_of_position);
  else host_queue{}.run(Row{}, x, rows, samples_of_position);
}

/// A convolution of images of `wide` places with `taps` taps, in groups or not, as the shapes say.
template <class Row>
void run_convolution(pieces& in) {
  using backward_input = operation::convolve_backward_input;
  constexpr bool is_forward = std::is_same_v<Row, operation::convolve>,
                 is_input = std::is_same_v<Row, backward_input>;
  auto const [at_x, at_w, at_y] = is_forward ? std::tuple(0, 1, 2)
                                  : is_input ? std::tuple(2, 1, 0)
                                             : std::tuple(1, 2, 0);
  matrix &x = in.operands[std::size_t(at_x)], &w = in.operands[std::size_t(at_w)],
         &y = in.operands[std::size_t(at_y)];
  std::size_t const channels = x.columns / wide, of_group = w.columns / taps;
  if (channels == 0 || of_group == 0 || channels % of_group != 0) return;  // refused by shapes
  std::size_t const groups = channels / of_group;
  if (w.rows == 0 || w.rows % groups != 0) return;
  ext::window_shape const windows{.channels = channels, .width = wide, .kernel_width = taps};
  constexpr std::size_t samples = 2;
  ext::patch_block const by{.samples = samples,
                            .rows = 1,
                            .patches = windows.patch() * samples * narrow,
                            .results = w.rows * samples * narrow};
  std::vector<double> room(by.room());
  host_queue const queue;
  plait::execution::convolution const made(queue, windows, w.rows, groups, by);
  double *const of_x = x.values.data(), *const of_w = w.values.data(),
                *const of_y = y.values.data();
  if constexpr (is_forward) made.forward(x.rows, of_x, of_w, of_y, room.data());
  else if constexpr (is_input) made.backward_input(x.rows, of_y, of_w, of_x, room.data());
  else made.backward_weight(x.rows, of_y, of_x, of_w, room.data());
}

/// Sets of neighbouring channels of a sample, whose statistics are made of x.
template <class Row>
void run_sets(pieces& in) {
  matrix const& x = in.operands[place_of<Row>("x")];
  ext::norm_shape const sets{.samples = x.rows,
                             .present = x.rows,
                             .channels = x.columns / map,
                             .map = map,
                             .channels_together = together};
  matrix& statistics = in.operands[place_of<Row>("statistics")];
  statistics = matrix(1, 2 * sets.sets());
  host_queue{}.run(operation::set_statistics{}, block(x), block(statistics), sets, epsilon);
  run_with<Row>(in, sets);
}
/// A set for each channel, whose statistics are given.
template <class Row, class... Numbers>
void run_channels(pieces& in, std::size_t rows, std::size_t channels, Numbers const&... others) {
  ext::norm_shape const sets{.samples = rows,
                             .present = rows,
                             .channels = channels,
                             .map = map,
                             .samples_together = rows == 0 ? 1 : rows,
                             .everywhere = 9};
  matrix& statistics = in.operands[place_of<Row>("statistics")];
  statistics = matrix(1, 2 * channels);
  for (std::size_t c = 0; c < channels; ++c) {
    auto const channel = static_cast<double>(in.of.at('c')[c]);
    statistics.values[2 * c] = 0.1 * channel - 0.2;
    statistics.values[2 * c + 1] = 0.5 + 0.3 * channel;
  }
  run_with<Row>(in, sets, others...);
}
/// The operation of devices that read the logits once, by kernels of the host one after the other.
inline void run_cross_entropy_with_gradient(pieces& in) {
  auto& of = in.operands;
  if (of[4].columns != ext::one_hot_target::terms) return;
  integers labels;
  for (double const value : of[1].values) labels.push_back(static_cast<std::int32_t>(value));
  auto const read = [&](std::size_t i) { return block(std::as_const(of[i])); };
  ext::matrix<std::int32_t const> const ids{labels.data(), labels.size(), 1};
  ext::one_hot_target const target;
  matrix max(of[0].rows, 1);
  host_queue{}.run(operation::cross_entropy_statistics{}, read(0), ids, block(max), block(of[4]),
                   target);
  host_queue{}.run(operation::cross_entropy_sum{}, read(4), ids, read(2), read(3), block(of[6]),
                   target, std::int32_t{-1});
  host_queue{}.run(operation::cross_entropy_backward{}, read(0), ids, block(std::as_const(max)),
                   read(4), read(2), read(3), block(of[5]), target, std::int32_t{-1},
                   std::size_t{0});
}

template <class Row, class... Others>
inline constexpr bool is_one_of = (std::is_same_v<Row, Others> || ...);

template <class Row>
void run(pieces& in) {
  using namespace operation;
  if constexpr (requires { typename Row::kernel; }) run<typename Row::kernel>(in);
  else if constexpr (is_one_of<Row, add_positions, accumulate_positions>) run_positions<Row>(in);
  else if constexpr (is_one_of<Row, convolve, convolve_backward_input, convolve_backward_weight>)
    run_convolution<Row>(in);
  else if constexpr (is_one_of<Row, normalize_sets, normalize_sets_backward,
                               normalize_sets_parameters>)
    run_sets<Row>(in);
  else if constexpr (is_one_of<Row, normalize_sets_parameters, scale_sets,
                               normalize_whole_backward>)
    run_channels<Row>(in, in.operands[0].rows, in.operands[0].columns / map);
  else if constexpr (std::is_same_v<Row, accumulate_statistics>)
    run_channels<Row>(in, 3, in.operands[1].columns, 0.5, epsilon);
  else if constexpr (std::is_same_v<Row, cross_entropy_with_gradient>)
    run_cross_entropy_with_gradient(in);
  else std::apply([&](auto const&... each) { run_with<Row>(in, each...); }, numbers(Row{}, in));
}

}  // namespace host_rows
