// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "plait/core/header_only.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/draw/drawn_plan.hpp"
#include "plait/plan/model/program.hpp"
#include "plait/plan/model/stage_split.hpp"
#include "plait/plan/report/plan_words.hpp"
#include "plait/plan/schedule/transfer.hpp"

namespace plait::planning {

/// The text of a transfer, in two lines: first the data that it sends, then how often it runs in a
/// step and how many bytes it sends each time.
struct drawn_move {
  std::string what, bytes;
  std::string layers;  ///< for a bucket: names of the layers with these parameters
  transfer_place place;

  [[nodiscard]] std::string second_line() const;
};

/// Returns true if two lists of transfers are equal. The layers of buckets are not compared.
[[nodiscard]] [[gnu::cold]] bool are_alike(lean_vector<drawn_move> const& one,
                                           lean_vector<drawn_move> const& other);

/// A layer and the transfers after it. Transfers of the forward pass are drawn to the left of the
/// layer, transfers of the backward pass to its right.
struct drawn_layer {
  std::string name, kind, passage;
  lean_vector<drawn_move> left, right;

  [[nodiscard]] bool is_like(drawn_layer const& other) const;
};

/// A frame around the layers of an item within one chunk. An item consists of consecutive equal
/// units of the pipeline, of which only one is drawn.
struct drawn_piece {
  std::string above;        ///< text about the equal frames that are drawn as this one frame
  std::string title, note;  ///< the number of copies, and text about recomputation
  unit_range units{};
  lean_vector<drawn_layer> layers;

  [[nodiscard]] [[gnu::cold]] bool is_like(drawn_piece const& other) const;
};

/// A chunk of a stage, and the messages to the next chunk and back.
struct drawn_chunk {
  std::string title;
  lean_vector<drawn_move> before, after;  ///< transfers before and after the passes of the stage
  lean_vector<drawn_piece> pieces;
  lean_vector<drawn_move> to_next, from_next;

  [[nodiscard]] [[gnu::cold]] bool is_like(drawn_chunk const& other) const;
};

/// Lists the texts of a picture of a plan: its chunks, the frames in each chunk, and the layers in
/// each frame.
class layer_lister {
 public:
  /// `single`: if the model has at most this number of layers, each layer is drawn. In a larger
  /// model, equal adjacent layers are drawn once.
  explicit layer_lister(drawn_plan const& of, std::size_t single = most_single)
      : of_(of), plan_(of.numbers), single_(single) {}

  [[nodiscard]] [[gnu::cold]] lean_vector<drawn_chunk> chunks() const;

  /// The greatest numbers of layers and of chunks for which each layer or chunk is drawn. If there
  /// are more, equal adjacent layers or chunks are drawn once.
  static constexpr std::size_t most_single = 400;
  static constexpr int most_chunks = 8;

 private:
  [[nodiscard]] bool is_sent(transfer const& made) const {
    return plan_.grid.size(made.row().over) > 1;
  }
  [[nodiscard]] std::string layers_text(unit_range const& units) const {
    return text_of_layers(of_.names, plan_.items, units);
  }
  /// Returns the names of the layers of `units`; if the text would be too long, only the names of
  /// the first and the last layer.
  [[nodiscard]] [[gnu::cold]] std::string short_layers_text(unit_range const& units) const;
  /// Returns the units whose parameters the transfer `made` moves.
  [[nodiscard]] [[gnu::cold]] unit_range units_of(transfer const& made, int stage) const;
  [[nodiscard]] [[gnu::cold]] drawn_move move_of(transfer const& made, int stage) const;
  void put(lean_vector<drawn_move>& to, transfer const& made, int stage, bool in_front) const {
    if (is_sent(made)) to.insert(in_front ? to.begin() : to.end(), move_of(made, stage));
  }

  /// Returns text about the recomputation in units `here` of an item, in the words of `explain`.
  [[nodiscard]] [[gnu::cold]] std::string granularity_number(int item,
                                                             unit_range const& here) const;

  [[nodiscard]] [[gnu::cold]] drawn_layer layer_of(int leaf) const;

  [[nodiscard]] [[gnu::cold]] drawn_piece piece_of(int stage, int part, int item,
                                                   unit_range const& here) const;

  /// Adds the transfers of an item to the layers in `out`, in the order of the stage's list of
  /// transfers, so that each transfer is drawn at its layer.
  [[gnu::cold]] void add_moves(drawn_piece& out, int stage, int item) const;

  /// Adds to `chunk` the transfers that its stage makes outside of the passes, and the transfers of
  /// the chunk's parameters.
  [[gnu::cold]] void add_rows(drawn_chunk& chunk, int stage, int part) const;

  [[gnu::cold]] void add_edges(lean_vector<drawn_move>& to, transfer_place place, int stage,
                               int unit) const;

  /// Merges adjacent equal entries into one. In a list of frames, repetitions of several frames (a,
  /// b, a, b) are merged, too.
  [[gnu::cold]] static void fold(lean_vector<drawn_piece>& pieces);
  [[gnu::cold]] static void fold(lean_vector<drawn_chunk>& chunks);

  drawn_plan const& of_;
  plan_ir const& plan_;
  std::size_t single_;
};

}  // namespace plait::planning

#if PLAIT_HEADER_ONLY
#include "plait/draw/layer_list.ipp"
#endif
