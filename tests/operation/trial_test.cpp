// SPDX-License-Identifier: Apache-2.0
// The placements that the indices of an operation allow, against a trial of each: the test cuts
// operands by their placements, runs the operation on the pieces, puts the results together and
// compares them with the results of the whole. It does the same with gradients in the dual
// placements.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "operation/host_rows.hpp"
#include "plait/operation/rows.hpp"
#include "plait/operation/signature.hpp"

namespace {

namespace operation = plait::operation;
namespace ext = plait::ext;
using enum operation::linearity;
using host_rows::matrix;
using host_rows::pieces;
using host_rows::units;
using operation::linearity;
using operation::signature;
using plait::invariant;
using plait::partial;
using plait::partial_max;
using plait::placement;
using plait::replicate;
using plait::shard;
using plait::ext::is_shard;
using plait::ext::is_whole;

using places = std::vector<placement> const&;
using operand_widths = std::vector<std::pair<std::size_t, std::size_t>>;

/// Placements about which indices and trial do not agree, on purpose.
struct exception {
  char const* reason;
  std::vector<placement> at;
};

/// An operation with the lengths of its indices, in units, and how many rows and columns of each
/// operand belong to a unit.
struct trial {
  char const* name;
  signature is;
  std::map<char, std::size_t> lengths;
  operand_widths widths;
  std::function<void(pieces&)> run;
  /// Operands without a gradient, by hand: a '#' of the row that is wrong is found.
  std::vector<int> constants = {};
  /// Gradients are compared, too; else results alone, in which replicate and invariant are alike.
  bool has_gradients = true;
  /// Operands that no placement is said of: the operation makes them of others.
  std::vector<int> unplaced = {};
  std::map<int, std::size_t> integers = {};  ///< operands that are integers below a number
  std::vector<int> positive = {};            ///< operands that are greater than zero
  std::vector<placement> cuts = {shard<0>, shard<1>};
  std::vector<exception> exceptions = {};

  [[nodiscard]] bool is_placed(int i) const { return std::ranges::count(unplaced, i) == 0; }
  [[nodiscard]] bool is_constant(int i) const { return std::ranges::count(constants, i) != 0; }
  [[nodiscard]] bool is_written(int i) const { return is.operands[i].is_written; }
};

/// Tries placements of one operation on this many ranks.
class trial_runner {
 public:
  trial_runner(trial const& what, std::size_t ranks)
      : what_(what), ranks_(ranks), count_(static_cast<std::size_t>(what.is.count)) {
    for (auto const& [letter, length] : what.lengths) whole_.of[letter] = all_units(length);
    for (std::size_t i = 0; i < count_; ++i) {
      matrix m(extent(i, 0), extent(i, 1));
      whole_.operands.push_back(m);
      cotangents_.push_back(m);
      bool const written = is_written(i);
      fill((written ? cotangents_ : whole_.operands)[i]);
      auto const below = what.integers.find(static_cast<int>(i));
      if (below != what.integers.end())
        for (double& value : whole_.operands[i].values)
          value = std::floor(std::abs(value) * 0.66 * static_cast<double>(below->second));
      if (std::ranges::count(what.positive, static_cast<int>(i)) != 0)
        for (double& value : whole_.operands[i].values) value = std::abs(value) + 0.5;
      if (written && is_constant(i)) cotangents_[i] = m;
    }
    expected_ = whole_;
    what.run(expected_);
    if (what.has_gradients) gradients_ = gradients_of(whole_, cotangents_);
  }

  /// Returns true if what the operation is said to add to is added to, and nothing else.
  bool adds_as_said() {
    pieces onto = whole_;
    for (std::size_t i = 0; i < count_; ++i)
      if (is_written(i)) fill(onto.operands[i]);
    pieces const before = onto;
    what_.run(onto);
    for (std::size_t i = 0; i < count_; ++i)
      for (std::size_t e = 0; is_written(i) && e < onto.operands[i].values.size(); ++e) {
        double const added = what_.is.operands[i].is_added_to ? before.operands[i].values[e] : 0.0;
        if (!is_near(onto.operands[i].values[e], expected_.operands[i].values[e] + added))
          return false;
      }
    return true;
  }

  /// Returns true if the lengths can be cut so.
  [[nodiscard]] bool fits(places at) const {
    for (std::size_t i = 0; i < count_; ++i)
      if (is_shard(at[i]) && !fits(i, at[i])) return false;
    return true;
  }
  /// Returns true if operands that are placed agree on what a rank has of each index.
  bool agree(places at) {
    cuts_.clear();
    for (std::size_t i = 0; i < count_; ++i)
      for (int which : {0, 1}) {
        if (at[i] == operation::unplaced) continue;
        auto const along = dimension_of(i, which);
        bool const is_cut = is_shard(at[i]) && at[i].index == which;
        if (is_cut && (along.index == '1' || at[i].parts % along.parts != 0)) return false;
        if (along.index == '1') continue;
        int const parts = is_cut ? at[i].parts / along.parts : 0;
        if (cuts_.try_emplace(along.index, parts).first->second != parts) return false;
      }
    return true;
  }
  /// Returns true if ranks with such operands make the results and gradients of the whole.
  bool is_right(places at) {
    if (!agree(at)) return false;
    run_on_pieces(at);
    for (std::size_t i = 0; i < count_; ++i)
      if (is_written(i) && is_placed(i) &&
          !denotes(
              expected_.operands[i], i, at[i],
              [i](pieces const& from) -> matrix const& { return from.operands[i]; }, after_))
        return false;
    return !what_.has_gradients || gradients_are_right(at);
  }

 private:
  bool is_written(std::size_t i) const { return what_.is_written(static_cast<int>(i)); }
  bool is_placed(std::size_t i) const { return what_.is_placed(static_cast<int>(i)); }
  bool is_constant(std::size_t i) const { return what_.is_constant(static_cast<int>(i)); }

  /// Runs the operation on the pieces of each rank, if it has not run on the same ones before.
  void run_on_pieces(places at) {
    std::vector<placement> reads;
    for (std::size_t i = 0; i < count_; ++i)
      if (!is_written(i)) reads.push_back(at[i]);
    if (reads == last_reads_ && cuts_ == last_cuts_) return;
    last_reads_ = reads, last_cuts_ = cuts_;
    before_.assign(ranks_, {});
    for (std::size_t rank = 0; rank < ranks_; ++rank)
      for (auto const& [letter, length] : what_.lengths) {
        auto const known = cuts_.find(letter);
        bool const is_cut = known != cuts_.end() && known->second != 0;
        before_[rank].of[letter] =
            is_cut ? cut(length, std::size_t(known->second), rank) : all_units(length);
      }
    for (std::size_t i = 0; i < count_; ++i)
      deal(
          whole_.operands[i], i, is_written(i) ? replicate : at[i],
          [](pieces& to) -> matrix& { return to.operands.emplace_back(); }, before_);
    after_ = before_;
    for (auto& each : after_) what_.run(each);
  }
  bool gradients_are_right(places at) {
    std::vector<pieces> cotangents(before_), made(before_);
    for (auto& each : cotangents) each.operands.clear();
    for (std::size_t i = 0; i < count_; ++i)
      deal(
          cotangents_[i], i, is_constant(i) ? replicate : ext::dual(at[i]),
          [](pieces& to) -> matrix& { return to.operands.emplace_back(); }, cotangents);
    for (std::size_t rank = 0; rank < ranks_; ++rank)
      made[rank].operands = gradients_of(before_[rank], cotangents[rank].operands);
    for (std::size_t i = 0; i < count_; ++i)
      if (has_gradient(i) &&
          !denotes(
              gradients_[i], i, ext::dual(at[i]),
              [i](pieces const& from) -> matrix const& { return from.operands[i]; }, made))
        return false;
    return true;
  }
  bool has_gradient(std::size_t i) const {
    return !is_written(i) && is_placed(i) && !is_constant(i);
  }

  /// The gradients of what an operation reads, by differences.
  std::vector<matrix> gradients_of(pieces const& at, std::vector<matrix> const& cotangents) const {
    std::vector<matrix> out;
    pieces moved = at;
    for (std::size_t i = 0; i < count_; ++i) {
      matrix gradient(at.operands[i].rows, at.operands[i].columns);
      for (std::size_t e = 0; has_gradient(i) && e < gradient.values.size(); ++e) {
        constexpr double step = 1e-4;
        double& value = moved.operands[i].values[e];
        double const here = value;
        value = here + step;
        double const above = seen(moved, cotangents);
        value = here - step;
        gradient.values[e] = (above - seen(moved, cotangents)) / (2 * step);
        value = here;
      }
      out.push_back(std::move(gradient));
    }
    return out;
  }
  double seen(pieces& moved, std::vector<matrix> const& cotangents) const {
    for (std::size_t i = 0; i < count_; ++i)
      if (is_written(i)) std::ranges::fill(moved.operands[i].values, 0.0);
    what_.run(moved);
    double sum = 0;
    for (std::size_t i = 0; i < count_; ++i)
      for (std::size_t e = 0; is_written(i) && e < moved.operands[i].values.size(); ++e)
        sum += moved.operands[i].values[e] * cotangents[i].values[e];
    return sum;
  }

  // ---- Placements -------------------------------------------------------------------------------

  [[nodiscard]] operation::dimension dimension_of(std::size_t i, int which) const {
    auto const& of = what_.is.operands[i];
    return which == 0 ? of.rows : of.columns;
  }
  [[nodiscard]] std::size_t width(std::size_t i, int which) const {
    auto const& [rows, columns] = what_.widths[i];
    return which == 0 ? rows : columns;
  }
  [[nodiscard]] std::size_t length(char index) const {
    return index == '1' ? 1 : what_.lengths.at(index);
  }
  [[nodiscard]] std::size_t extent(std::size_t i, int which) const {
    auto const along = dimension_of(i, which);
    return static_cast<std::size_t>(along.parts) * length(along.index) * width(i, which);
  }
  [[nodiscard]] bool fits(std::size_t i, placement at) const {
    auto const along = dimension_of(i, at.index);
    return at.parts % along.parts != 0 ||
           length(along.index) % std::size_t(at.parts / along.parts) == 0;
  }
  static units all_units(std::size_t length) {
    units out(length);
    for (std::size_t u = 0; u < length; ++u) out[u] = u;
    return out;
  }
  /// Returns the units of an index that a rank has when the ranks cut each part of the index.
  [[nodiscard]] units cut(std::size_t length, std::size_t parts, std::size_t rank) const {
    units out;
    std::size_t const part = length / parts;
    for (std::size_t p = 0; p < parts; ++p) {
      std::size_t const size = part / ranks_, more = part % ranks_,
                        first = rank * size + std::min(rank, more);
      for (std::size_t u = 0; u < size + (rank < more ? 1 : 0); ++u)
        out.push_back(p * part + first + u);
    }
    return out;
  }
  /// The rows or columns of an operand that belong to such units.
  [[nodiscard]] units places_of(std::size_t i, int which, pieces const& of) const {
    auto const along = dimension_of(i, which);
    std::size_t const wide = width(i, which), whole = length(along.index);
    units out;
    for (std::size_t p = 0; p < std::size_t(along.parts); ++p)
      for (std::size_t const u : along.index == '1' ? units{0} : of.of.at(along.index))
        for (std::size_t w = 0; w < wide; ++w) out.push_back((p * whole + u) * wide + w);
    return out;
  }

  /// Gives each rank its piece of a matrix: a block, a summand of its own or the whole.
  template <class Target>
  void deal(matrix const& from, std::size_t i, placement at, Target target,
            std::vector<pieces>& to) {
    std::vector<matrix> summands(to.size(), from);
    if (at == partial)
      for (std::size_t e = 0; e < from.values.size(); ++e)
        for (std::size_t rank = 1; rank < to.size(); ++rank) {
          double const share = number_(random_);
          summands[rank].values[e] = share;
          summands[0].values[e] -= share;
        }
    for (std::size_t rank = 0; rank < to.size(); ++rank) {
      units const rows = places_of(i, 0, to[rank]), columns = places_of(i, 1, to[rank]);
      matrix piece(rows.size(), columns.size());
      std::size_t next = 0;
      for (std::size_t const r : rows)
        for (std::size_t const c : columns)
          piece.values[next++] = summands[rank].values[r * from.columns + c];
      target(to[rank]) = std::move(piece);
    }
  }
  /// Returns true if the ranks hold the pieces of a matrix in this placement.
  template <class Source>
  bool denotes(matrix const& whole, std::size_t i, placement at, Source source,
               std::vector<pieces> const& on) const {
    double const nothing = at == partial_max ? -std::numeric_limits<double>::infinity() : 0.0;
    std::vector<double> all(whole.values.size(), nothing);
    for (auto const& from : on) {
      std::size_t local = 0;
      auto const& piece = source(from);
      units const columns = places_of(i, 1, from);
      for (std::size_t const r : places_of(i, 0, from))
        for (std::size_t const c : columns) {
          double const value = piece.values[local++];
          double& place = all[r * whole.columns + c];
          if (at == partial) place += value;
          else if (at == partial_max) place = std::max(place, value);
          else if (is_shard(at)) place = value;
          else if (!is_near(value, whole.values[r * whole.columns + c])) return false;
        }
    }
    if (is_whole(at)) return true;
    for (std::size_t e = 0; e < all.size(); ++e)
      if (!is_near(all[e], whole.values[e])) return false;
    return true;
  }
  static bool is_near(double a, double b) { return std::abs(a - b) < 1e-5 * (1 + std::abs(b)); }

  void fill(matrix& m) {
    for (double& value : m.values) value = number_(random_);
  }

  trial const& what_;
  std::size_t ranks_, count_;
  std::mt19937 random_{7};
  std::uniform_real_distribution<double> number_{-1.5, 1.5};
  pieces whole_, expected_;
  std::vector<matrix> cotangents_, gradients_;
  std::map<char, int> cuts_, last_cuts_;  ///< into how many parts each index is cut; 0: whole
  std::vector<placement> last_reads_;
  std::vector<pieces> before_, after_;
};

struct counted {
  int right = 0, wrong = 0, disagree = 0;
  int skipped = 0;                 ///< allowed, and no way to cut these lengths
  std::string first{};             ///< combinations about which rule and trial do not agree
  std::vector<int> excepted = {};  ///< number of combinations of each exception
};

bool by_rule(trial const& what, places at) {
  using operation::misplacement;
  if (judge(what.is, at.data()).what == misplacement::none) return true;
  if (what.has_gradients) return false;
  auto other = at;
  std::ranges::replace(other, replicate, invariant);
  return judge(what.is, other.data()).what == misplacement::none;
}

/// Moves to the next choice of a placement for each operand in `of`; false after the last.
bool advance(std::vector<std::size_t>& chosen, std::vector<std::size_t> const& of,
             std::vector<std::vector<placement>> const& choices) {
  for (std::size_t const i : of) {
    if (++chosen[i] < choices[i].size()) return true;
    chosen[i] = 0;
  }
  return false;
}

/// Tries each combination of placements on two and on three ranks.
counted compare(trial const& what) {
  std::vector<std::vector<placement>> choices;
  std::vector<std::size_t> reads, results;
  for (int i = 0; i < what.is.count; ++i) {
    bool const written = what.is_written(i);
    auto& mine = choices.emplace_back(what.cuts);
    mine.push_back(replicate);
    if (!what.integers.contains(i)) mine.push_back(partial);  // integers are not summands
    if (what.has_gradients) mine.push_back(invariant);
    // No operation takes a maximum that is still to be made.
    if (written && what.is.maximum != 0) mine.push_back(partial_max);
    if (!what.is_placed(i)) mine = {operation::unplaced};
    (written ? results : reads).push_back(static_cast<std::size_t>(i));
  }
  counted out;
  out.excepted.resize(what.exceptions.size());
  for (std::size_t const ranks : {2, 3}) {
    trial_runner runner(what, ranks);
    std::vector<std::size_t> chosen(choices.size());
    std::vector<placement> at(choices.size());
    do {
      for (std::size_t const i : reads) at[i] = choices[i][chosen[i]];
      for (std::size_t const i : results) at[i] = operation::unplaced;
      // Results allow nothing that the operands do not: most combinations end here.
      bool const can_be_right = runner.agree(at);
      if (!can_be_right && !by_rule(what, at)) {
        ++out.wrong;
        continue;
      }
      do {
        for (std::size_t const i : results) at[i] = choices[i][chosen[i]];
        bool const allowed = by_rule(what, at);
        if (!runner.fits(at)) {
          out.skipped += allowed ? 1 : 0;
          continue;
        }
        bool const right = can_be_right && runner.is_right(at);
        ++(right ? out.right : out.wrong);
        bool excepted = false;
        for (std::size_t e = 0; e < what.exceptions.size(); ++e)
          if (what.exceptions[e].at == at) {
            excepted = true;
            if (right != allowed) ++out.excepted[e];
            else out.first += std::string("no exception: ") + what.exceptions[e].reason + "\n";
          }
        if (right == allowed || excepted) continue;
        if (out.disagree++ > 20) continue;
        out.first += std::string(what.name) + " on " + std::to_string(ranks) + " ranks:";
        for (auto const each : at) out.first += " " + to_string(each);
        out.first += right ? " is right and refused\n" : " is wrong and allowed\n";
      } while (advance(chosen, results, choices));
    } while (advance(chosen, reads, choices));
  }
  return out;
}
void expect_right(trial const& what) {
  for (int i = 0; i < what.is.count; ++i)
    EXPECT_EQ(what.is.operands[i].is_constant, what.is_constant(i)) << what.name << " " << i;
  EXPECT_TRUE(trial_runner(what, 2).adds_as_said()) << what.name;
  auto const found = compare(what);
  EXPECT_EQ(found.disagree, 0) << found.first;
  EXPECT_EQ(found.skipped, 0) << what.name;
  EXPECT_GT(found.right, 3) << what.name;
  EXPECT_GT(found.wrong, 10) << what.name;
  for (std::size_t e = 0; e < found.excepted.size(); ++e)
    EXPECT_GT(found.excepted[e], 0) << what.name << ": " << what.exceptions[e].reason;
}

// ---- Operations ---------------------------------------------------------------------------------

using host_rows::head;
using host_rows::narrow;
using host_rows::pooled;
using host_rows::pools;
using host_rows::product_of_both;
using host_rows::run;
using host_rows::taps;
using host_rows::together;
using host_rows::wide;

operand_widths const ones(operation::signature::most_operands, {1, 1});
std::vector<placement> const parts{shard<0>, shard<1>, shard<1, 3>, shard<1, 2>};
std::vector<placement> const head_parts{shard<0>, shard<1>, shard<1, 3>};
using lengths = std::map<char, std::size_t>;
lengths const small{{'r', 3}, {'c', 6}};

/// A trial of the row's first indices.
template <class Row>
trial trial_of(lengths const& of, operand_widths widths = ones) {
  return {Row::is.name, Row::is, of, std::move(widths), run<Row>};
}

/// A trial that compares only results, for example of a gradient.
template <class Row>
trial results_of(lengths const& of, std::vector<int> constants, operand_widths widths = ones) {
  trial out = trial_of<Row>(of, std::move(widths));
  out.constants = std::move(constants);
  out.has_gradients = false;
  return out;
}
template <class Row>
trial with_parts(lengths const& of, operand_widths widths = ones) {
  trial out = trial_of<Row>(of, std::move(widths));
  out.cuts = parts;
  return out;
}

void expect_all_right(std::vector<trial> const& all) {
  for (auto const& each : all) expect_right(each);
}

template <class Function>
trial map_of(char const* name, int reads, linearity how, Function f) {
  trial made{
      name, signature::element_wise(reads, how), {{'r', 4}, {'c', 12}}, ones, [f](pieces& in) {
        auto& y = in.operands.back();
        for (std::size_t e = 0; e < y.values.size(); ++e) y.values[e] = f(in.operands, e);
      }};
  made.cuts = parts;
  return made;
}

TEST(OperationTrial, ProductsAndMapsAllowWhatIsRightAndNothingElse) {
  using all = std::vector<matrix> const&;
  lengths const of_product{{'m', 4}, {'k', 6}, {'n', 12}};
  expect_all_right({
      with_parts<operation::matmul>(of_product),
      map_of("map", 1, none, [](all x, std::size_t e) { return std::exp(x[0].values[e]); }),
      map_of(
          "a map of two", 2, none,
          [](all x, std::size_t e) { return product_of_both{}(x[0].values[e], x[1].values[e]); }),
      map_of("a map that is linear in its last operand", 2, in_last,
             [](all x, std::size_t e) { return std::exp(x[0].values[e]) * x[1].values[e]; }),
      map_of("a map of three that is linear", 3, in_all,
             [](all x, std::size_t e) {
               return x[0].values[e] - 2 * x[1].values[e] + 3 * x[2].values[e];
             }),
  });
}

TEST(OperationTrial, SumsAllowWhatIsRightAndNothingElse) {
  lengths const of{{'r', 4}, {'c', 12}};
  operand_widths const maps{{1, 1}, {1, host_rows::map}};
  expect_all_right({
      with_parts<operation::add>(of),
      with_parts<operation::add_row>(of),
      with_parts<operation::accumulate_column_sums>(of),
      with_parts<operation::accumulate_columns>(of),
      with_parts<operation::add_to_maps>(small, maps),
      with_parts<operation::accumulate_map_sums>(small, {maps[1], maps[0]}),
      trial_of<operation::dropout>(small),
  });
}

/// The operation is linear in more than its indices say.
trial except(trial what, char const* reason, std::vector<placement> at) {
  what.exceptions.push_back({reason, std::move(at)});
  return what;
}
constexpr auto of_parameters =
    "no form makes the parameters of a norm partial, though the norm is linear in them";
constexpr auto of_values = "no form makes x partial, since the norm itself refuses it";

TEST(OperationTrial, NormsAllowWhatIsRightAndNothingElse) {
  constexpr auto whole = replicate, sum = partial;
  auto parameters = results_of<operation::rms_norm_backward_parameters>(small, {2});
  expect_all_right({
      except(trial_of<operation::layer_norm>(small), of_parameters, {whole, sum, sum, sum, whole}),
      except(results_of<operation::layer_norm_backward_input>(small, {2}), of_parameters,
             {whole, whole, whole, sum, sum}),
      results_of<operation::layer_norm_backward_parameters>(small, {2}),
      except(results_of<operation::layer_norm_backward>(small, {2}), of_parameters,
             {whole, whole, whole, sum, sum, whole, whole}),
      except(trial_of<operation::rms_norm>(small), of_parameters, {whole, sum, sum, whole}),
      except(results_of<operation::rms_norm_backward_input>(small, {2}), of_parameters,
             {whole, whole, whole, sum, sum}),
      trial_of<operation::l2_normalise>(small),
      results_of<operation::l2_normalise_backward>(small, {2}),
      except(except(parameters, of_values, {whole, sum, whole, sum}),
             "statistics are of the sum or of a block, never summands", {whole, whole, sum, sum}),
  });
}

TEST(OperationTrial, TablesAllowWhatIsRightAndNothingElse) {
  lengths const of{{'v', 6}, {'r', 5}, {'c', 6}};
  auto gather = with_parts<operation::gather_rows>(of);
  auto scatter = with_parts<operation::scatter_add_rows>(of);
  gather.constants = scatter.constants = {0};
  gather.integers = scatter.integers = {{0, 6}};
  constexpr std::size_t positions = 3, batch = host_rows::samples_of_position;
  auto add = with_parts<operation::add_positions>({{'r', positions}, {'c', 6}},
                                                  {{batch, 1}, {positions, 1}, {batch, 1}});
  auto accumulate = with_parts<operation::accumulate_positions>({{'r', positions}, {'c', 6}},
                                                                {{batch, 1}, {positions, 1}});
  auto add_cut = add, accumulate_cut = accumulate;
  add_cut.is = signature::of(operation::add_positions::is.others);
  accumulate_cut.is = signature::of(operation::accumulate_positions::is.others);
  add_cut.widths[1] = accumulate_cut.widths[1] = {1, 1};
  expect_all_right({gather, scatter, add, accumulate, add_cut, accumulate_cut});
}

std::vector<trial> attentions() {
  auto side_by_side = trial_of<operation::attention_side_by_side>({{'r', 2}, {'h', 6}},
                                                                  {{1, head}, {1, head}, {1, 1}});
  side_by_side.constants = {2};
  auto side_by_side_backward = results_of<operation::attention_side_by_side_backward>(
      {{'r', 2}, {'h', 6}}, {2}, {{1, head}, {1, head}, {1, 1}, {1, head}, {1, head}});
  // A unit of h is a head of key and value, and the two heads of queries that read it.
  std::pair<std::size_t, std::size_t> const query{1, 2 * head}, key{1, head}, sums{1, 2};
  auto groups = trial_of<operation::attention>({{'r', 2}, {'s', 2}, {'h', 6}},
                                               {query, key, key, query, sums});
  groups.constants = {4};
  auto shared = trial_of<operation::attention>({{'r', 2}, {'s', 2}, {'h', 6}, {'g', 1}},
                                               {key, key, key, key, {1, 1}});
  shared.is = signature::of(operation::attention::is.others);
  shared.constants = {4};
  auto backward = results_of<operation::attention_backward>(
      {{'r', 2}, {'s', 2}, {'h', 6}}, {4}, {query, key, key, query, sums, query, query, key, key});
  shared.exceptions = {{"one rank has the only head of key and value, the others nothing",
                        {replicate, shard<1>, shard<1>, partial, partial}}};
  // The gradient with respect to v has no part in that: it is whole, and one operand alone is
  // partial.
  backward.exceptions = {
      {"it is linear in v and out together, which no indices say: ops.attention judges the forward",
       {replicate, replicate, partial, partial, replicate, replicate, partial, partial,
        replicate}}};
  std::vector<trial> out{side_by_side, side_by_side_backward, groups, shared, backward};
  for (auto& each : out) each.cuts = head_parts;
  return out;
}
TEST(OperationTrial, AttentionAllowsWhatIsRightAndNothingElse) { expect_all_right(attentions()); }

TEST(OperationTrial, LossesAllowWhatIsRightAndNothingElse) {
  lengths const of{{'r', 3}, {'c', 6}, {'t', 2}};
  auto terms = trial_of<operation::cross_entropy_terms>(of);
  terms.constants = {1, 2};
  auto statistics = results_of<operation::cross_entropy_statistics>(of, {1});
  auto sum = results_of<operation::cross_entropy_sum>(of, {0, 1, 2, 3});
  auto backward = results_of<operation::cross_entropy_backward>(of, {1, 2, 3, 4, 5});
  auto all = results_of<operation::cross_entropy_with_gradient>(of, {1, 2, 3});
  all.integers = terms.integers = statistics.integers = sum.integers = backward.integers = {{1, 6}};
  sum.positive = {0}, backward.positive = {3};  // sums of exponentials
  constexpr auto factors = "the loss is linear in factors that are no summands";
  backward.exceptions = {
      {factors, {replicate, replicate, replicate, replicate, partial, replicate, partial}},
      {factors, {replicate, replicate, replicate, replicate, replicate, partial, partial}}};
  sum.exceptions = {{factors, {replicate, replicate, partial, replicate, partial}},
                    {factors, {replicate, replicate, replicate, partial, partial}}};
  all.exceptions = {
      {factors, {replicate, replicate, partial, replicate, replicate, partial, partial}},
      {factors, {replicate, replicate, replicate, partial, replicate, partial, partial}}};
  auto max = results_of<operation::row_max>(small, {});
  max.exceptions = {{"the whole is its own maximum, and is not written as one of several",
                     {replicate, partial_max}}};
  expect_all_right({max, terms, statistics, sum, backward, all});
}

TEST(OperationTrial, ConvolutionsAllowWhatIsRightAndNothingElse) {
  lengths const of{{'r', 2}, {'i', 6}, {'o', 6}};
  auto forward = with_parts<operation::convolve>(of, {{1, wide}, {1, taps}, {1, narrow}});
  auto input =
      with_parts<operation::convolve_backward_input>(of, {{1, narrow}, {1, taps}, {1, wide}});
  auto weight =
      with_parts<operation::convolve_backward_weight>(of, {{1, narrow}, {1, wide}, {1, taps}});
  constexpr std::size_t inputs = 4, outputs = 1;  // channels of a group
  std::pair<std::size_t, std::size_t> const x{1, inputs * wide}, w{outputs, taps},
      y{1, outputs * narrow};
  std::vector<trial> all{forward, input, weight, forward, input, weight};
  all[3].is = signature::of(operation::convolve::is.others), all[3].widths = {x, w, y};
  all[4].is = signature::of(operation::convolve_backward_input::is.others),
  all[4].widths = {y, w, x};
  all[5].is = signature::of(operation::convolve_backward_weight::is.others),
  all[5].widths = {y, x, w};
  for (std::size_t i = 3; i < all.size(); ++i) all[i].lengths = {{'r', 2}, {'g', 6}, {'w', inputs}};
  expect_all_right(all);
}

TEST(OperationTrial, PoolsAllowWhatIsRightAndNothingElse) {
  std::pair<std::size_t, std::size_t> const x{1, pooled}, y{1, pools};
  auto max = with_parts<operation::max_pool>(small, {x, y});
  auto average = with_parts<operation::average_pool>(small, {x, y});
  auto max_backward = results_of<operation::max_pool_backward>(small, {}, {y, x, x});
  auto average_backward = with_parts<operation::average_pool_backward>(small, {y, x});
  expect_all_right({max, average, max_backward, average_backward});
}

TEST(OperationTrial, NormsOfImagesAllowWhatIsRightAndNothingElse) {
  using host_rows::map;
  std::pair<std::size_t, std::size_t> const image{1, together * map}, row{1, together};
  std::pair<std::size_t, std::size_t> const channels{1, map}, one{1, 1};
  lengths const of{{'r', 3}, {'c', 6}, {'s', 1}};
  // The statistics follow channels and samples, which their indices do not say.
  auto forward = trial_of<operation::normalize_sets>(of, {image, one, row, row, image});
  forward.unplaced = forward.constants = {1};
  auto backward =
      results_of<operation::normalize_sets_backward>(of, {2}, {image, image, one, row, image});
  backward.unplaced = {2};
  auto parameters =
      results_of<operation::normalize_sets_parameters>(of, {2}, {image, image, one, row, row});
  parameters.unplaced = {2};
  auto scale = trial_of<operation::scale_sets>(of, {channels, one, one, channels});
  scale.unplaced = scale.constants = {1};
  auto whole = results_of<operation::normalize_whole_backward>(
      of, {2, 3, 4}, {channels, channels, one, one, one, one, channels});
  whole.unplaced = {2};
  constexpr auto none = operation::unplaced;
  constexpr auto unknown =
      "dgamma and dbeta come without placements: they are sums of dy, and partial where it is";
  forward.exceptions = {{of_parameters, {replicate, none, partial, partial, partial}}};
  backward.exceptions = {{of_parameters, {replicate, replicate, none, partial, partial}}};
  scale.exceptions = {{of_parameters, {replicate, none, partial, partial}}};
  whole.exceptions = {
      {of_parameters, {replicate, replicate, none, replicate, replicate, partial, partial}},
      {unknown, {partial, replicate, none, replicate, replicate, replicate, partial}},
      {unknown, {partial, replicate, none, partial, partial, replicate, partial}}};
  auto sums = results_of<operation::accumulate_statistics>({{'c', 6}, {'s', 1}}, {});
  sums.unplaced = {0};
  expect_all_right({forward, backward, parameters, scale, whole, sums});
}

trial planted(trial what, char const* name, signature const& is) {
  what.name = name, what.is = is;
  return what;
}

TEST(OperationTrial, FindsRowsThatAreWrong) {
  auto const layer_norm = trial_of<operation::layer_norm>(small);
  auto const rms_norm = trial_of<operation::rms_norm>(small);
  auto const backward = results_of<operation::rms_norm_backward_input>(small, {2});
  auto const max = results_of<operation::row_max>(small, {});
  auto const product = trial_of<operation::matmul>({{'m', 4}, {'k', 6}, {'n', 12}});
  auto ids = trial_of<operation::gather_rows>({{'v', 6}, {'r', 5}, {'c', 6}});
  ids.constants = {0}, ids.integers = {{0, 6}};
  for (trial const& each :
       {planted(rms_norm, "a norm maps over an index that it sums up",
                "x(r c), gamma(1 c) -> y(r c), inverse(r 1)"),
        planted(layer_norm, "a norm is said to be linear in its operands together",
                "x(r c), gamma(1 c), beta(1 c) -> y(r c), statistics(r 21); whole c; linear all"),
        planted(rms_norm, "a norm is said to be linear in each operand",
                "x(r c), gamma(1 c) -> y(r c), inverse(r 1); whole c; linear each"),
        planted(rms_norm, "a norm is said to be linear in its first operand",
                "x(r c), gamma(1 c) -> y(r c), inverse(r 1); whole c; linear first"),
        planted(backward, "a gradient is said to be linear in each operand",
                "dy(r c), x(r c), #inverse(r 1), gamma(1 c) -> dx(r c); whole c; linear each"),
        planted(backward, "a gradient is said to be linear in the last operand",
                "dy(r c), x(r c), #inverse(r 1), gamma(1 c) -> dx(r c); whole c; linear last"),
        planted(rms_norm, "a parameter with a gradient is said to be a constant",
                "x(r c), #gamma(1 c) -> y(r c), inverse(r 1); whole c"),
        planted(rms_norm, "a result that is differentiated is said to be a constant",
                "x(r c), gamma(1 c) -> #y(r c), inverse(r 1); whole c"),
        planted(ids, "a lookup is not said to be linear", "#ids(r 1), table(v c) -> out(r c)"),
        planted(max, "a maximum is said to be a sum", "x(r c) -> max(r 1)"),
        planted(max, "a maximum is said to be linear", "x(r c) -> max(r 1); max c; linear all"),
        planted(product, "a product is said to be linear in its operands together",
                "a(m k), b(k n) -> out(m n); linear all"),
        planted(attentions()[2], "attention is said not to be linear in its values",
                "q(r h), k(s h), v(s h) -> out(r h), #log_sum(r h); whole r s")}) {
    EXPECT_GT(compare(each).disagree, 0) << each.name;
  }
  auto const sums = trial_of<operation::accumulate_column_sums>(small);
  EXPECT_FALSE(trial_runner(planted(sums, "", "dy(r c) -> sums(1 c)"), 2).adds_as_said());
  EXPECT_FALSE(trial_runner(planted(product, "", "a(m k), b(k n) -> +out(m n)"), 2).adds_as_said());
}

}  // namespace
