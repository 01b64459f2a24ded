// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "plait/backend/element_place.hpp"
#include "plait/core/fraction.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/macros.hpp"
#include "plait/layer/layer.hpp"
#include "plait/tensor/functions.hpp"

namespace plait::nn {

/// The method by which the angles of rotary positions are made to grow more slowly, for sequences
/// that are longer than the sequences in the model's original training. The names equal the values
/// of Hugging Face's rope_type.
enum class rotary_scaling : int {
  none,
  linear,  ///< divides all angles by the factor
  llama3,  ///< divides slow angles by the factor, keeps fast angles, and interpolates between the
           ///< two
};

/// Options of rotary, named as rope_theta and the entries of rope_scaling in Hugging Face's
/// configurations.
struct rotary_options {
  std::size_t base = 10000;
  rotary_scaling scaling = rotary_scaling::none;
  /// The factor of the scaling, such as fraction(8.0); 1 if there is no scaling.
  ext::nano_fraction factor = fraction(1.0);
  /// For llama3: an angle is slow if it makes at most low_frequency_factor turns within
  /// original_positions, and fast if it makes at least high_frequency_factor turns.
  ext::nano_fraction low_frequency_factor = fraction(1.0);
  ext::nano_fraction high_frequency_factor = fraction(4.0);
  std::size_t original_positions = 8192;
  /// If true, positions count from the beginning of each document. The data set numbers the
  /// documents. If it does not, each sample is one document.
  bool documents = false;
};

}  // namespace plait::nn

namespace plait::nn::detail {

/// Returns the angle by which a head's pair number `pair` is turned from one position to the next.
///
/// Source: Su et al., "RoFormer", arXiv 2104.09864; llama3 as `_compute_llama3_parameters` of
///         Hugging Face's transformers.
double rotary_rate(rotary_options const& of, std::size_t head_width, std::size_t pair);

/// Fills a table with one row for each position. A row has the cosines of a head's angles, followed
/// by their sines.
template <std::size_t HeadWidth>
struct rotary_table {
  double rate[HeadWidth / 2];

  explicit rotary_table(rotary_options const& of) {
    for (std::size_t pair = 0; pair < HeadWidth / 2; ++pair)
      rate[pair] = rotary_rate(of, HeadWidth, pair);
  }
  PLAIT_HOST_DEVICE double operator()(ext::element_place const& at) const {
    std::size_t const half = HeadWidth / 2;
    double const angle = static_cast<double>(at.position) * rate[at.column % half];
    return at.column < half ? std::cos(angle) : std::sin(angle);
  }
};

/// Fills a table with one row for each position of each sample, for positions that count from the
/// beginning of documents.
template <std::size_t HeadWidth>
struct document_rotary_table {
  rotary_table<HeadWidth> of_position;
  std::int32_t const* positions;  // one for each row, in the device's memory

  PLAIT_HOST_DEVICE double operator()(ext::element_place at) const {
    at.position = static_cast<std::size_t>(positions[at.row]);
    return of_position(at);
  }
};

/// Turns each pair of numbers of each head by its angle at this position, which the table has. The
/// second number of a pair is stored half a head after the first.
template <std::size_t HeadWidth>
struct rotary_turn {
  static constexpr std::size_t block = HeadWidth;
  int direction;

  PLAIT_HOST_DEVICE auto operator()(ext::element_place const& at, auto table, auto x) const {
    using A = decltype(x[at.column]);
    std::size_t const half = HeadWidth / 2, in_head = at.column % HeadWidth, pair = in_head % half;
    std::size_t const first = at.column - in_head + pair;
    A const cosine = static_cast<A>(table[pair]);
    A const sine = static_cast<A>(direction) * static_cast<A>(table[half + pair]);
    if (in_head < half) return functions::multiply_add(-x[first + half], sine, x[first] * cosine);
    return functions::multiply_add(x[first], sine, x[first + half] * cosine);
  }
};

}  // namespace plait::nn::detail

namespace plait::nn {

/// Turns pairs of each head's numbers by angles that grow with the position, so that the product of
/// a query and a key depends on their distance. It is applied to the queries and keys of an
/// attention. A number is paired with the number half a head after it, as in Hugging Face's models.
///
/// Angles, sines and cosines are computed in double and rounded once, to the type in which sums are
/// computed.
/// Shapes: x, y (rows, Width), heads of HeadWidth side by side.
/// Moves:  nothing: heads are cut like features, and positions may be cut, too.
/// Cost:   a sine and a cosine for each position and pair of one head, in each call; a table of
///         Sequence * HeadWidth numbers. With `.documents`, both for each row.
template <std::size_t Width, std::size_t HeadWidth, std::size_t Sequence,
          rotary_options Options = rotary_options{}>
struct rotary {
  static_assert(HeadWidth > 0 && HeadWidth % 2 == 0,
                "rotary<Width, HeadWidth, Sequence>: HeadWidth must be even, because the numbers "
                "of a head are turned in pairs");
  static_assert(HeadWidth == 0 || Width % (HeadWidth == 0 ? 1 : HeadWidth) == 0,
                "rotary<Width, HeadWidth, Sequence>: Width is not a multiple of HeadWidth; set "
                "Width to the number of heads times HeadWidth");
  static_assert(HeadWidth <= 512,
                "rotary<Width, HeadWidth, Sequence>: HeadWidth must be at most 512");
  static_assert(Options.base > 0 && Options.factor.nano > 0,
                "rotary<..., {.base, .factor}>: base and factor must be positive; without a "
                "scaling leave factor out");
  static_assert(
      Options.scaling != rotary_scaling::llama3 ||
          (Options.high_frequency_factor.nano > Options.low_frequency_factor.nano &&
           Options.low_frequency_factor.nano > 0 && Options.original_positions > 0),
      "rotary<..., {.scaling = rotary_scaling::llama3}>: high_frequency_factor must be greater "
      "than low_frequency_factor, and both of them and original_positions must be positive");
  static_assert(Options.scaling != rotary_scaling::none || Options.factor.nano == 1'000'000'000,
                "rotary<..., {.factor}>: factor has no effect without a scaling; set .scaling to "
                "rotary_scaling::linear or rotary_scaling::llama3, or leave .factor out");
  using concept_tag = layer_tag;
  using input = features<Width>;
  using output = features<Width>;
  using table =
      std::conditional_t<Options.documents, slot<"table", HeadWidth, slot_element::accumulate>,
                         slot<"table", 0, Sequence * HeadWidth, slot_element::accumulate>>;
  using scratch = plait::scratch<table>;
  // A form that cuts features must cut whole heads. If the number of ranks does not divide the
  // number of heads (for example, if several ranks read one key head), all ranks turn all heads.
  using whole_heads = units_of<Width / (HeadWidth == 0 ? 1 : HeadWidth)>;
  using forms = plait::forms<whole,
                             form<"features", shard<dim::features>, shard<dim::features>,
                                  use<table, replicate>, whole_heads>,
                             by_sequence<>>;
  static constexpr std::size_t sequence = Sequence;
  static constexpr double flops_per_row = 3.0 * Width;

  static void forward(auto& ops, auto const& l) { turn(ops, l, 1, l.x, l.y); }
  static void backward_input(auto& ops, auto const& l) { turn(ops, l, -1, l.dy, l.dx); }

 private:
  static void turn(auto& ops, auto const& l, int direction, auto const& from, auto const& to) {
    auto sines = l.scratch[table{}];  // (positions, HeadWidth)
    sines.rows = ops.positions(from);
    sines.columns = HeadWidth;
    detail::rotary_table<HeadWidth> const angles(Options);
    bool is_filled = false;
    if constexpr (Options.documents)
      if (auto const within = ops.document_positions(from); within.data != nullptr) {
        sines.rows = from.rows;  // (rows, HeadWidth)
        ops.map_at(detail::document_rotary_table<HeadWidth>{angles, within.data}, sines);
        is_filled = true;
      }
    if (!is_filled) ops.map_at(angles, sines);
    ops.map_at(detail::rotary_turn<HeadWidth>{direction}, to, sines, from);
  }
};

}  // namespace plait::nn

#if PLAIT_HEADER_ONLY
#include "plait/nn/rotary.ipp"
#endif
