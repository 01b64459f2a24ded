// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/doctor/compare_machines.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "plait/core/concat.hpp"
#include "plait/core/quote.hpp"
#include "plait/doctor/machine_fields.hpp"
#include "plait/plan/report/text_table.hpp"

namespace plait::detail {

/// A number of a machine that another measurement may have, too.
struct machine_number {
  std::string name;
  double value;
  bool is_time;  ///< true: a greater value is worse
};

// Lists the numbers of a machine. An element of a list is identified by its label, because another
// measurement may have it at another index.
class machine_number_list {
 public:
  // `with_ranks`: true to include the numbers of ranks and of pairs of ranks.
  machine_number_list(ext::machine const& of, bool with_ranks) : with_ranks_(with_ranks) {
    visit_fields(*this, of);
  }

  [[nodiscard]] std::vector<machine_number> const& numbers() const { return numbers_; }

  template <class Field, class... Range>
  void operator()(char const* name, Field const& field, Range... range) {
    in_part(concat({path_.empty() ? "" : ".", name}), [&] { add(field, range...); });
  }

 private:
  // Adds `part` to the path while `work` is called.
  template <class Work>
  void in_part(std::string const& part, Work work) {
    auto const size = path_.size();
    path_ += part;
    work();
    path_.resize(size);
  }

  void add(bool) {}
  void add(std::string const&, text_range) {}
  void add(std::vector<std::size_t> const&, list_range) {}
  void add(std::vector<ext::machine::named_text> const&, list_range) {}

  template <class Enum>
    requires std::is_enum_v<Enum>
  void add(Enum) {}

  template <class Number>
    requires std::is_arithmetic_v<Number>
  void add(Number value, number_kind kind) {
    if (tells_how_good(kind))
      numbers_.push_back({path_, static_cast<double>(value), kind == number_kind::seconds});
  }

  template <class Value, class... Range>
  void add(std::optional<Value> const& value, Range... range) {
    if (!value) return;
    if constexpr (std::is_same_v<Value, ext::machine_link>) visit_fields(*this, *value);
    else add(*value, range...);
  }

  template <class Part>
  void add(std::vector<Part> const& list, list_range) {
    if (std::is_same_v<Part, ext::machine::rank> && !with_ranks_) return;
    for (std::size_t i = 0; i < list.size(); ++i) {
      std::string label;
      if constexpr (requires(Part const& part) { label_of(part); }) label = label_of(list[i]);
      else label = concat({i});
      in_part(concat({"[", label, "]"}), [&] { visit_fields(*this, list[i]); });
    }
  }

  void add(ext::machine::link_matrix const& matrix, matrix_of of) {
    if (!with_ranks_) return;
    for (std::size_t i = 0; i < matrix.size(); ++i)
      for (std::size_t j = 0; j < matrix[i].size(); ++j)
        if (matrix[i][j] != 0)
          in_part(concat({"[", i, "][", j, "]"}), [&] { add(matrix[i][j], of.kind); });
  }

  bool with_ranks_;
  std::string path_;
  std::vector<machine_number> numbers_;
};

// Returns true if both machines have the same number of ranks, and each rank on the same host.
PLAIT_DECL bool have_same_ranks(ext::machine const& a, ext::machine const& b) {
  return std::equal(a.ranks.begin(), a.ranks.end(), b.ranks.begin(), b.ranks.end(),
                    [](auto const& one, auto const& other) { return one.host == other.host; });
}

// Returns a number with three digits.
PLAIT_DECL std::string short_number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g", value);
  return text.data();
}

}  // namespace plait::detail

namespace plait::ext {

PLAIT_DECL machine_comparison compare_machines(machine const& before, machine const& now) {
  machine_comparison out;
  auto const differ = [&](char const* what, std::string const& earlier, std::string const& later) {
    if (earlier != later)
      out.notes.push_back(concat({"the ", what, " was ", detail::in_quotes(earlier),
                                  " before and is ", detail::in_quotes(later), " now"}));
  };
  differ("name", before.name, now.name);
  differ("backend", before.backend, now.backend);
  if (!before.quiet)
    out.notes.push_back("the machine was not quiet before: other processes used its processors");
  if (!now.quiet)
    out.notes.push_back("the machine is not quiet now: other processes use its processors");
  bool const with_ranks = detail::have_same_ranks(before, now);
  if (!with_ranks)
    out.notes.push_back(
        "numbers of ranks and of links between two ranks were not compared, because the ranks or "
        "their hosts are not the same");

  detail::machine_number_list const earlier(before, with_ranks), later(now, with_ranks);
  std::unordered_map<std::string_view, double> values;
  for (auto const& number : later.numbers()) values.emplace(number.name, number.value);
  for (auto const& number : earlier.numbers()) {
    auto const found = values.find(number.name);
    if (found == values.end()) continue;
    ++out.compared;
    double const ratio =
        number.is_time ? number.value / found->second : found->second / number.value;
    if (ratio < 0.9) out.fallen.push_back({number.name, number.value, found->second, ratio});
  }
  auto const count_missing = [&](detail::machine_number_list const& of, char const* when) {
    if (of.numbers().size() > out.compared)
      out.notes.push_back(concat(
          {"numbers that were measured only ", when, ": ", of.numbers().size() - out.compared}));
  };
  count_missing(earlier, "before");
  count_missing(later, "now");
  return out;
}

PLAIT_DECL std::string to_text(machine_comparison const& of) {
  std::string out = concat({of.fallen.size(), " of ", of.compared,
                            " numbers fell by more than 10 %", of.fallen.empty() ? ".\n" : ":\n"});
  if (!of.fallen.empty()) {
    planning::text_table table;
    table.add({"number", "before", "now", "speed"});
    for (auto const& number : of.fallen)
      table.add({detail::escaped(number.name), detail::short_number(number.before),
                 detail::short_number(number.now), detail::short_number(number.ratio)});
    out += table.text();
  }
  for (auto const& note : of.notes) out += concat({"Note: ", note, ".\n"});
  return out;
}

}  // namespace plait::ext
