// SPDX-License-Identifier: Apache-2.0
// The placements that the indices of an operation allow, against a trial of each: operands are cut
// as they are placed, the operation runs on the pieces, and the results are put together and
// compared with those of the whole. The gradients go the same way in the dual placements.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "plait/backend/attention_shape.hpp"
#include "plait/backend/host/host_queue.hpp"
#include "plait/backend/window_shape.hpp"
#include "plait/operation/signature.hpp"
#include "plait/operation/signatures.hpp"

namespace {

namespace operation = plait::operation;
namespace ext = plait::ext;
using enum operation::linearity;
using operation::linearity;
using operation::signature;
using plait::invariant;
using plait::partial;
using plait::partial_max;
using plait::placement;
using plait::replicate;
using plait::shard;
using plait::ext::host_queue;
using plait::ext::is_shard;

struct matrix {
  std::size_t rows = 0, columns = 0;
  std::vector<double> values{};

  matrix() = default;
  matrix(std::size_t r, std::size_t c) : rows(r), columns(c), values(r * c) {}
  double* data() { return values.data(); }
  [[nodiscard]] double const* data() const { return values.data(); }
};

/// The units of an index that a rank has, in order.
using units = std::vector<std::size_t>;

/// The arguments of an operation: matrices in the order of the signature, with zeros in those that
/// it writes, and the units of each index, for operations that have to know their place.
struct pieces {
  std::vector<matrix> operands;
  std::map<char, units> of;
};

/// An operation with the lengths of its indices, in units, and how many rows and columns of each
/// operand belong to a unit.
struct trial {
  char const* name;
  signature is;
  std::map<char, std::size_t> lengths;
  std::vector<std::pair<std::size_t, std::size_t>> widths;
  std::function<void(pieces&)> run;
};

class trial_runner {
 public:
  explicit trial_runner(trial const& what) : what_(what) {
    for (int i = 0; i < what.is.count; ++i) {
      auto const& of = what.is.operands[i];
      matrix m(extent(i, 0), extent(i, 1));
      if (!of.is_written) fill(m);
      whole_.operands.push_back(m);
      cotangents_.emplace_back(m.rows, m.columns);
      if (of.is_written) fill(cotangents_.back());
    }
    for (auto const& [letter, length] : what.lengths)
      for (std::size_t u = 0; u < length; ++u) whole_.of[letter].push_back(u);
    expected_ = whole_;
    what.run(expected_);
    gradients_ = gradients_of(whole_, cotangents_);
  }

  /// Returns true if ranks with such operands make the results and gradients of the whole, nullopt
  /// if a length cannot be cut so.
  std::optional<bool> is_right(std::vector<placement> const& at, std::size_t ranks) {
    for (int i = 0; i < what_.is.count; ++i)
      if (is_shard(at[std::size_t(i)]) && !fits(i, at[std::size_t(i)])) return std::nullopt;
    std::vector<pieces> on(ranks);
    for (std::size_t rank = 0; rank < ranks; ++rank)
      if (!find_units(at, rank, ranks, on[rank])) return false;
    for (int i = 0; i < what_.is.count; ++i)
      deal(whole_.operands[std::size_t(i)], i, at[std::size_t(i)], on, [i](pieces& to) -> matrix& {
        if (to.operands.size() <= std::size_t(i)) to.operands.resize(std::size_t(i) + 1);
        return to.operands[std::size_t(i)];
      });
    auto before = on;
    for (auto& each : on) what_.run(each);
    bool has_maximum = false;
    for (int i = 0; i < what_.is.count; ++i) {
      auto const k = std::size_t(i);
      if (!what_.is.operands[i].is_written) continue;
      has_maximum = has_maximum || at[k] == partial_max;
      if (!denotes(expected_.operands[k], i, at[k], on,
                   [k](pieces const& from) -> matrix const& { return from.operands[k]; }))
        return false;
    }
    if (has_maximum || what_.is.maximum != 0) return true;  // nobody asks for its gradient
    return gradients_are_right(at, before);
  }

 private:
  bool gradients_are_right(std::vector<placement> const& at, std::vector<pieces> const& on) {
    std::vector<pieces> cotangents(on.size()), made(on.size());
    for (int i = 0; i < what_.is.count; ++i)
      deal(
          cotangents_[std::size_t(i)], i, ext::dual(at[std::size_t(i)]), cotangents,
          [](pieces& to) -> matrix& { return to.operands.emplace_back(); }, &on);
    for (std::size_t rank = 0; rank < on.size(); ++rank) {
      made[rank].of = on[rank].of;
      made[rank].operands = gradients_of(on[rank], cotangents[rank].operands);
    }
    for (int i = 0; i < what_.is.count; ++i) {
      auto const k = std::size_t(i);
      if (!what_.is.operands[i].is_written &&
          !denotes(gradients_[k], i, ext::dual(at[k]), made,
                   [k](pieces const& from) -> matrix const& { return from.operands[k]; }))
        return false;
    }
    return true;
  }

  /// The gradients of what an operation reads, by differences.
  std::vector<matrix> gradients_of(pieces const& at, std::vector<matrix> const& cotangents) const {
    std::vector<matrix> out;
    for (int i = 0; i < what_.is.count; ++i) {
      auto const k = std::size_t(i);
      matrix gradient(at.operands[k].rows, at.operands[k].columns);
      for (std::size_t e = 0; !what_.is.operands[i].is_written && e < gradient.values.size(); ++e) {
        constexpr double step = 1e-4;
        double const above = seen(at, cotangents, k, e, step),
                     below = seen(at, cotangents, k, e, -step);
        gradient.values[e] = (above - below) / (2 * step);
      }
      out.push_back(std::move(gradient));
    }
    return out;
  }
  [[nodiscard]] double seen(pieces const& at, std::vector<matrix> const& cotangents, std::size_t k,
                            std::size_t element, double by) const {
    pieces moved = at;
    moved.operands[k].values[element] += by;
    what_.run(moved);
    double sum = 0;
    for (int i = 0; i < what_.is.count; ++i)
      for (std::size_t e = 0;
           what_.is.operands[i].is_written && e < moved.operands[std::size_t(i)].values.size(); ++e)
        sum += moved.operands[std::size_t(i)].values[e] * cotangents[std::size_t(i)].values[e];
    return sum;
  }

  // ---- Placements -------------------------------------------------------------------------------

  [[nodiscard]] operation::dimension dimension_of(int i, int which) const {
    auto const& of = what_.is.operands[i];
    return which == 0 ? of.rows : of.columns;
  }
  [[nodiscard]] std::size_t width(int i, int which) const {
    auto const& [rows, columns] = what_.widths[std::size_t(i)];
    return which == 0 ? rows : columns;
  }
  [[nodiscard]] std::size_t length(char index) const {
    return index == '1' ? 1 : what_.lengths.at(index);
  }
  [[nodiscard]] std::size_t extent(int i, int which) const {
    auto const along = dimension_of(i, which);
    return static_cast<std::size_t>(along.parts) * length(along.index) * width(i, which);
  }
  /// Returns true if the parts of a placement divide the dimension.
  [[nodiscard]] bool fits(int i, placement at) const {
    auto const along = dimension_of(i, at.index);
    return at.parts % along.parts != 0 ||
           length(along.index) % std::size_t(at.parts / along.parts) == 0;
  }
  /// Returns the units of an index that a rank has when the ranks cut each part of the index.
  static units cut(std::size_t length, std::size_t parts, std::size_t rank, std::size_t ranks) {
    units out;
    std::size_t const part = length / parts;
    for (std::size_t p = 0; p < parts; ++p) {
      std::size_t const size = part / ranks, more = part % ranks,
                        first = rank * size + std::min(rank, more);
      for (std::size_t u = 0; u < size + (rank < more ? 1 : 0); ++u)
        out.push_back(p * part + first + u);
    }
    return out;
  }
  /// The units of all indices on a rank; false if operands do not agree on them.
  bool find_units(std::vector<placement> const& at, std::size_t rank, std::size_t ranks,
                  pieces& out) const {
    for (int i = 0; i < what_.is.count; ++i)
      for (int which : {0, 1}) {
        auto const along = dimension_of(i, which);
        placement const here = at[std::size_t(i)];
        bool const is_cut = is_shard(here) && here.index == which;
        if (along.index == '1') {
          if (is_cut) return false;
          continue;
        }
        if (is_cut && here.parts % along.parts != 0) return false;
        units const mine =
            is_cut ? cut(length(along.index), std::size_t(here.parts / along.parts), rank, ranks)
                   : whole_.of.at(along.index);
        auto const [known, is_new] = out.of.try_emplace(along.index, mine);
        if (!is_new && known->second != mine) return false;
      }
    return true;
  }
  /// The rows or columns of an operand that belong to such units.
  [[nodiscard]] units places(int i, int which, pieces const& of) const {
    auto const along = dimension_of(i, which);
    std::size_t const wide = width(i, which), whole = length(along.index);
    units out;
    for (std::size_t p = 0; p < std::size_t(along.parts); ++p)
      for (std::size_t const u : along.index == '1' ? units{0} : of.of.at(along.index))
        for (std::size_t w = 0; w < wide; ++w) out.push_back((p * whole + u) * wide + w);
    return out;
  }
  template <class Each>
  void for_each_place(int i, pieces const& of, Each each) const {
    std::size_t at = 0;
    std::size_t const columns = extent(i, 1);
    for (std::size_t const r : places(i, 0, of))
      for (std::size_t const c : places(i, 1, of)) each(at++, r * columns + c);
  }

  /// Gives each rank its piece of a matrix: a block, a summand of its own or the whole. `on` knows
  /// the units, or `known` does.
  template <class Target>
  void deal(matrix const& from, int i, placement at, std::vector<pieces>& on, Target target,
            std::vector<pieces> const* known = nullptr) {
    std::vector<matrix> summands(on.size(), from);
    if (at == partial)
      for (std::size_t e = 0; e < from.values.size(); ++e)
        for (std::size_t rank = 1; rank < on.size(); ++rank) {
          double const share = number_(random_);
          summands[rank].values[e] = share;
          summands[0].values[e] -= share;
        }
    for (std::size_t rank = 0; rank < on.size(); ++rank) {
      auto const& of = known != nullptr ? (*known)[rank] : on[rank];
      matrix piece(places(i, 0, of).size(), places(i, 1, of).size());
      for_each_place(i, of, [&](std::size_t to, std::size_t place) {
        piece.values[to] = summands[rank].values[place];
      });
      target(on[rank]) = std::move(piece);
    }
  }
  /// Returns true if the pieces of the ranks are those of a matrix that is placed so.
  template <class Source>
  bool denotes(matrix const& whole, int i, placement at, std::vector<pieces> const& on,
               Source source) const {
    double const nothing = at == partial_max ? -std::numeric_limits<double>::infinity() : 0.0;
    std::vector<double> together(whole.values.size(), nothing);
    bool alike = true;
    for (auto const& from : on)
      for_each_place(i, from, [&](std::size_t local, std::size_t place) {
        double const value = source(from).values[local];
        if (at == partial) together[place] += value;
        else if (at == partial_max) together[place] = std::max(together[place], value);
        else if (is_shard(at)) together[place] = value;
        else alike = alike && is_near(value, whole.values[place]);
      });
    if (ext::is_whole(at)) return alike;
    for (std::size_t e = 0; e < together.size(); ++e)
      if (!is_near(together[e], whole.values[e])) return false;
    return true;
  }
  static bool is_near(double a, double b) { return std::abs(a - b) < 1e-5 * (1 + std::abs(b)); }

  void fill(matrix& m) {
    for (double& value : m.values) value = number_(random_);
  }

  trial const& what_;
  std::mt19937 random_{7};
  std::uniform_real_distribution<double> number_{-1.5, 1.5};
  pieces whole_, expected_;
  std::vector<matrix> cotangents_, gradients_;
};

struct counted {
  int right = 0, wrong = 0, disagree = 0;
  int skipped = 0;      ///< allowed, and no way to cut these lengths
  std::string first{};  ///< combination about which rule and trial do not agree
};

/// Tries each combination of placements on two and on three ranks. `allowed`: what the rule says.
template <class Rule>
counted compare(trial const& what, Rule allowed) {
  // A maximum still to be made is no operand of any operation, and only an operation that makes one
  // has it as a result. It has no gradient, so replicate and invariant are the same there.
  std::vector<placement> read{replicate, partial, shard<0>, shard<1>, shard<1, 3>, shard<1, 2>};
  if (what.is.maximum == 0) read.push_back(invariant);
  auto written = read;
  if (what.is.maximum != 0) written.push_back(partial_max);
  trial_runner runner(what);
  auto const choices = [&](std::size_t i) -> std::vector<placement> const& {
    return what.is.operands[i].is_written ? written : read;
  };
  counted out;
  std::vector<std::size_t> chosen(std::size_t(what.is.count), 0);
  for (bool more = true; more;) {
    std::vector<placement> at;
    for (std::size_t i = 0; i < chosen.size(); ++i) at.push_back(choices(i)[chosen[i]]);
    for (std::size_t const ranks : {2, 3}) {
      auto const is_right = runner.is_right(at, ranks);
      // The whole stands for its own maximum, which nobody writes that way.
      bool const is_whole_maximum = at.back() == partial_max && ext::is_whole(at.front());
      if (!is_right && allowed(at)) ++out.skipped;
      if (!is_right || is_whole_maximum) continue;
      ++(*is_right ? out.right : out.wrong);
      if (*is_right == allowed(at)) continue;
      if (out.disagree++ > 0) continue;
      out.first = std::string(what.name) + " on " + std::to_string(ranks) + " ranks:";
      for (auto const each : at) out.first += " " + to_string(each);
      out.first += *is_right ? " is right and refused" : " is wrong and allowed";
    }
    std::size_t i = 0;
    while (i < chosen.size() && ++chosen[i] == choices(i).size()) chosen[i++] = 0;
    more = i < chosen.size();
  }
  return out;
}
bool by_rule(trial const& what, std::vector<placement> const& at) {
  switch (at.size()) {
    case 2: return allows(what.is, {at[0], at[1]});
    case 3: return allows(what.is, {at[0], at[1], at[2]});
    default: return allows(what.is, {at[0], at[1], at[2], at[3]});
  }
}
void expect_right(trial const& what) {
  auto const found = compare(what, [&](auto const& at) { return by_rule(what, at); });
  EXPECT_EQ(found.disagree, 0) << found.first;
  EXPECT_EQ(found.skipped, 0) << what.name;
  EXPECT_GT(found.right, 3) << what.name;
  EXPECT_GT(found.wrong, 20) << what.name;
}

// ---- Operations ---------------------------------------------------------------------------------

struct product_of_both {  // linear in neither
  double operator()(double a, double b) const { return a * b + a * a * b * b; }
};

void run_matmul(pieces& in) {
  auto &a = in.operands[0], &b = in.operands[1], &c = in.operands[2];
  host_queue{}.matmul(false, false, a.rows, b.columns, a.columns, a.data(), a.columns, b.data(),
                      b.columns, false, c.data(), c.columns);
}
template <class Function>
void for_elements(pieces& in, Function f) {
  auto& out = in.operands.back();
  for (std::size_t e = 0; e < out.values.size(); ++e) out.values[e] = f(in.operands, e);
}
void run_layer_norm(pieces& in) {
  auto const &x = in.operands[0], &gamma = in.operands[1];
  std::vector<double> statistics(2 * x.rows), beta(x.columns, 0.25);
  host_queue{}.layer_norm(x.data(), gamma.data(), beta.data(), in.operands[2].data(),
                          statistics.data(), x.rows, x.columns, 1e-3);
}
void run_row_max(pieces& in) {
  auto const& x = in.operands[0];
  host_queue{}.row_max(x.data(), in.operands[1].data(), x.rows, x.columns, x.columns);
}

std::int32_t const looked_up[]{3, 0, 5, 3, 1};
std::vector<std::int32_t> ids_of(pieces const& in) {
  std::vector<std::int32_t> out;
  for (std::size_t const r : in.of.at('r')) out.push_back(looked_up[r]);
  return out;
}
void run_gather(pieces& in) {
  auto const ids = ids_of(in);
  auto const& table = in.operands[0];
  std::size_t const first = in.of.at('v').empty() ? 0 : in.of.at('v').front();
  host_queue{}.gather_rows(ids.data(), table.data(), first, table.rows, in.operands[1].data(),
                           ids.size(), table.columns);
}
void run_scatter(pieces& in) {
  auto const ids = ids_of(in);
  auto& sums = in.operands[1];
  std::size_t const first = in.of.at('v').empty() ? 0 : in.of.at('v').front();
  host_queue{}.scatter_add_rows(ids.data(), in.operands[0].data(), first, sums.rows, sums.data(),
                                ids.size(), sums.columns);
}

constexpr std::size_t head = 2;
void run_attention(pieces& in) {
  auto const& qkv = in.operands[0];
  std::size_t const heads = qkv.columns / 3 / head;
  std::vector<double> log_sum(qkv.rows * heads);
  host_queue{}.attention(qkv.data(), in.operands[1].data(), log_sum.data(), qkv.rows, 1, heads,
                         head);
}
void run_attention_groups(pieces& in) {
  auto const &q = in.operands[0], &k = in.operands[1], &v = in.operands[2];
  std::size_t const heads = q.columns / head, key_heads = k.columns / head;
  if (key_heads == 0 || heads % key_heads != 0 || k.rows != q.rows) return;  // refused by shapes
  ext::attention_shape const shape{q.rows, 1, heads, head, heads / key_heads};
  std::vector<double> log_sum(q.rows * heads);
  host_queue{}.attention(
      shape,
      ext::attention_operands<double const>{q.data(), k.data(), v.data(), q.columns, k.columns},
      in.operands[3].data(), log_sum.data());
}

// A convolution of images of three places with two taps, in groups or not: which of the three
// matrices is written says which of the three operations it is.
constexpr std::size_t taps = 2, wide = 3, narrow = wide - taps + 1;
struct convolution {
  std::size_t groups;

  template <class Each>
  void operator()(std::size_t images, std::size_t inputs, std::size_t outputs, Each each) const {
    std::size_t const in_group = inputs / groups, out_group = outputs / groups;
    for (std::size_t image = 0; image < images; ++image)
      for (std::size_t o = 0; o < outputs; ++o)
        for (std::size_t i = 0; i < in_group; ++i)
          for (std::size_t p = 0; p < narrow; ++p)
            for (std::size_t t = 0; t < taps; ++t)
              each((image * inputs + o / out_group * in_group + i) * wide + p + t,
                   (o * in_group + i) * taps + t, (image * outputs + o) * narrow + p);
  }
};
void run_convolve(pieces& in) {
  auto &x = in.operands[0], &w = in.operands[1], &y = in.operands[2];
  convolution{1}(x.rows, x.columns / wide, w.rows, [&](auto at_x, auto at_w, auto at_y) {
    y.values[at_y] += x.values[at_x] * w.values[at_w];
  });
}
void run_convolve_input(pieces& in) {
  auto &dy = in.operands[0], &w = in.operands[1], &dx = in.operands[2];
  convolution{1}(dy.rows, dx.columns / wide, w.rows, [&](auto at_x, auto at_w, auto at_y) {
    dx.values[at_x] += dy.values[at_y] * w.values[at_w];
  });
}
void run_convolve_weight(pieces& in) {
  auto &dy = in.operands[0], &x = in.operands[1], &dw = in.operands[2];
  convolution{1}(x.rows, x.columns / wide, dw.rows, [&](auto at_x, auto at_w, auto at_y) {
    dw.values[at_w] += dy.values[at_y] * x.values[at_x];
  });
}
constexpr std::size_t group_in = 4, group_out = 3;
void run_convolve_groups(pieces& in) {
  auto &x = in.operands[0], &w = in.operands[1], &y = in.operands[2];
  std::size_t const groups = w.rows / group_out;
  if (groups > 0 && w.columns == group_in * taps)  // refused by shapes
    convolution{groups}(x.rows, x.columns / wide, w.rows, [&](auto at_x, auto at_w, auto at_y) {
      y.values[at_y] += x.values[at_x] * w.values[at_w];
    });
}
void run_convolve_groups_weight(pieces& in) {
  auto &dy = in.operands[0], &x = in.operands[1], &dw = in.operands[2];
  std::size_t const groups = dw.rows / group_out;
  if (groups > 0 && dw.columns == group_in * taps)
    convolution{groups}(x.rows, x.columns / wide, dw.rows, [&](auto at_x, auto at_w, auto at_y) {
      dw.values[at_w] += dy.values[at_y] * x.values[at_x];
    });
}
constexpr std::size_t together = 2, map = 3;
void run_normalize_sets(pieces& in) {
  auto const &x = in.operands[0], &gamma = in.operands[1];
  ext::norm_shape const of{.samples = x.rows,
                           .present = x.rows,
                           .channels = gamma.columns,
                           .map = map,
                           .channels_together = together};
  std::vector<double> statistics(2 * of.sets()), beta(gamma.columns, 0.25);
  host_queue{}.set_statistics(of, x.data(), statistics.data(), 1e-3);
  host_queue{}.normalize_sets(of, x.data(), statistics.data(), gamma.data(), beta.data(),
                              in.operands[2].data());
}

std::vector<trial> trials() {
  using operand_widths = std::vector<std::pair<std::size_t, std::size_t>>;
  operand_widths const ones(4, {1, 1});
  auto const maps = [&](char const* name, int reads, linearity how, auto f) {
    return trial{
        name, signature::element_wise(reads, how), {{'r', 4}, {'c', 12}}, ones, [f](pieces& in) {
          for_elements(in, f);
        }};
  };
  using all = std::vector<matrix> const&;
  return {
      {"matmul", operation::matmul, {{'m', 4}, {'k', 6}, {'n', 12}}, ones, run_matmul},
      maps("add", 2, in_all, [](all x, std::size_t e) { return x[0].values[e] + x[1].values[e]; }),
      maps("map", 1, none, [](all x, std::size_t e) { return std::exp(x[0].values[e]); }),
      maps("a map of two", 2, none,
           [](all x, std::size_t e) { return product_of_both{}(x[0].values[e], x[1].values[e]); }),
      maps("a map that is linear in its last operand", 2, in_last,
           [](all x, std::size_t e) { return std::exp(x[0].values[e]) * x[1].values[e]; }),
      maps("a map of three that is linear", 3, in_all,
           [](all x, std::size_t e) {
             return x[0].values[e] - 2 * x[1].values[e] + 3 * x[2].values[e];
           }),
      {"add_row",
       operation::add_row,
       {{'r', 4}, {'c', 12}},
       ones,
       [](pieces& in) {
         auto& y = in.operands[2];
         y.values = in.operands[1].values;
         host_queue{}.add_row(in.operands[0].data(), y.data(), y.rows, y.columns);
       }},
      {"column_sums",
       operation::column_sums,
       {{'r', 4}, {'c', 12}},
       ones,
       [](pieces& in) {
         auto const& x = in.operands[0];
         host_queue{}.accumulate_column_sums(x.data(), in.operands[1].data(), x.rows, x.columns);
       }},
      {"accumulate_columns",
       operation::accumulate_columns,
       {{'r', 4}, {'c', 12}},
       ones,
       [](pieces& in) {
         auto const& a = in.operands[0];
         host_queue{}.accumulate_columns(product_of_both{}, a.rows, a.columns,
                                         in.operands[2].data(), a.data(), in.operands[1].data());
       }},
      {"row_operation", operation::row_operation, {{'r', 4}, {'c', 12}}, ones, run_layer_norm},
      {"row_max", signature{"r c -> r 1; max c"}, {{'r', 4}, {'c', 12}}, ones, run_row_max},
      {"gather_rows", operation::gather_rows, {{'v', 6}, {'r', 5}, {'c', 12}}, ones, run_gather},
      {"scatter_add_rows",
       operation::scatter_add_rows,
       {{'v', 6}, {'r', 5}, {'c', 12}},
       ones,
       run_scatter},
      {"attention",
       operation::attention,
       {{'r', 4}, {'h', 6}},
       operand_widths{{1, head}, {1, head}},
       run_attention},
      {"attention_groups",
       operation::attention_groups,
       {{'r', 4}, {'s', 4}, {'h', 6}},
       operand_widths{{1, 2 * head}, {1, head}, {1, head}, {1, 2 * head}},
       run_attention_groups},
      {"attention_shared_groups",
       operation::attention_shared_groups,
       {{'r', 4}, {'s', 4}, {'h', 6}, {'k', 1}},
       operand_widths{{1, head}, {1, head}, {1, head}, {1, head}},
       run_attention_groups},
      {"convolve",
       operation::convolve,
       {{'r', 3}, {'i', 6}, {'o', 6}},
       operand_widths{{1, wide}, {1, taps}, {1, narrow}},
       run_convolve},
      {"convolve_backward_input",
       operation::convolve_backward_input,
       {{'r', 3}, {'i', 6}, {'o', 6}},
       operand_widths{{1, narrow}, {1, taps}, {1, wide}},
       run_convolve_input},
      {"convolve_backward_weight",
       operation::convolve_backward_weight,
       {{'r', 3}, {'i', 6}, {'o', 6}},
       operand_widths{{1, narrow}, {1, wide}, {1, taps}},
       run_convolve_weight},
      {"convolve_groups",
       operation::convolve_groups,
       {{'r', 3}, {'g', 6}, {'w', group_in}},
       operand_widths{{1, group_in * wide}, {group_out, taps}, {1, group_out * narrow}},
       run_convolve_groups},
      {"convolve_groups_backward_weight",
       operation::convolve_groups_backward_weight,
       {{'r', 3}, {'g', 6}, {'w', group_in}},
       operand_widths{{1, group_out * narrow}, {1, group_in * wide}, {group_out, taps}},
       run_convolve_groups_weight},
      {"normalize_sets",
       operation::normalize_sets,
       {{'r', 3}, {'c', 6}},
       operand_widths{{1, together * map}, {1, together}, {1, together * map}},
       run_normalize_sets},
  };
}

TEST(OperationTrial, AllowsWhatIsRightAndNothingElse) {
  for (auto const& each : trials()) expect_right(each);
}

/// A row that says something wrong is found.
TEST(OperationTrial, FindsRowsThatAreWrong) {
  std::map<char, std::size_t> const lengths{{'r', 4}, {'c', 12}};
  std::vector<std::pair<std::size_t, std::size_t>> const ones(4, {1, 1});
  for (trial const& planted : {
           trial{"a norm that does not say that it needs whole rows", signature{"r c, 1 c -> r c"},
                 lengths, ones, run_layer_norm},
           trial{"a norm that is said to be linear in its operands together",
                 signature{"r c, 1 c -> r c; whole c; linear all"}, lengths, ones, run_layer_norm},
           trial{"a norm that is said to be linear in each operand",
                 signature{"r c, 1 c -> r c; whole c; linear each"}, lengths, ones, run_layer_norm},
           trial{"a maximum that is said to be a sum", signature{"r c -> r 1"}, lengths, ones,
                 run_row_max},
           trial{"a maximum that is said to be linear", signature{"r c -> r 1; max c; linear all"},
                 lengths, ones, run_row_max},
           trial{"a product that is said to be linear in its operands together",
                 signature{"m k, k n -> m n; linear all"},
                 {{'m', 4}, {'k', 6}, {'n', 12}},
                 ones,
                 run_matmul},
           trial{"attention that is said not to be linear in its values",
                 signature{"r h, s h, s h -> r h; whole r s"},
                 {{'r', 4}, {'s', 4}, {'h', 6}},
                 {{1, 2 * head}, {1, head}, {1, head}, {1, 2 * head}},
                 run_attention_groups},
       }) {
    auto const found = compare(planted, [&](auto const& at) { return by_rule(planted, at); });
    EXPECT_GT(found.disagree, 0) << planted.name;
  }
}

}  // namespace
