// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "plan/models.hpp"

namespace plait::planning {

/// Runs an item of a plan on symbols instead of numbers. It records each step that reads other
/// contents than the last contents written to the value that the step names.
///
/// A buffer is a list of cells, one for each rank's block of rows, as one rank sees them. A value
/// that is cut by positions has one cell; other values have one for each rank.
template <class Plan>
class symbolic_run {
  using symbol = std::string;
  using contents = std::vector<symbol>;
  using buffer_key = std::pair<storage_kind, int>;
  static constexpr auto& code = Plan::code;
  static constexpr int ranks = Plan::tensor_ranks;

 public:
  using storage_type = std::remove_cvref_t<decltype(Plan::storage)>;
  using recompute_plan_type = recompute_plan<Plan::leaf_count>;

  symbolic_run(int item, int rank) : symbolic_run(item, rank, Plan::storage) {}
  /// Runs with another storage and, if `recomputed` is given, with recomputation for `what`.
  symbolic_run(int item, int rank, storage_type const& storage,
               recompute_plan_type const* recomputed = nullptr, int what = 0)
      : piece_(code.items[item]), rank_(rank), storage_(storage) {
    if (place(false, piece_.in).where != storage_kind::input)
      fail("the input is not looked for in its buffer");
    values_[std::size_t(piece_.in)] = fresh(piece_.in, "input");
    memory_[key(false, piece_.in)] = buffer_of(false, piece_.in, values_[std::size_t(piece_.in)]);
    for (int s = piece_.first_node; s < piece_.end_node; ++s) forward(s);
    expect_holds(false, piece_.out, "the item's output");
    if (place(false, piece_.out).where != storage_kind::output)
      fail("the output is not in its buffer");

    // Values that exist only within a call are undefined when the backward begins.
    std::erase_if(memory_,
                  [](auto const& entry) { return entry.first.first == storage_kind::transient; });
    if (recomputed != nullptr) recompute(*recomputed, what);
    saved_ = std::exchange(memory_, {});
    if (place(true, piece_.out).where != storage_kind::output)
      fail("the gradient of the output is not looked for in its buffer");
    gradients_[std::size_t(piece_.out)] = fresh(piece_.out, "seed");
    write(true, piece_.out, gradients_[std::size_t(piece_.out)]);
    for (int s = piece_.end_node - 1; s >= piece_.first_node; --s) backward(s);
    if (Plan::needs_gradient[std::size_t(piece_.in)]) {
      expect_holds(true, piece_.in, "the gradient of the item's input");
      if (place(true, piece_.in).where != storage_kind::input)
        fail("the gradient is not in its buffer");
    }
  }

  [[nodiscard]] std::vector<std::string> faults() const { return faults_; }

 private:
  static bool by_rows(int value) {
    auto const at = code.values[value].at;
    return is_shard(at) && at.index == dim::sequence;
  }
  /// Forgets the values that are not kept and recomputes them by some of the steps.
  void recompute(recompute_plan_type const& recomputed, int what) {
    auto const levels = level_records(code, Plan::tree.leaves, storage_, recomputed);
    std::erase_if(memory_, [&](auto const& entry) {
      auto const& [where, root] = entry.first;
      return where == storage_kind::kept && levels.root[std::size_t(root)] <= what;
    });
    for (int s = piece_.first_node; s < piece_.end_node; ++s) {
      bool const runs = (recomputed.node[std::size_t(s)] >> what & 1) != 0;
      if (runs) forward(s);
      int const leaf = code.nodes[s].leaf;
      if (leaf < 0 || Plan::tree.leaves[leaf].saved.own.size() == 0) continue;
      if (levels.slots[std::size_t(leaf)] <= what && !runs)
        fail("the slots of step " + std::to_string(s) + " are neither kept nor made again");
    }
    expect_holds(false, piece_.out, "the item's output, behind what is made again,");
    std::erase_if(memory_,
                  [](auto const& entry) { return entry.first.first == storage_kind::transient; });
  }
  [[nodiscard]] residence place(bool of_gradient, int value) const {
    return of_gradient ? storage_.gradients[std::size_t(value)]
                       : storage_.values[std::size_t(value)];
  }
  [[nodiscard]] buffer_key key(bool of_gradient, int value) const {
    auto const at = place(of_gradient, value);
    bool const outside = at.where == storage_kind::input || at.where == storage_kind::output;
    return {at.where, outside ? 0 : at.root};
  }
  [[nodiscard]] contents fresh(int value, std::string const& what) const {
    contents made;
    for (int b = 0; b < (by_rows(value) ? 1 : ranks); ++b)
      made.push_back(what + " of " + std::to_string(value) + " block " + std::to_string(b));
    return made;
  }
  /// Returns the contents of a whole buffer that holds only this value.
  [[nodiscard]] contents buffer_of(bool of_gradient, int value, contents const& what) const {
    contents cells(std::size_t(ranks), "garbage");
    std::size_t const first = place(of_gradient, value).row_block ? std::size_t(rank_) : 0;
    for (std::size_t b = 0; b < what.size(); ++b) cells[first + b] = what[b];
    return cells;
  }
  void write(bool of_gradient, int value, contents const& what) {
    auto& cells = memory_[key(of_gradient, value)];
    if (!place(of_gradient, value).row_block || cells.empty())
      cells = buffer_of(of_gradient, value, what);
    else cells[std::size_t(rank_)] = what[0];
    if (place(of_gradient, value).row_block && !by_rows(value))
      fail("value " + std::to_string(value) + " is not cut by rows, but lies in a block of rows");
  }
  void fail(std::string const& what) { faults_.push_back(what); }

  void expect_in(std::map<buffer_key, contents> const& memory, bool of_gradient, int value,
                 contents const& what, std::string const& reader) {
    auto const found = memory.find(key(of_gradient, value));
    std::size_t const first = place(of_gradient, value).row_block ? std::size_t(rank_) : 0;
    std::string const name = (of_gradient ? "gradient " : "value ") + std::to_string(value);
    if (what.empty()) return fail(reader + " reads " + name + ", which was never written");
    for (std::size_t b = 0; b < what.size(); ++b)
      if (found == memory.end() || found->second[first + b] != what[b])
        return fail(reader + " reads " + name + " and finds " +
                    (found == memory.end() ? "nothing" : found->second[first + b]) +
                    " instead of " + what[b]);
  }
  void expect_holds(bool of_gradient, int value, std::string const& reader) {
    expect_in(memory_, of_gradient, value, (of_gradient ? gradients_ : values_)[std::size_t(value)],
              reader);
  }
  void expect_saved(int value, std::string const& reader) {
    expect_in(saved_, false, value, values_[std::size_t(value)], reader);
  }

  bool share(bool of_gradient, int a, int b) const {
    return key(of_gradient, a) == key(of_gradient, b);
  }
  bool same_place(bool of_gradient, int a, int b) const {
    return share(of_gradient, a, b) &&
           place(of_gradient, a).row_block == place(of_gradient, b).row_block;
  }
  /// A step may overwrite its input only if it declares so, and then exactly in place.
  void expect_no_overlap(bool of_gradient, int read, int written, bool may_alias,
                         std::string const& step) {
    if (!share(of_gradient, read, written)) return;
    if (!may_alias || !same_place(of_gradient, read, written))
      fail(step + " overwrites what it reads");
  }
  void expect_not_input(int value, std::string const& step) {
    if (place(false, value).where == storage_kind::input)
      fail(step + " writes to the item's input");
  }

  /// Returns the result of a move of `in`: equal symbols if the numbers do not change.
  contents moved(transition row, contents const& in, int out, std::string const& what) const {
    if (row.moves == local_move::none) return in;
    if (row.moves == local_move::slice && row.to.index == dim::sequence)
      return {in[std::size_t(rank_)]};
    return fresh(out, what);
  }
  void move(bool of_gradient, transition row, int from, int to, std::string const& step) {
    expect_holds(of_gradient, from, step);
    auto& known = of_gradient ? gradients_ : values_;
    auto const made = moved(row, known[std::size_t(from)], to, step);
    bool const keeps_rows = row.moves == local_move::slice && row.to.index == dim::sequence;
    bool const in_block =
        keeps_rows && place(of_gradient, to).row_block && share(of_gradient, from, to);
    if (!in_block) {
      bool const in_place = row.moves == local_move::none || row.moves == collective::all_reduce;
      expect_no_overlap(of_gradient, from, to, in_place, step);
      bool const unchanged = row.moves == local_move::none && same_place(of_gradient, from, to);
      if (!of_gradient && !unchanged) expect_not_input(to, step);
      if (!unchanged) write(of_gradient, to, made);
    }
    known[std::size_t(to)] = made;
  }
  /// Copies `in` to `out`, unless they are at one place.
  void copy(bool of_gradient, int from, int to, std::string const& step) {
    auto& known = of_gradient ? gradients_ : values_;
    expect_holds(of_gradient, from, step);
    known[std::size_t(to)] = known[std::size_t(from)];
    if (same_place(of_gradient, from, to)) return;
    expect_no_overlap(of_gradient, from, to, false, step);
    if (!of_gradient) expect_not_input(to, step);
    write(of_gradient, to, known[std::size_t(to)]);
  }
  void make(bool of_gradient, int value, std::string const& step) {
    auto& known = of_gradient ? gradients_ : values_;
    known[std::size_t(value)] = fresh(value, step);
    write(of_gradient, value, known[std::size_t(value)]);
  }

  void forward(int s) {
    auto const& now = code.nodes[s];
    auto const name = "forward step " + std::to_string(s);
    switch (now.kind) {
      case program_node_kind::leaf: {
        auto const& leaf = Plan::tree.leaves[now.leaf];
        expect_holds(false, now.in, name);
        expect_no_overlap(false, now.in, now.out, leaf.may_alias.forward, name);
        for (int const more : now.more) {
          expect_holds(false, more, name);
          expect_no_overlap(false, more, now.out, false, name);
        }
        expect_not_input(now.out, name);
        make(false, now.out, name);
        break;
      }
      case program_node_kind::move:
        move(false, transition_between(code.values[now.in].at, code.values[now.out].at), now.in,
             now.out, name);
        break;
      case program_node_kind::branch: copy(false, now.in, now.out, name); break;
      case program_node_kind::fan_out:
        copy(false, now.in, now.out, name);
        copy(false, now.in, now.skip, name);
        break;
      case program_node_kind::add:
        expect_holds(false, now.in, name);
        expect_holds(false, now.skip, name);
        expect_no_overlap(false, now.in, now.out, true, name);
        expect_no_overlap(false, now.skip, now.out, true, name);
        expect_not_input(now.out, name);
        make(false, now.out, name);
        break;
    }
  }

  void backward(int s) {
    auto const& now = code.nodes[s];
    auto const name = "backward step " + std::to_string(s);
    bool const wanted = Plan::needs_gradient[std::size_t(now.in)];
    switch (now.kind) {
      case program_node_kind::leaf: {
        auto const& leaf = Plan::tree.leaves[now.leaf];
        if (!wanted && !leaf.is_trained()) break;
        if (leaf.saved.keeps_input) {
          expect_saved(now.in, name);
          for (int const more : now.more) expect_saved(more, name);
        }
        if (leaf.saved.keeps_output) expect_saved(now.out, name);
        if (!leaf.is_loss) expect_holds(true, now.out, name);
        if (!wanted) break;
        for (int const more : now.more) {
          expect_no_overlap(true, now.out, more, false, name);
          expect_no_overlap(true, now.in, more, false, name);
          for (int const other : now.more)
            if (other != more) expect_no_overlap(true, other, more, false, name);
          make(true, more, name + " of another input");
        }
        if (!leaf.is_loss) expect_no_overlap(true, now.out, now.in, leaf.may_alias.backward, name);
        make(true, now.in, name);
        break;
      }
      case program_node_kind::move:
        if (wanted)
          move(true, adjoint(transition_between(code.values[now.in].at, code.values[now.out].at)),
               now.out, now.in, name);
        break;
      case program_node_kind::branch:
      case program_node_kind::fan_out:
        if (!wanted) break;
        expect_holds(true, now.out, name);
        expect_holds(true, now.skip, name);
        expect_no_overlap(true, now.out, now.in, true, name);
        expect_no_overlap(true, now.skip, now.in, true, name);
        make(true, now.in, name);
        break;
      case program_node_kind::add:
        if (wanted) copy(true, now.out, now.in, name);
        break;
    }
  }

  item const& piece_;
  int rank_;
  storage_type storage_;
  std::map<buffer_key, contents> memory_, saved_;
  std::array<contents, program<Plan::leaf_count>::most_values> values_{}, gradients_{};
  std::vector<std::string> faults_;
};

/// Checks that no value is larger than its buffer.
template <class Plan>
void expect_fits(auto const& storage) {
  constexpr std::size_t rows = 12;
  auto const& code = Plan::code;
  auto const count = [&](int v) {
    return local_block(code.values[v], rows, Plan::tensor_ranks).count();
  };
  for (int v = 0; v < code.values.size(); ++v)
    for (bool const of_gradient : {false, true}) {
      auto const at =
          of_gradient ? storage.gradients[std::size_t(v)] : storage.values[std::size_t(v)];
      auto const& piece = code.items[code.values[v].item];
      int const owner = at.where == storage_kind::input    ? piece.in
                        : at.where == storage_kind::output ? piece.out
                                                           : at.root;
      std::size_t const blocks = at.row_block ? std::size_t(Plan::tensor_ranks) : 1;
      EXPECT_LE(count(v) * blocks, count(owner))
          << (of_gradient ? "gradient " : "value ") << v << " in the buffer of " << owner;
    }
}

template <class Plan>
void expect_sound() {
  for (int item = 0; item < Plan::code.items.size(); ++item)
    for (int rank = 0; rank < Plan::tensor_ranks; ++rank)
      for (auto const& fault : symbolic_run<Plan>(item, rank).faults())
        ADD_FAILURE() << "item " << item << ", rank " << rank << ": " << fault;
  expect_fits<Plan>(Plan::storage);
}

/// Checks storage with recomputation, for each `granularity` that units may have in one model.
template <class Plan>
void expect_sound_recompute() {
  constexpr unsigned all_kinds = 15;
  for (unsigned const kinds : {1U << 1, 1U << 2, 1U << 3, all_kinds}) {
    auto const recomputed = recompute_finder<Plan::leaf_count>(Plan::code, Plan::tree.leaves,
                                                               Plan::needs_gradient, kinds)
                                .out;
    auto const storage = plan_storage(Plan::code, Plan::tree.leaves,
                                      {recomputed.stays.data(), Plan::code.values.size()},
                                      {recomputed.apart.data(), Plan::code.values.size()});
    expect_fits<Plan>(storage);
    for (int what = 0; what < granularities; ++what)
      for (int item = 0; (kinds >> what & 1) != 0 && item < Plan::code.items.size(); ++item)
        for (int rank = 0; rank < Plan::tensor_ranks; ++rank)
          for (auto const& fault :
               symbolic_run<Plan>(item, rank, storage, &recomputed, what).faults())
            ADD_FAILURE() << "item " << item << ", rank " << rank << ", again " << what << " of "
                          << kinds << ": " << fault;
  }
}

/// Models that share buffers in many ways.
namespace shared_models {

using namespace models;

inline constexpr std::size_t width = 16, length = 8;
using norm = nn::layer_norm<width>;
using dense = nn::linear<width, width>;
using wide = nn::linear<width, 4 * width>;
using narrow = nn::linear<4 * width, width>;
using attention = nn::causal_self_attention<width, 4, length>;
using classes = nn::cross_entropy<width>;

template <class First>
using with_loss = objective<First, classes>;

/// The bodies that a plan requires; the symbolic run calls none.
struct bodies {
  static void forward(auto&&...) {}
  static void backward_input(auto&&...) {}
  static void backward_parameters(auto&&...) {}
};

/// A layer whose input and output can be any kind of whole value.
struct scale : bodies {
  using concept_tag = layer_tag;
  using input = features<width>;
  using output = features<width>;
  using forms = plait::forms<whole, form<"replicate", replicate, replicate>,
                             form<"partial", partial, partial>>;
  static constexpr aliasing may_alias{.forward = true, .backward = true};
};
using replicated = use_form<"replicate", scale>;
using summands = use_form<"partial", scale>;

/// A layer whose backward needs its output while that is still a summand.
struct keeps_summands : bodies {
  using concept_tag = layer_tag;
  using weight = parameter<"weight", extents<width, width>>;
  using parameters = parameter_list<weight>;
  using input = features<width>;
  using output = features<width>;
  using forms = plait::forms<whole, row_split<split<weight, 0>>>;
  using saved = plait::saved<output_slot>;
};
/// A layer whose backward needs only a wide tensor that it saves.
struct keeps_own : bodies {
  using concept_tag = layer_tag;
  using input = features<width>;
  using output = features<width>;
  using saved = plait::saved<slot<"hidden", width>, slot<"route", 1, slot_kept::always>>;
  static constexpr aliasing may_alias{.forward = true, .backward = true};
};
using on_shards = sequential<norm, wide, narrow>;
using whole_dense = use_form<"whole", dense>;
using column_dense = use_form<"column", dense>;
using row_dense = use_form<"row", dense>;

using Models = ::testing::Types<
    dense, nn::relu<width>, sequential<nn::relu<width>, dense>,
    sequential<dense, nn::relu<width>, nn::dropout<width, 100>, nn::gelu<width>>,
    with_loss<sequential<dense, nn::relu<width>, dense>>, residual<dense>,
    sequential<dense, residual<nn::relu<width>>>, residual<residual<dense>>,
    residual<sequential<dense, residual<nn::dropout<width, 100>>>>,
    residual<sequential<dense, residual<sequential<nn::relu<width>, dense>>, dense>>,
    residual<sequential<norm, residual<sequential<norm, dense>>>>,
    residual<sequential<residual<dense>, nn::relu<width>, residual<norm>>>,
    sequential<dense, residual<sequential<nn::relu<width>, nn::dropout<width, 100>>>>,
    sequential<dense, residual<sequential<nn::relu<width>, dense>>, nn::relu<width>>,
    sequential<residual<dense>, residual<dense>>,
    repeat<3, residual<sequential<norm, wide, nn::relu<4 * width>, narrow>>>,
    sequential<dense, repeat<3, nn::relu<width>>>,
    repeat<2, sequential<residual<dense>, nn::dropout<width, 100>>>,
    sequential<repeat<2, dense>, norm, repeat<2, residual<norm>>>,
    sequential<norm, wide, nn::gelu<4 * width>, narrow>,
    residual<sequential<norm, attention, nn::dropout<width, 100>>>, models::block<width, 4, length>,
    residual<models::block<width, 4, length>>, gpt_with_loss<3, width, 4, length, 32>,
    objective<
        sequential<
            nn::embedding<32, width>, nn::positions<length, width>, nn::dropout<width, 100>,
            repeat<2, sequential<residual<sequential<norm, attention, nn::dropout<width, 100>>>,
                                 residual<sequential<norm, wide, nn::gelu<4 * width>, narrow,
                                                     nn::dropout<width, 100>>>>>,
            norm, nn::linear<width, 32>>,
        nn::cross_entropy<32>>,
    sequential<repeat<2, whole_dense>, repeat<2, replicated>, row_dense>,
    sequential<column_dense, row_dense, repeat<2, summands>, whole_dense>,
    sequential<column_dense, keeps_summands, whole_dense>,
    sequential<whole_dense, repeat<8, residual<sequential<norm, attention>>>, whole_dense>,
    repeat<8, sequential<residual<sequential<use_form<"whole", norm>, wide, narrow>>,
                         residual<on_shards>, residual<on_shards>>>,
    repeat<8, sequential<residual<on_shards>, residual<on_shards>,
                         residual<sequential<fan_out<whole_dense, dense>, nn::product<width>>>>>,
    sequential<fan_out<dense, dense>, nn::product<width>>,
    sequential<fan_out<sequential<dense, nn::gelu<width>>, dense>, nn::product<width>, dense>,
    residual<sequential<norm, fan_out<sequential<wide, nn::gelu<4 * width>>, wide>,
                        nn::product<4 * width>, narrow>>,
    sequential<dense, fan_out<nn::relu<width>, nn::relu<width>>, nn::product<width>>,
    repeat<2, residual<sequential<fan_out<residual<dense>, nn::relu<width>>, nn::product<width>>>>,
    sequential<residual<sequential<frozen<dense>, residual<nn::relu<width>>, dense>>,
               repeat<2, residual<frozen<sequential<norm, wide, narrow>>>>>,
    residual<sequential<fan_out<frozen<sequential<dense, nn::relu<width>>>, dense>,
                        nn::product<width>, frozen<dense>>>,
    repeat<2, sequential<dense, nn::relu<width>>>,
    sequential<keeps_own, residual<keeps_own>, residual<sequential<keeps_own, nn::relu<width>>>>,
    residual<sequential<dense, keeps_own, residual<keeps_own>, nn::gelu<width>, keeps_own>>,
    residual<
        sequential<norm, kept<wide>, recomputed<granularity::all, nn::gelu<4 * width>>, narrow>>,
    repeat<2, residual<
                  sequential<norm,
                             recomputed<granularity::all,
                                        residual<sequential<dense, kept<nn::gelu<width>>, dense>>>,
                             nn::relu<width>, recomputed<granularity::cheap, norm>, on_shards>>>>;
}  // namespace shared_models

}  // namespace plait::planning
