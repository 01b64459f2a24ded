// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "plait/plait.hpp"

// The calls of communicators that follow from a plan's list of exchanges, in their order, as lines
// of text; and the same of the calls that a rank has made.
namespace expected_calls {

using plait::planning::exchange;
using plait::planning::exchange_place;
using plait::planning::job_part;

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

/// The calls of groups that log under the bits of their axes.
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

/// The calls of rows, as a rank of a place makes them.
template <class Job>
class calls_of_rows {
 public:
  calls_of_rows(plait::ext::mesh const& grid, plait::ext::coordinates place)
      : grid_(grid), place_(place) {}

  void call(exchange const& what) {
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
      lines_.push_back(
          line::of(collective_of(row.moves, sends), row.over, type.kind, type.bytes, what.count,
                   row.moves == plait::ext::all_reduce_max ? plait::ext::reduction::max
                                                           : plait::ext::reduction::sum,
                   other));
    };
    switch (what.element) {
      case plait::planning::exchange_element::compute: return add(typename Job::element{});
      case plait::planning::exchange_element::slot:
        return add(plait::accumulate_t<typename Job::element>{});
      case plait::planning::exchange_element::gradient:
        return add(typename Job::gradient_element{});
      case plait::planning::exchange_element::parameter:
        return add(typename Job::parameter_element{});
      case plait::planning::exchange_element::real: return add(0.0);
      case plait::planning::exchange_element::bits: return add(std::uint64_t{0});
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
            plait::planning::exchanges_of<plan>(place.along(plait::axis::stage), load, part)) {}

  /// The same of another list, which may be wrong.
  expansion(plait::ext::mesh const& grid, plait::ext::coordinates place,
            plait::workload const& load, job_part part, std::vector<exchange> list)
      : base(grid, place),
        load_(load),
        layout_(plan::parameter_layout_for(place.along(plait::axis::stage), grid)),
        list_(std::move(list)) {
    switch (part) {
      case job_part::set_up: at(exchange_place::agreement); break;
      case job_part::training:
        run_step(plait::planning::training_timetable<typename plan::schedule_type>(
            plan::stages, load.microbatches));
        break;
      case job_part::evaluation:
        run_step(plait::planning::evaluation_timetable(plan::stages, load.microbatches));
        break;
      case job_part::prediction: predict(); break;
      case job_part::export_parameters:
      case job_part::export_gradients: export_tensors(); break;
      case job_part::state_transfer: at(exchange_place::state);
    }
  }

 private:
  template <class Which>
  void call_all(Which which) {
    for (auto const& what : list_)
      if (which(what))
        for (int i = 0; i < (what.bucket < 0 ? 1 : int(what.times)); ++i) call(what);
  }
  void at(exchange_place place, int item = -1) {
    call_all([&](exchange const& what) {
      return what.place == place && (item < 0 || what.item == item);
    });
  }
  void edge(exchange_place place, bool sends) {
    call_all([&](exchange const& what) {
      return what.place == place && (what.from.stage() == stage()) == sends;
    });
  }
  [[nodiscard]] int copies(int item) const {
    return plait::planning::count_copies(plan::code.items[item], plan::chunks_of(stage()));
  }
  void items(exchange_place place, int count) {
    bool const forward = place == exchange_place::forward;
    for (int i = 0; i < count; ++i) {
      int const item = forward ? i : count - 1 - i;
      for (int copy = 0; copy < copies(item); ++copy) at(place, item);
    }
  }

  void run_step(plait::ext::timetable const& table) {
    using enum exchange_place;
    at(labels);
    int backwards = 0;
    for (auto const& now : table.stages[std::size_t(stage())].operations) switch (now.kind) {
        case plait::ext::work::forward:
          items(forward, plan::code.items.size());
          at(output);  // for measures
          break;
        case plait::ext::work::backward: run_backward(++backwards == load_.microbatches); break;
        case plait::ext::work::send_activation: edge(activation_edge, true); break;
        case plait::ext::work::receive_activation: edge(activation_edge, false); break;
        case plait::ext::work::send_gradient: edge(gradient_edge, true); break;
        case plait::ext::work::receive_gradient: edge(gradient_edge, false); break;
        case plait::ext::work::backward_input:
        case plait::ext::work::backward_parameters: break;  // no plan of these tests has halves
      }
    at(slices);
    if (backwards > 0) {
      if (!goes_early) reduce(0, 0, plan::code.unit_count());
      reduce(1, 0, plan::code.unit_count());
    }
    at(loss);
    at(norm_partials);
    at(measures);
    for (int region : {0, 1}) for_each_bucket(region, [&](int b) { move(gather_parameters, b); });
  }

  // The buckets of the first region go behind the last backward of their first units.
  static constexpr bool goes_early = plan::bucket_bytes > 0;
  void run_backward(bool is_last) {
    for (int item = plan::code.items.size() - 1; item >= 0; --item) {
      auto const& piece = plan::code.items[item];
      for (int unit = piece.first_unit + piece.count - 1; unit >= piece.first_unit; --unit) {
        if (!plan::chunks_of(stage())[0].contains(unit)) continue;
        at(exchange_place::backward, item);
        if (is_last && goes_early) reduce(0, unit, unit + 1);
      }
    }
  }
  template <class Action>
  void for_each_bucket(int region, Action action) {
    for (int b = int(layout_.buckets.size()) - 1; b >= 0; --b)
      if (layout_.buckets[std::size_t(b)].region == region) action(b);
  }
  void move(exchange_place place, int bucket) {
    for (auto const& what : list_)
      if (what.place == place && what.bucket <= bucket && bucket < what.bucket + what.times)
        call(what);
  }
  /// Those that begin in units [begin, end): uses that are tied to one of their parameters first.
  void reduce(int region, int begin, int end) {
    for_each_bucket(region, [&](int b) {
      auto const& units = layout_.buckets[std::size_t(b)].units;
      if (units.begin < begin || units.begin >= end) return;
      for (auto const& what : list_) {
        if (what.place != exchange_place::ties) continue;
        auto const& use = layout_.entries[std::size_t(what.entry)];
        if (use.region == region && units.contains(use.unit)) call(what);
      }
      move(exchange_place::gradients, b);
    });
  }

  void predict() {
    using enum exchange_place;
    auto const table = plait::planning::evaluation_timetable(plan::stages, load_.microbatches);
    for (auto const& now : table.stages[std::size_t(stage())].operations) switch (now.kind) {
        case plait::ext::work::forward:
          items(forward, plan::code.items.size() - 1);
          at(output);
          break;
        case plait::ext::work::send_activation: edge(activation_edge, true); break;
        case plait::ext::work::receive_activation: edge(activation_edge, false); break;
        default: break;
      }
    at(rank_outputs);
    at(outputs);
  }

  // The blocks of the arena; then as the layers stand: stage by stage, copy by copy.
  void export_tensors() {
    at(exchange_place::blocks);
    for (int owner = 0; owner < plan::stages; ++owner)
      for (int item = 0; item < plan::code.items.size(); ++item) {
        int const here =
            plait::planning::count_copies(plan::code.items[item], plan::chunks_of(owner));
        for (int copy = 0; copy < here; ++copy)
          for (int e = 0; e < plan::entries.size(); ++e)
            call_all([&](exchange const& what) {
              return what.entry == e && what.item == item && what.from.stage() == owner;
            });
      }
  }

  plait::workload load_;
  plait::planning::parameter_layout layout_;
  std::vector<exchange> list_;
};

}  // namespace expected_calls
