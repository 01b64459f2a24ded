// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "plait/plait.hpp"

// Lists, as lines of text, the calls of communicators that follow from a plan's list of transfers,
// in their order, and the calls that a rank has made.
namespace expected_calls {

using plait::planning::job_part;
using plait::planning::transfer;
using plait::planning::transfer_place;

inline plait::ext::collective collective_of(plait::ext::row_operation moves, bool sends) {
  bool const receives = moves == plait::ext::collective::send && !sends;
  return receives ? plait::ext::collective::receive : moves.sent;
}

struct line {
  static std::string of(plait::ext::collective kind, plait::ext::axis_set over, char element,
                        std::size_t element_bytes, std::size_t count, plait::ext::reduction how,
                        int other) {
    std::string out = plait::ext::to_string(kind);
    if (how == plait::ext::reduction::max) out += "(max)";
    out += " over " + plait::ext::to_string(over) + " of " + std::to_string(count) + " " + element +
           std::to_string(8 * element_bytes);
    bool const names_other = kind == plait::ext::collective::send ||
                             kind == plait::ext::collective::receive ||
                             plait::detail::has_root(kind);
    if (names_other) out += " with " + std::to_string(other);
    return out;
  }
};

/// Returns the calls of groups that log under the bits of their axes.
inline std::vector<std::string> lines_of(std::vector<plait::detail::logged_call> const& log) {
  std::vector<std::string> out;
  for (auto const& call : log) {
    plait::ext::axis_set over;
    over.bits = static_cast<unsigned>(call.group);
    out.push_back(line::of(call.kind, over, call.element.kind, call.element.bytes,
                           call.tensor_bytes / call.element.bytes, call.operation, call.other));
  }
  return out;
}

/// The calls of rows, as a rank at a place makes them.
template <class Job>
class calls_of_rows {
 public:
  calls_of_rows(plait::ext::mesh const& grid, plait::ext::coordinates place)
      : grid_(grid), place_(place) {}

  void call(transfer const& what) {
    auto const row = what.row();
    if (grid_.size(row.over) == 1) return;
    bool const sends = what.from.stage() == stage();
    int other = 0;
    if (row.moves == plait::ext::collective::broadcast)
      for (auto const which : plait::ext::all_axes)
        if (row.over.contains(which)) other = what.from.at(which).index;
    if (row.moves == plait::ext::collective::send) other = (sends ? what.to : what.from).stage();
    auto const add = [&]<class T>(T) {
      auto const type = plait::detail::element_type::of<T>();
      // A row that moves pieces makes a call for each, and the last piece may be shorter.
      std::size_t const block = what.elements() / std::size_t(grid_.size(row.over)),
                        piece = what.piece > 0 ? what.piece : block;
      for (std::size_t begin = 0; begin < block || begin == 0;
           begin += std::max<std::size_t>(piece, 1)) {
        std::size_t const part = std::min(piece, block - begin);
        lines_.push_back(line::of(collective_of(row.moves, sends), row.over, type.kind, type.bytes,
                                  what.piece > 0 ? what.count * part / block : what.count,
                                  row.moves == plait::ext::all_reduce_max
                                      ? plait::ext::reduction::max
                                      : plait::ext::reduction::sum,
                                  other));
        if (what.piece == 0) break;
      }
    };
    switch (what.element) {
      case plait::planning::transfer_element::compute: return add(typename Job::element{});
      case plait::planning::transfer_element::slot:
        return add(plait::accumulate_t<typename Job::element>{});
      case plait::planning::transfer_element::gradient:
        return add(typename Job::gradient_element{});
      case plait::planning::transfer_element::parameter:
        return add(typename Job::parameter_element{});
      case plait::planning::transfer_element::real: return add(0.0);
      case plait::planning::transfer_element::bits: return add(std::uint64_t{0});
      case plait::planning::transfer_element::word: return add(plait::ext::wire_word{0});
    }
  }
  [[nodiscard]] int stage() const { return place_.along(plait::axis::stage); }
  [[nodiscard]] std::vector<std::string> const& lines() const { return lines_; }

 private:
  plait::ext::mesh grid_;
  plait::ext::coordinates place_;
  std::vector<std::string> lines_;
};

template <class Job>
class expansion : public calls_of_rows<Job> {
  using base = calls_of_rows<Job>;
  using base::call, base::stage;
  using plan = typename Job::plan_type;

 public:
  expansion(plait::ext::mesh const& grid, plait::ext::coordinates place,
            plait::workload const& load, job_part part)
      : expansion(
            grid, place, load, part,
            plait::planning::transfers_of<plan>(place.along(plait::axis::stage), load, part)) {}

  /// Takes another list, which may be wrong.
  expansion(plait::ext::mesh const& grid, plait::ext::coordinates place,
            plait::workload const& load, job_part part, plait::ext::lean_vector<transfer> list)
      : base(grid, place),
        load_(load),
        layout_(plan::parameter_layout_for(place.along(plait::axis::stage), grid)),
        list_(std::move(list)) {
    switch (part) {
      case job_part::set_up: at(transfer_place::consistency); break;
      case job_part::training:
        run_step(plait::planning::training_timetable<typename plan::schedule_type>(
            plan::stages, load.microbatches));
        break;
      case job_part::evaluation:
        run_step(
            plait::planning::evaluation_timetable(plan::stages, load.microbatches, plan::shape));
        break;
      case job_part::prediction: predict(); break;
      case job_part::export_parameters:
      case job_part::export_gradients: export_tensors(); break;
      case job_part::state_transfer: at(transfer_place::state); break;
      case job_part::common_update:
        at(transfer_place::replica_numbers);
        at(transfer_place::differences);
    }
  }

 private:
  template <class Which>
  void call_all(Which which) {
    for (auto const& what : list_)
      if (which(what))
        for (int i = 0; i < what.buckets; ++i) call(what);
  }
  void at(transfer_place place, int item = -1) {
    call_all([&](transfer const& what) {
      return what.place == place && (item < 0 || what.item == item);
    });
  }
  void edge(transfer_place place, bool sends, bool at_end) {
    int const unit = at_end ? chunk().end : chunk().begin;
    call_all([&](transfer const& what) {
      return what.place == place && what.unit == unit && (what.from.stage() == stage()) == sends;
    });
  }
  [[nodiscard]] plait::planning::unit_range chunk() const {
    return plan::chunks_of(stage())[chunk_];
  }
  [[nodiscard]] bool ends_model() const { return chunk().end == plan::code.unit_count(); }
  void items(int count) {
    for (int item = 0; item < count; ++item)
      for (int unit = plan::code.items[item].first_unit;
           unit < plan::code.items[item].first_unit + plan::code.items[item].count; ++unit)
        if (chunk().contains(unit)) {
          gather_for(unit, true);
          at(transfer_place::forward, item);
          if (works(item, unit)) working_ = {unit, microbatch_};
        }
  }

  // --- recomputation: units work in one record

  static constexpr bool recomputes = plan::has_recompute;
  [[nodiscard]] static bool works(int item, int unit) {
    auto const layout = plan::activation_layout_for(plan::sequence_length);
    auto const what = std::size_t(plan::recomputes.of(unit));
    return recomputes && layout.activation_stash_bytes[std::size_t(item)] >
                             layout.stash_end[std::size_t(item)][what];
  }
  void make_again(int item, int unit) {
    if (!works(item, unit)) return;
    if (working_ != std::pair{unit, microbatch_}) at(transfer_place::recompute, item);
    working_ = {-1, -1};
  }

  // --- buckets of which ranks hold blocks: a region has memory for two at a time

  static constexpr bool gathers = plan::rules.keeps_blocks(), scatters = plan::rules.sums_blocks();
  [[nodiscard]] std::size_t length(int bucket) const {
    return layout_.bucket_at(std::size_t(bucket)).elements.count;
  }
  /// Returns the bucket of a parameter.
  [[nodiscard]] int bucket_of(int entry, int unit) const {
    int const all = int(layout_.buckets.size() + layout_.frozen_buckets.size());
    std::size_t const at = layout_.offset(entry, unit);
    for (int b = 0; b < all; ++b)
      if (auto const& one = layout_.bucket_at(std::size_t(b)).elements;
          one.offset <= at && at < one.end())
        return b;
    return -1;
  }
  [[nodiscard]] static bool gives_gradient(int leaf) {
    for (auto const& now : plan::code.nodes)
      if (now.kind == plait::planning::program_node_kind::leaf && now.leaf == leaf)
        return plan::needs_gradient[std::size_t(now.in)];
    return false;
  }
  /// Returns the buckets of a region that a unit uses, its own bucket first.
  [[nodiscard]] std::vector<int> used(int unit, int region, bool forward) const {
    std::vector<int> own, tied;
    for (int e = 0; e < plan::entries.size(); ++e) {
      auto const& entry = plan::entries[e];
      if (!plan::code.items[entry.item].units().contains(unit)) continue;
      if (layout_.entries[std::size_t(e)].region != region) continue;
      if (!forward && !gives_gradient(entry.leaf)) continue;
      int const bucket = bucket_of(e, unit);
      auto& to = entry.owner < 0 ? own : tied;
      if (bucket >= 0 && std::ranges::find(own, bucket) == own.end() &&
          std::ranges::find(tied, bucket) == tied.end())
        to.push_back(bucket);
    }
    own.insert(own.end(), tied.begin(), tied.end());
    return own;
  }
  /// Operations of passes: units that use equal buckets, in their order, and these buckets.
  struct one_piece {
    int begin = 0, end = 0;
    std::vector<int> used[2];
  };
  void list_pieces(plait::ext::timetable const& table) {
    for (auto const& now : table.stages[std::size_t(stage())].operations) {
      auto const units = plan::chunks_of(stage())[now.chunk];
      bool const forward = now.kind == plait::ext::work::forward;
      if (!forward && now.kind != plait::ext::work::backward) continue;
      std::vector<one_piece> here;
      std::vector<int> before[3];
      for (int unit = units.begin; unit < units.end; ++unit) {
        std::vector<int> const uses[3]{used(unit, 0, true), used(unit, 2, true), own(unit)};
        bool begins = here.empty();
        for (int k = 0; k < (forward || !scatters ? 2 : 3); ++k) {
          bool differs = false;
          for (int const bucket : uses[k])
            differs = differs || std::ranges::find(before[k], bucket) == before[k].end();
          if (differs) before[k] = uses[k];
          begins = begins || differs;
        }
        if (begins) here.push_back({unit, unit, {}});
        here.back().end = unit + 1;
        for (int k : {0, 1})
          for (int const bucket : used(unit, 2 * k, forward))
            if (auto& all = here.back().used[k]; std::ranges::find(all, bucket) == all.end())
              all.push_back(bucket);
      }
      if (!forward) std::ranges::reverse(here);
      pieces_.insert(pieces_.end(), here.begin(), here.end());
    }
  }
  /// Returns the bucket of gradients that a unit makes.
  [[nodiscard]] std::vector<int> own(int unit) const {
    for (int e = 0; e < plan::entries.size(); ++e)
      if (plan::entries[e].owner < 0 &&
          plan::code.items[plan::entries[e].item].units().contains(unit) &&
          layout_.entries[std::size_t(e)].region == 0)
        return {bucket_of(e, unit)};
    return {};
  }
  void bring(int bucket, int k, std::vector<int> const& stay) {
    auto& there = there_[k];  // the bucket before it, and the last bucket
    auto const& at = layout_.parameters_at;
    std::size_t const room = (k == 0 ? at.room : at.frozen_room).count;
    auto const stays = [&](int b) { return std::ranges::find(stay, b) != stay.end(); };
    if (bucket == there[0] || bucket == there[1]) return;
    for (int const goes : {0, 1}) {
      int const beside = there[1 - goes];
      bool const fits = beside < 0 || length(beside) + length(bucket) <= room;
      if ((there[goes] >= 0 && stays(there[goes])) || (!fits && stays(beside))) continue;
      there[0] = fits ? beside : -1;
      there[1] = bucket;
      return move(transfer_place::parameters, bucket);
    }
  }
  /// Gathers the buckets that the next operation needs, and before it the buckets of the operation
  /// after it that fit.
  void gather_for(int unit, bool forward) {
    if (!gathers) return;
    auto const& now = pieces_[std::size_t(next_piece_)];
    if (unit != (forward ? now.begin : now.end - 1)) return;
    // For each operation, the buckets of the region of trained parameters come first.
    for (int k : {0, 1}) {
      auto stay = now.used[k];
      for (int const bucket : now.used[k]) bring(bucket, k, stay);
      if (std::size_t(next_piece_) + 1 == pieces_.size()) continue;
      for (int const bucket : pieces_[std::size_t(next_piece_) + 1].used[k])
        bring(bucket, k, stay), stay.push_back(bucket);
    }
    ++next_piece_;
  }

  void run_step(plait::ext::timetable const& table) {
    using enum transfer_place;
    list_pieces(table);
    at(labels);
    for (int const region : {1, 0})
      for (int b = 0; b < int(layout_.buckets.size()); ++b)
        if (layout_.buckets[std::size_t(b)].region == region) move(gather_parameters, b);
    // Delayed updates: the gradients of the step before.
    for (int const region : {0, 1})
      if (plan::delays) for_each_bucket(region, [&](int b) { move(gradients, b); });
    std::vector<int> backwards(std::size_t(plan::chunks), 0);
    for (auto const& now : table.stages[std::size_t(stage())].operations) {
      microbatch_ = now.microbatch;
      chunk_ = now.chunk;
      switch (now.kind) {
        case plait::ext::work::forward:
          items(plan::code.items.size());
          if (ends_model()) at(output);  // measures read it
          break;
        case plait::ext::work::backward:
          run_backward(++backwards[std::size_t(chunk_)] == load_.microbatches);
          break;
        case plait::ext::work::send_activation: edge(activation_edge, true, true); break;
        case plait::ext::work::receive_activation: edge(activation_edge, false, false); break;
        case plait::ext::work::send_gradient: edge(gradient_edge, true, false); break;
        case plait::ext::work::receive_gradient: edge(gradient_edge, false, true); break;
        case plait::ext::work::backward_input:
        case plait::ext::work::backward_parameters: break;  // no plan of these tests has halves
      }
    }
    at(slices);
    if (backwards[0] > 0) {
      if (scatters && last_ >= 0) reduce_now(last_);
      if (!goes_early && !scatters) reduce(0, 0, plan::code.unit_count());
      reduce(1, 0, plan::code.unit_count());
    }
    at(loss);
    at(norm_partials);
    at(measures);
  }

  // The buckets of the first region follow the last backward of their first units.
  static constexpr bool goes_early = plan::bucket_bytes > 0 && !plan::delays;
  void reduce_now(int bucket) {
    if (!plan::delays) move(transfer_place::gradients, bucket);
  }
  void run_backward(bool is_last) {
    for (int item = plan::code.items.size() - 1; item >= 0; --item) {
      auto const& piece = plan::code.items[item];
      for (int unit = piece.first_unit + piece.count - 1; unit >= piece.first_unit; --unit) {
        if (!chunk().contains(unit)) continue;
        gather_for(unit, false);
        make_again(item, unit);
        at(transfer_place::backward, item);
        if (scatters) scatter(unit, is_last);
        else if (is_last && goes_early) reduce(0, unit, unit + 1);
      }
    }
  }
  /// A bucket is sent after its first unit. Sums over other axes for the last microbatch are made
  /// after the layers of the next one.
  void scatter(int unit, bool is_last) {
    auto const chunk = this->chunk();
    int const begins = own(unit).empty() ? -1 : own(unit)[0];
    int before = -1;
    for (int u = unit - 1; u >= chunk.begin && before < 0; --u)
      if (!own(u).empty()) before = own(u)[0];
    if (begins < 0 || begins == before) return;
    if (is_last && last_ >= 0) reduce_now(last_);
    for (auto const& what : list_)
      if (is_last && what.place == transfer_place::ties &&
          layout_.entries[std::size_t(what.entry)].region == 0 &&
          layout_.bucket_at(std::size_t(begins))
              .units.contains(layout_.entries[std::size_t(what.entry)].unit))
        call(what);
    move(transfer_place::microbatch_gradients, begins);
    if (is_last) last_ = begins;
  }
  template <class Action>
  void for_each_bucket(int region, Action action) {
    for (int b = int(layout_.buckets.size()) - 1; b >= 0; --b)
      if (layout_.buckets[std::size_t(b)].region == region) action(b);
  }
  void move(transfer_place place, int bucket) {
    for (auto const& what : list_)
      if (what.place == place && what.bucket <= bucket && bucket < what.bucket + what.buckets)
        call(what);
  }
  /// Reduces the buckets that begin in units [begin, end). Uses that are tied to one of their
  /// parameters come first.
  void reduce(int region, int begin, int end) {
    for_each_bucket(region, [&](int b) {
      auto const& units = layout_.buckets[std::size_t(b)].units;
      if (units.begin < begin || units.begin >= end) return;
      for (auto const& what : list_) {
        if (what.place != transfer_place::ties) continue;
        auto const& use = layout_.entries[std::size_t(what.entry)];
        if (use.region == region && units.contains(use.unit)) call(what);
      }
      reduce_now(b);
    });
  }

  void predict() {
    using enum transfer_place;
    auto const table =
        plait::planning::evaluation_timetable(plan::stages, load_.microbatches, plan::shape);
    list_pieces(table);
    for (auto const& now : table.stages[std::size_t(stage())].operations) {
      chunk_ = now.chunk;
      switch (now.kind) {
        case plait::ext::work::forward:
          items(plan::code.items.size() - 1);
          if (ends_model()) at(output);
          break;
        case plait::ext::work::send_activation: edge(activation_edge, true, true); break;
        case plait::ext::work::receive_activation: edge(activation_edge, false, false); break;
        default: break;
      }
    }
    at(rank_outputs);
    at(outputs);
  }

  // Exports in the order of the layers, copy by copy; the rows of a bucket precede its first
  // tensor.
  void export_tensors() {
    int brought[3]{-1, -1, -1};
    auto const owner_of = [](int unit) {
      for (int owner = 0; owner < plan::stages; ++owner)
        for (auto const& units : plan::chunks_of(owner))
          if (units.contains(unit)) return owner;
      return -1;
    };
    for (int item = 0; item < plan::code.items.size(); ++item) {
      auto const units = plan::code.items[item].units();
      for (int unit = units.begin; unit < units.end; ++unit) {
        int const owner = owner_of(unit);
        for (int region = 0; region < 3 && owner == stage(); ++region)
          for (int e = 0; e < plan::entries.size(); ++e) {
            auto const& entry = plan::entries[e];
            if (entry.item != item || entry.owner >= 0 ||
                layout_.entries[std::size_t(e)].region != region)
              continue;
            int const bucket = bucket_of(e, unit);
            if (bucket >= 0 && brought[region] != bucket)
              move(transfer_place::blocks, brought[region] = bucket);
          }
        for (int e = 0; e < plan::entries.size(); ++e)
          call_all([&](transfer const& what) {
            return what.entry == e && what.item == item && what.from.stage() == owner;
          });
      }
    }
  }

  plait::workload load_;
  plait::planning::parameter_layout layout_;
  plait::ext::lean_vector<transfer> list_;
  std::vector<one_piece> pieces_{};
  int next_piece_ = 0;
  int there_[2][2]{{-1, -1}, {-1, -1}};  // the buckets in the memory for parameters
  int last_ = -1;                        // the bucket whose sum over other axes comes next
  int microbatch_ = 0, chunk_ = 0;       // the microbatch and chunk of the current pass
  std::pair<int, int> working_{-1, -1};  // the unit in the working record, and its microbatch
};

}  // namespace expected_calls
