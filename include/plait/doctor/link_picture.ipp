// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/doctor/link_picture.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <string_view>
#include <utility>

#include "plait/core/concat.hpp"
#include "plait/core/quote.hpp"
#include "plait/doctor/link_limits.hpp"
#include "plait/doctor/link_picture_parts.hpp"

namespace plait::detail::doctor {

// The unit of a number as rate_text() and time_text() write it, and its size.
struct picture_unit {
  std::string name{};
  double size = 1;
};

PLAIT_DECL picture_unit unit_of(double value, bool is_time) {
  auto const text = is_time ? time_text(value) : rate_text(value);
  std::string const name = text.substr(text.find(' ') + 1);
  for (double size = is_time ? 1 : 1e9;; size /= 1000)
    if (auto const one = is_time ? time_text(size) : rate_text(size);
        one.substr(one.find(' ') + 1) == name)
      return {name, size};
}

/// Draws one matrix of links.
class link_matrix_picture {
 public:
  link_matrix_picture(planning::drawing& into, ordered_links const& links,
                      std::vector<ext::finding> const& findings, bool is_time)
      : into_(into),
        links_(links),
        marked_(links.pairs_of(findings, is_time)),
        is_time_(is_time),
        matrix_(is_time ? links.of().link_latency_seconds : links.of().link_bytes_per_second),
        scale_(matrix_, !is_time) {
    add_bands();
  }

  // Draws the matrix with its upper left corner at (x, y). Returns the position of its lower right
  // corner.
  std::array<int, 2> draw(int x, int y) {
    auto const& unit = unit_of(scale_.is_empty() ? 1 : scale_.best(), is_time_);
    into_.text(x, y, concat({is_time_ ? "Latency, in " : "Bandwidth, in ", unit.name}),
               {.size = 13, .bold = true});
    into_.text(x, y + 20, "rows send, columns receive", {.size = 11, .ink = colour::muted});
    int widest = 0;
    for (auto const& each : bands_)
      widest =
          std::max(widest, planning::text_width(links_.name_of_host(rank_of(each)), name_size()));
    widest = std::min(widest, 150);
    left_ = x + widest + 12 + number_width();
    top_ = y + 72;
    add_names(x, widest);
    add_tiles(unit.size);
    add_outlines();
    return {std::max(left_ + end(), x + legend_width), add_legend(x, top_ + end() + 16)};
  }

 private:
  using colour = planning::colour;
  using placed_box = planning::drawing::placed_box;
  using boxes = lean_vector<placed_box>;
  static constexpr std::size_t most_bands = 256;
  static constexpr int number_size = 10, box_width = 30;
  static constexpr int legend_width = box_width * static_cast<int>(colour_scale::levels);

  /// The ranks of a row, and of the column with the same number.
  struct band {
    std::size_t first = 0, count = 1;  ///< positions in the order of ranks
    int at = 0;                        ///< pixels from the beginning of the matrix
  };
  /// A square of the picture, which shows one pair or, in a large job, several pairs.
  struct square {
    double value = 0;        ///< the number of the slowest pair; 0: no pair was measured
    bool is_marked = false;  ///< true if a finding is about one of the pairs
    bool has_pair = false;   ///< false on the diagonal
  };

  [[nodiscard]] std::size_t rank_of(band const& of) const { return links_.order()[of.first]; }
  [[nodiscard]] int end() const { return bands_.empty() ? 0 : bands_.back().at + cell_; }
  [[nodiscard]] int name_size() const { return cell_ < 14 ? 10 : 11; }
  [[nodiscard]] int number_width() const {
    return planning::text_width(concat({links_.order().size() - 1}), number_size);
  }
  [[nodiscard]] bool begins_host(std::size_t i) const {
    return i == 0 || !links_.are_on_one_host(rank_of(bands_[i - 1]), rank_of(bands_[i]));
  }

  void add_bands() {
    auto const ranks = links_.order().size();
    auto const count = (ranks + most_bands - 1) / most_bands;
    // A band has ranks of one host only, unless hosts have fewer than two ranks on average.
    bool const is_of_one_host = 2 * links_.hosts() <= ranks;
    auto const& order = links_.order();
    for (std::size_t first = 0; first < ranks; first += bands_.back().count) {
      std::size_t own = 1;
      while (own < std::min(count, ranks - first) &&
             (!is_of_one_host || links_.are_on_one_host(order[first], order[first + own])))
        ++own;
      bands_.push_back({first, own, 0});
    }
    auto const of = bands_.size();
    cell_ = of <= 8 ? 44 : of <= 16 ? 30 : of <= 32 ? 18 : of <= 64 ? 12 : of <= 128 ? 7 : 4;
    int const gap = links_.hosts() >= of ? 0 : cell_ >= 12 ? 4 : 2;
    for (std::size_t i = 1; i < of; ++i)
      bands_[i].at = bands_[i - 1].at + cell_ + (begins_host(i) ? gap : 0);
  }

  [[nodiscard]] square square_at(band const& row, band const& column) const {
    square out;
    auto const& order = links_.order();
    for (std::size_t i = 0; i < row.count; ++i)
      for (std::size_t j = 0; j < column.count; ++j) {
        auto const from = order[row.first + i], to = order[column.first + j];
        if (from == to) continue;
        out.has_pair = true;
        if (marked_[from * order.size() + to] != 0) out.is_marked = true;
        double const value = matrix_.empty() ? 0 : matrix_[from][to];
        if (value > 0 && (out.value == 0 || scale_.is_slower(value, out.value))) out.value = value;
      }
    return out;
  }

  // Draws the names of hosts and the numbers of ranks. A number or name that would cover the
  // previous one is omitted.
  void add_names(int x, int widest) {
    int const high = number_size * 5 / 4;
    int last_row = -high, last_column = -cell_, last_name = -2 * high;
    for (std::size_t i = 0; i < bands_.size(); ++i) {
      int const at = bands_[i].at;
      auto const number = concat({rank_of(bands_[i])});
      if (at - last_row >= high) {
        into_.text(left_ - 4, top_ + at + (cell_ - high) / 2, number,
                   {.size = number_size, .ink = colour::muted, .at = planning::anchor::end});
        last_row = at;
      }
      if (i == 0 || at - last_column >= number_width() + 3) {
        into_.text(left_ + at + cell_ / 2, top_ - 16, number,
                   {.size = number_size, .ink = colour::muted, .at = planning::anchor::middle});
        last_column = at;
      }
      if (!begins_host(i)) continue;
      std::size_t last = i;
      while (last + 1 < bands_.size() && !begins_host(last + 1)) ++last;
      int const size = bands_[last].at + cell_ - at, middle = at + size / 2;
      auto const name = links_.name_of_host(rank_of(bands_[i]));
      if (middle - last_name >= name_size() * 5 / 4) {
        into_.text(x, top_ + middle - name_size() * 5 / 8, name,
                   {.size = name_size(), .most = widest});
        last_name = middle;
      }
      // A few letters of a name say nothing, so a name that does not fit needs 80 pixels.
      planning::text_style const above{
          .size = name_size(), .at = planning::anchor::middle, .most = size - 2};
      if (planning::fitted(name, above) == name || size >= 80)
        into_.text(left_ + middle, top_ - 32, name, above);
    }
  }

  void add_tiles(double unit) {
    std::array<boxes, colour_scale::levels> of_level;
    boxes unmeasured;
    for (auto const& row : bands_)
      for (auto const& column : bands_) {
        auto const here = square_at(row, column);
        if (!here.has_pair) continue;
        placed_box const box{left_ + column.at, top_ + row.at, cell_, cell_, colour::none};
        if (here.value == 0) unmeasured.push_back(box);
        else of_level[scale_.level(here.value)].push_back(box);
        has_unmeasured_ |= here.value == 0;
      }
    for (std::size_t level = 0; level < of_level.size(); ++level)
      into_.tiles(of_level[level], colour_scale::colour_of(level));
    into_.tiles(unmeasured, unmeasured_colour);
    if (bands_.size() > 8) return;
    for (auto const& row : bands_)
      for (auto const& column : bands_) {
        double const value = square_at(row, column).value;
        if (value == 0) continue;
        std::array<char, 32> text{};
        std::snprintf(text.data(), text.size(), value < 999.5 * unit ? "%.3g" : "%.0f",
                      value / unit);
        bool const is_dark = colour_scale::is_dark(scale_.level(value));
        into_.text(left_ + column.at + cell_ / 2, top_ + row.at + cell_ / 2 - number_size * 5 / 8,
                   text.data(),
                   {.size = number_size,
                    .ink = is_dark ? colour::ground : colour::ink,
                    .at = planning::anchor::middle,
                    .most = cell_ - 8});
      }
  }

  // Draws the edges of each area of marked squares.
  void add_outlines() {
    int const thick = cell_ >= 30 ? 3 : cell_ >= 12 ? 2 : 1;
    auto const is_marked = [&](std::size_t i, std::size_t j) {
      return i < bands_.size() && j < bands_.size() && square_at(bands_[i], bands_[j]).is_marked;
    };
    auto const is_next = [&](std::size_t i) {
      return i + 1 < bands_.size() && bands_[i + 1].at == bands_[i].at + cell_;
    };
    boxes edges;
    for (std::size_t i = 0; i < bands_.size(); ++i)
      for (std::size_t j = 0; j < bands_.size(); ++j) {
        if (!is_marked(i, j)) continue;
        has_marked_ = true;
        int const x = left_ + bands_[j].at, y = top_ + bands_[i].at;
        if (!(i > 0 && is_next(i - 1) && is_marked(i - 1, j)))
          edges.push_back({x, y, cell_, thick, colour::none});
        if (!(is_next(i) && is_marked(i + 1, j)))
          edges.push_back({x, y + cell_ - thick, cell_, thick, colour::none});
        if (!(j > 0 && is_next(j - 1) && is_marked(i, j - 1)))
          edges.push_back({x, y, thick, cell_, colour::none});
        if (!(is_next(j) && is_marked(i, j + 1)))
          edges.push_back({x + cell_ - thick, y, thick, cell_, colour::none});
      }
    into_.tiles(edges, outline_colour);
  }

  // Returns the lower edge of the legend.
  int add_legend(int x, int y) {
    if (!scale_.is_empty()) {
      for (std::size_t level = 0; level < colour_scale::levels; ++level)
        into_.tiles({{x + box_width * static_cast<int>(level), y, box_width, 14, colour::none}},
                    colour_scale::colour_of(level));
      for (int part = 0; part <= 2; ++part) {
        double const value = scale_.value_at(part / 2.0);
        into_.text(x + part * legend_width / 2, y + 18,
                   is_time_ ? time_text(value) : rate_text(value),
                   {.size = 11,
                    .ink = colour::muted,
                    .at = part == 0   ? planning::anchor::begin
                          : part == 1 ? planning::anchor::middle
                                      : planning::anchor::end});
      }
      y += 40;
    }
    auto const entry = [&](char const* fill, std::string const& text) {
      into_.tiles({{x, y, 14, 14, colour::none}}, fill);
      if (std::string_view(fill) == outline_colour)
        into_.tiles({{x + 3, y + 3, 8, 8, colour::none}}, colour_scale::colour_of(2));
      into_.text(x + 20, y, text, {.size = 11});
      y += 20;
    };
    if (has_marked_) entry(outline_colour, "pairs of a finding");
    if (has_unmeasured_) entry(unmeasured_colour, "not measured");
    std::size_t most = 1;
    for (auto const& each : bands_) most = std::max(most, each.count);
    if (most > 1) {
      into_.text(x, y, concat({"a square: the slowest of up to ", most * most, " pairs"}),
                 {.size = 11, .ink = colour::muted});
      y += 20;
    }
    return y;
  }

  static constexpr char const* unmeasured_colour = "#e4e4e4";
  static constexpr char const* outline_colour = "#d95f02";

  planning::drawing& into_;
  ordered_links const& links_;
  std::vector<std::uint8_t> marked_;
  bool is_time_;
  ext::machine::link_matrix const& matrix_;
  colour_scale scale_;
  std::vector<band> bands_{};
  int cell_ = 0, left_ = 0, top_ = 0;
  bool has_unmeasured_ = false, has_marked_ = false;
};

PLAIT_DECL planning::drawing drawing_of_links(ext::machine const& of,
                                              std::vector<ext::finding> const& findings) {
  using planning::drawing, planning::colour;
  ordered_links const links(of);
  drawing out("links", false);
  int const ranks = static_cast<int>(of.ranks.size()), hosts = static_cast<int>(links.hosts());
  std::string below = of.date;
  if (!below.empty()) below += ", ";
  below += concat(
      {ranks, ranks == 1 ? " rank" : " ranks", " on ", hosts, hosts == 1 ? " host" : " hosts"});
  if (!of.backend.empty()) below += concat({", ", of.backend});
  auto const title = concat({"Links between ranks", of.name.empty() ? "" : ": ", of.name});
  int const x = drawing::margin;
  out.text(x, drawing::margin, title, {.size = 18, .bold = true, .most = 640});
  out.text(x, drawing::margin + 28, below, {.size = 12, .ink = colour::muted, .most = 640});
  out.say(concat({title, ": ", below, "."}));
  int const y = drawing::margin + 64;
  if (colour_scale(of.link_bytes_per_second, true).is_empty() &&
      colour_scale(of.link_latency_seconds, false).is_empty()) {
    out.text(x, y, "The links were not measured.", {});
    return out;
  }
  auto const corner = link_matrix_picture(out, links, findings, false).draw(x, y);
  link_matrix_picture(out, links, findings, true).draw(corner[0] + 40, y);
  return out;
}

// Returns the tenths of `best` as a digit.
PLAIT_DECL char digit_of(double share) {
  return static_cast<char>('0' + std::clamp(static_cast<int>(share * 10), 0, 9));
}

// Returns a name that is safe on a terminal, with at most 24 characters.
PLAIT_DECL std::string short_name(std::string const& name) {
  constexpr std::size_t most = 24;
  auto out = escaped(name);
  if (characters_in(out) <= most) return out;
  while (characters_in(out) > most - 3) out.pop_back();
  return out += "...";
}

PLAIT_DECL std::string matrix_of_digits(ordered_links const& links, bool is_time) {
  auto const& matrix = is_time ? links.of().link_latency_seconds : links.of().link_bytes_per_second;
  colour_scale const scale(matrix, !is_time);
  if (scale.is_empty()) return is_time ? "Latency: not measured\n" : "Bandwidth: not measured\n";
  std::string out = concat({is_time ? "Speed of short messages in tenths of the best, a latency of "
                                    : "Bandwidth in tenths of the best, ",
                            is_time ? time_text(scale.best()) : rate_text(scale.best()),
                            "; rows send, columns receive:\n"});
  auto const& order = links.order();
  std::size_t widest = 0;
  for (auto const rank : order)
    widest = std::max(widest, characters_in(short_name(links.name_of_host(rank))));
  auto const begins_host = [&](std::size_t i) {
    return i == 0 || !links.are_on_one_host(order[i - 1], order[i]);
  };
  auto const add = [&](std::size_t i, std::string const& cell) {
    out += std::string((begins_host(i) ? 4 : 3) - cell.size(), ' ') + cell;
  };
  out += std::string(2 + widest + 4, ' ');
  for (std::size_t i = 0; i < order.size(); ++i) add(i, concat({order[i]}));
  out += '\n';
  for (std::size_t i = 0; i < order.size(); ++i) {
    auto const name = begins_host(i) ? short_name(links.name_of_host(order[i])) : std::string();
    auto const number = concat({order[i]});
    out += concat(
        {"  ", name, std::string(widest - characters_in(name) + 4 - number.size(), ' '), number});
    for (std::size_t j = 0; j < order.size(); ++j) {
      double const value = matrix[order[i]][order[j]];
      double const share = is_time ? scale.best() / value : value / scale.best();
      add(j, i == j ? "-" : value == 0 ? "." : std::string(1, digit_of(share)));
    }
    out += '\n';
  }
  return out;
}

}  // namespace plait::detail::doctor

namespace plait::ext {

PLAIT_DECL std::string link_digits(machine const& of) {
  detail::doctor::ordered_links const links(of);
  if (of.link_bytes_per_second.empty() && of.link_latency_seconds.empty())
    return "The links between ranks were not measured.\n";
  constexpr std::size_t most = 16;
  if (of.ranks.size() > most)
    return concat({"The links between ", of.ranks.size(),
                   " ranks are too many for a terminal; draw them with --svg FILE.\n"});
  return concat({detail::doctor::matrix_of_digits(links, false), "\n",
                 detail::doctor::matrix_of_digits(links, true), "\n",
                 "9 means 90 to 100 %, and '.' a pair that was not measured.\n"});
}

PLAIT_DECL std::string link_svg(machine const& of, std::vector<finding> const& findings) {
  return detail::doctor::drawing_of_links(of, findings).svg("Links between ranks");
}

}  // namespace plait::ext
