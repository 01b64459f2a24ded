// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "plait/core/bfloat16.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/core/type_name.hpp"
#include "plait/doctor/doctor_progress.hpp"
#include "plait/doctor/machine.hpp"
#include "plait/doctor/measured_job.hpp"
#include "plait/doctor/rank_exchange.hpp"
#include "plait/doctor/turns.hpp"
#include "plait/doctor/work_operands.hpp"

namespace plait::detail::doctor {

/// Returns 64 product shapes with lengths from 32 to 4096, each without a transposed operand and
/// with either operand transposed: 192 products. `full`: a grid of four lengths; otherwise products
/// of at most 2^27 multiplications, since larger ones take long on a processor.
[[nodiscard]] std::vector<ext::product_shape> usual_products(bool full);

/// Returns the geometric mean of the ranks' numbers; 0 for no numbers. The mean of speeds and the
/// inverse of the mean of times are then the same number.
[[nodiscard]] double mean_of_ranks(std::vector<double> const& of_each);

/// The speeds of ranks in several kinds of work. The speed of a kind is the geometric mean of all
/// that were added, which depends less on the pages of memory that a rank happens to have than each
/// of them.
class work_of_kinds {
 public:
  void add(std::string_view kind, std::vector<double> const& together,
           std::vector<double> const& alone);
  [[nodiscard]] std::vector<ext::measured_work> means() const;

 private:
  std::vector<ext::measured_work> logarithms_{};  // sums of logarithms
  std::vector<int> counts_{};
};

/// Measures products, attention, row-wise layers, the optimizer, copies and the start of an
/// operation on all ranks, while all ranks work. Measures one size of each again while only one
/// rank of each host works. All ranks get equal results.
///
/// Cost:   on each rank, four times the memory of the largest operand, and the memory of an
///         optimizer's step.
/// Errors: std::bad_alloc, and the errors of device and communicator.
template <class Rank>
class work_measurement {
  using device_type = typename Rank::device_type;

 public:
  /// `turn`: the number of this rank among the ranks of its host, from 0. `turns`: the number of
  /// ranks of the host that has most of them.
  work_measurement(Rank& rank, rank_exchange<Rank>& exchange, int turn, int turns)
      : device_(rank.device()), exchange_(exchange), turn_(turn), turns_(turns) {}

  /// Measures work on elements of type T, and appends the results to `job` and `of`. If there are
  /// `shapes`, measures these products, attention and the start of an operation; if `memory` is
  /// true, row-wise layers and the optimizer.
  template <class T>
  void measure(std::vector<ext::product_shape> const& shapes, bool memory,
               turn_limits const& limits, doctor_progress& progress, ext::machine& of) {
    std::string const name = std::is_same_v<T, bfloat16> ? "bfloat16" : std::string(type_name<T>());
    progress.begin(concat({"products and layers of ", name}));
    work_operands<device_type, T> operands(device_, shapes);
    auto& type = of.element_types.emplace_back();
    type.name = name;

    auto of_shapes = limits;
    of_shapes.seconds /= 4;  // there are some 200 products
    exchange_.meet();
    auto const seconds = seconds_of_works(device_, of_shapes, shapes.size(),
                                          [&](std::size_t i) { operands.product(shapes[i]); });
    auto const of_ranks = exchange_.of_all(seconds);
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      std::vector<double> speeds;
      for (auto const& one : of_ranks) speeds.push_back(flop_of(shapes[i]) / one[i]);
      type.products.push_back({shapes[i], mean_of_ranks(speeds)});
    }
    std::vector<probe> all;
    if (!shapes.empty()) add_products(operands, type, all);
    if (memory) add_memory(operands, type, all);
    measure_probes(all, limits);
  }

  /// Returns the speeds of ranks that the rules compare, of everything measured so far.
  [[nodiscard]] std::vector<ext::measured_work> work() const { return work_.means(); }

  /// Measures copies within the device's memory.
  void measure_copies(turn_limits const& limits, doctor_progress& progress, ext::machine& of) {
    progress.begin("copies");
    std::size_t const bytes = work_operands<device_type, float>::sizes.copy_bytes;
    auto const memory = device_.allocate(2 * bytes);
    auto* const from = memory.data();
    auto* const to = from + bytes;
    device_.on(stream::compute).copy_bytes(from, to, bytes);  // the first use of a page is slow
    std::vector<probe> all;
    all.push_back({"memory-bound work", 2.0 * double(bytes),
                   [&] { device_.on(stream::compute).copy_bytes(from, to, bytes); },
                   [&](double speed) { of.memory_bytes_per_second = speed; }});
    measure_probes(all, limits);
  }

  /// Measures how steady each rank is: repeats turns of the same work, about 50 ms each, for
  /// `seconds`.
  void measure_turns(double seconds, doctor_progress& progress, ext::measured_job& job) {
    progress.begin("steadiness");
    work_operands<device_type, float> operands(device_, {});
    auto const side = operands.sizes.product;
    ext::product_shape const shape{side, side, side};
    auto work = [&] { operands.product(shape); };
    int const calls = calls_in_turn(device_, {.seconds = 0.05}, work);
    exchange_.meet();
    std::vector<double> turns;
    for (double const end = seconds_now() + seconds; seconds_now() < end;)
      turns.push_back(seconds_of_turn(device_, calls, work));
    auto const own = turns_of(turns);
    job.turns.clear();
    for (auto const& one : exchange_.of_all({own.median_seconds, own.longest_seconds, own.lost}))
      job.turns.push_back({one[0], one[1], one[2]});
  }

 private:
  [[nodiscard]] static double flop_of(ext::product_shape const& of) {
    return 2.0 * double(of.rows) * double(of.columns) * double(of.inner);
  }

  template <class T>
  static void add_products(work_operands<device_type, T>& operands,
                           ext::machine::element_type& type, std::vector<probe>& out) {
    using sizes = work_operands<device_type, T>;
    auto const side = sizes::sizes.product;
    out.push_back({"products", 3 * flop_of({side, side, side}),
                   [&operands, side] {
                     using transposed = ext::transposed_operand;
                     for (auto const one : {transposed::none, transposed::a, transposed::b})
                       operands.product({side, side, side, one});
                   },
                   [](double) {}});
    for (std::size_t const width : sizes::head_widths)
      out.push_back({"attention", sizes::flop_of_attention(width),
                     [&operands, width] { operands.attention(width); },
                     [&type, width](double speed) { type.attentions.push_back({width, speed}); }});
    out.push_back({"", 1, [&operands] { operands.smallest_operation(); },
                   [&type](double speed) { type.seconds_per_operation = 1 / speed; }});
  }
  template <class T>
  static void add_memory(work_operands<device_type, T>& operands, ext::machine::element_type& type,
                         std::vector<probe>& out) {
    using sizes = work_operands<device_type, T>;
    out.push_back({"memory-bound work", sizes::bytes_of_rows(),
                   [&operands] { operands.row_wise(); },
                   [&type](double speed) { type.row_bytes_per_second = speed; }});
    out.push_back({"memory-bound work", sizes::bytes_of_step(),
                   [&operands] { operands.optimizer_step(); },
                   [&type](double speed) { type.optimizer_bytes_per_second = speed; }});
  }

  /// Measures all probes on all ranks at the same time, then on one rank of each host at a time.
  /// Passes the mean speed of the ranks to each probe's keep(), and the speeds to `work_`.
  void measure_probes(std::vector<probe> const& all, turn_limits const& limits) {
    std::vector<int> calls;
    for (auto const& one : all) calls.push_back(calls_in_turn(device_, limits, one.call));
    auto const begin = seconds_now();
    auto together = seconds_together(exchange_, limits, all.size(), [&](std::size_t i) {
      return seconds_of_turn(device_, calls[i], all[i].call) / calls[i];
    });
    double const taken = exchange_.largest(seconds_now() - begin);
    std::vector<double> alone;
    exchange_.in_turn(turn_, turns_, taken, [&] {
      alone = seconds_of_works(device_, limits, all.size(), [&](std::size_t i) { all[i].call(); });
    });
    for (std::size_t i = 0; i < all.size(); ++i) {
      together[i] = all[i].units / together[i];
      alone[i] = all[i].units / alone[i];
    }
    auto const together_of_all = exchange_.of_all(together), alone_of_all = exchange_.of_all(alone);
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::vector<double> speeds, speeds_alone;
      for (auto const& one : together_of_all) speeds.push_back(one[i]);
      for (auto const& one : alone_of_all) speeds_alone.push_back(one[i]);
      all[i].keep(mean_of_ranks(speeds));
      if (!all[i].kind.empty()) work_.add(all[i].kind, speeds, speeds_alone);
    }
  }

  device_type& device_;
  rank_exchange<Rank>& exchange_;
  int turn_, turns_;
  work_of_kinds work_{};
};

}  // namespace plait::detail::doctor

#if PLAIT_HEADER_ONLY
#include "plait/doctor/measure_work.ipp"
#endif
