// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/doctor/machine_rules.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string_view>
#include <type_traits>
#include <vector>

#include "plait/core/concat.hpp"
#include "plait/core/quote.hpp"
#include "plait/doctor/machine_fields.hpp"
#include "plait/io/json.hpp"

namespace plait::detail {

PLAIT_DECL bool is_utf8(std::string const& text) {
  try {
    (void)json_value(text).dump();
    return true;
  } catch (json_value::type_error const&) {
    return false;
  }
}

// Returns true for a time in UTC, as "2026-11-30T09:15:00Z".
PLAIT_DECL bool is_date(std::string_view text) {
  constexpr std::string_view form = "0000-00-00T00:00:00Z";
  if (text.size() != form.size()) return false;
  for (std::size_t i = 0; i < form.size(); ++i) {
    bool const is_digit = text[i] >= '0' && text[i] <= '9';
    if (form[i] == '0' ? !is_digit : text[i] != form[i]) return false;
  }
  auto const number = [&](std::size_t at, std::size_t digits) {
    int out = 0;
    for (char const c : text.substr(at, digits)) out = 10 * out + (c - '0');
    return out;
  };
  int const year = number(0, 4), month = number(5, 2), day = number(8, 2);
  constexpr std::array<int, 13> days{0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  if (month < 1 || month > 12) return false;
  bool const is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
  int const last = days[static_cast<std::size_t>(month)] + (month == 2 && is_leap ? 1 : 0);
  // A minute with a leap second has 61 seconds.
  return day >= 1 && day <= last && number(11, 2) < 24 && number(14, 2) < 60 && number(17, 2) < 61;
}

// Walks through the fields of a machine and keeps the first mistake.
class machine_checker {
 public:
  [[nodiscard]] std::string mistake(ext::machine const& of) {
    visit_fields(*this, of);
    if (mistake_.empty()) check_together(of);
    return mistake_;
  }

  template <class Field, class... Range>
  void operator()(char const* name, Field const& field, Range... range) {
    if (!mistake_.empty()) return;
    field_path::part const part(path_, name);
    check(field, range...);
  }

 private:
  void report(std::string_view value, std::string_view must) {
    if (mistake_.empty())
      mistake_ = concat({value, " for '", path_.text(), "'; it must be ", must});
  }

  void check(bool) {}

  template <class Number>
    requires std::is_arithmetic_v<Number>
  void check(Number value, number_kind kind) {
    auto const [least, most, text] = range_of(kind);
    auto const as_double = static_cast<double>(value);
    // NaN is not within the range, because both comparisons are false for it.
    if (!(as_double >= least && as_double <= most)) report(json_number(value), text);
  }

  template <class Enum>
    requires std::is_enum_v<Enum>
  void check(Enum value) {
    if (!has_word(value))
      report(concat({"the value ", static_cast<int>(value), " of an enum"}),
             concat({"one of these: ", list_of_words(value)}));
  }

  void check(std::string const& text, text_range range) {
    if (!is_utf8(text)) return report(in_quotes(text), "UTF-8");
    if (text.size() >= range.least && text.size() <= range.most) return;
    report(concat({"a text of ", text.size(), " bytes"}),
           concat({"a text of ", range.least, " to ", range.most, " bytes"}));
  }

  template <class Value, class... Range>
  void check(std::optional<Value> const& value, Range... range) {
    if (!value) return;
    if constexpr (std::is_same_v<Value, ext::machine_link>) visit_fields(*this, *value);
    else check(*value, range...);
  }

  template <class Element>
  void check(std::vector<Element> const& list, list_range range) {
    if (list.size() < range.least || list.size() > range.most)
      return report(concat({"a list of ", list.size(), " elements"}),
                    concat({"a list of ", range.least, " to ", range.most, " elements"}));
    std::set<std::string> labels;
    for (std::size_t i = 0; i < list.size() && mistake_.empty(); ++i) {
      field_path::part const part(path_, i);
      auto const& element = list[i];
      if constexpr (std::is_same_v<Element, std::size_t>) {
        check(element, number_kind::cpu);
        if (i > 0 && list[i - 1] >= element)
          report(concat({element}), concat({"greater than the previous number, ", list[i - 1]}));
      } else if constexpr (std::is_same_v<Element, ext::machine::named_text>) {
        check(element.name, short_text);
        check(element.value, long_text);
      } else {
        visit_fields(*this, element);
      }
      if constexpr (requires { label_of(element); }) {
        if (!mistake_.empty()) return;
        if (!labels.insert(label_of(element)).second)
          report(concat({"a second element ", in_quotes(label_of(element))}),
                 "the only one in its list");
      }
    }
  }

  void check(ext::machine::link_matrix const& matrix, matrix_of of) {
    if (matrix.size() > most_ranks_of_matrix)
      return report(concat({"a matrix of ", matrix.size(), " rows"}),
                    concat({"empty for more than ", most_ranks_of_matrix, " ranks"}));
    for (std::size_t i = 0; i < matrix.size() && mistake_.empty(); ++i) {
      field_path::part const row(path_, i);
      if (matrix[i].size() != matrix.size())
        return report(concat({"a row of ", matrix[i].size(), " numbers"}),
                      concat({"a row of ", matrix.size(), " numbers, as the matrix has ",
                              matrix.size(), " rows"}));
      for (std::size_t j = 0; j < matrix.size() && mistake_.empty(); ++j) {
        if (matrix[i][j] == 0) continue;
        field_path::part const column(path_, j);
        check(matrix[i][j], of.kind);
        if (i == j) report(json_number(matrix[i][j]), "null, as a rank has no link to itself");
      }
    }
  }

  // Checks the rules about several fields. Each list already has a valid length, and each number is
  // in its range.
  void check_together(ext::machine const& of) {
    if (!is_date(of.date))
      report_at("date", in_quotes(of.date), "a time in UTC such as '2026-11-30T09:15:00Z'");
    check_hosts_of_ranks(of);
    check_sizes_of_matrices(of);
    for (std::size_t i = 0; i < of.collectives.size(); ++i) {
      field_path::part const list(path_, "collectives"), element(path_, i);
      check_collective(of, of.collectives[i]);
    }
  }

  void check_hosts_of_ranks(ext::machine const& of) {
    std::set<std::string_view> names;
    for (auto const& host : of.hosts) names.insert(host.name);
    for (std::size_t i = 0; i < of.ranks.size(); ++i) {
      field_path::part const list(path_, "ranks"), element(path_, i);
      if (!names.contains(of.ranks[i].host))
        report_at("host", in_quotes(of.ranks[i].host), "the name of a host in 'hosts'");
    }
  }

  void check_sizes_of_matrices(ext::machine const& of) {
    auto const& latency = of.link_latency_seconds;
    auto const& bandwidth = of.link_bytes_per_second;
    auto const check_size = [&](char const* name, std::size_t rows) {
      if (rows != 0 && rows != of.ranks.size())
        report_at(name, concat({"a matrix of ", rows, " rows"}),
                  concat({"empty or have a row for each of ", of.ranks.size(), " ranks"}));
    };
    check_size("link_latency_seconds", latency.size());
    check_size("link_bytes_per_second", bandwidth.size());
    if (!mistake_.empty()) return;
    if (latency.size() != bandwidth.size())
      report_at(
          "link_bytes_per_second", concat({"a matrix of ", bandwidth.size(), " rows"}),
          concat({"as large as 'link_latency_seconds', which has ", latency.size(), " rows"}));
    for (std::size_t i = 0; i < latency.size() && mistake_.empty(); ++i)
      for (std::size_t j = 0; j < latency.size(); ++j) {
        if ((latency[i][j] == 0) == (bandwidth[i][j] == 0)) continue;
        field_path::part const matrix(path_, "link_bytes_per_second"), row(path_, i);
        field_path::part const column(path_, j);
        report(bandwidth[i][j] == 0 ? "no number" : "a number",
               concat({"a number if and only if 'link_latency_seconds[", i, "][", j, "]' is"}));
      }
  }

  void check_collective(ext::machine const& of, ext::machine::collective_times const& measured) {
    bool const over_world = measured.over == ext::rank_group::world;
    if (over_world && measured.ranks != of.ranks.size())
      report_at("ranks", concat({measured.ranks}),
                concat({of.ranks.size(), ", the number of ranks in 'ranks'"}));
    if (measured.ranks < 2 || measured.ranks > of.ranks.size())
      report_at("ranks", concat({measured.ranks}),
                concat({"from 2 to the number of ranks, ", of.ranks.size()}));
    for (std::size_t i = 1; i < measured.times.size(); ++i) {
      field_path::part const list(path_, "times"), element(path_, i);
      auto const previous = measured.times[i - 1].bytes;
      if (measured.times[i].bytes <= previous)
        report_at("bytes", concat({measured.times[i].bytes}),
                  concat({"greater than the bytes of the previous element, ", previous}));
    }
  }

  void report_at(char const* name, std::string_view value, std::string_view must) {
    field_path::part const part(path_, name);
    report(value, must);
  }

  template <class Number>
  static std::string json_number(Number value) {
    auto const as_double = static_cast<double>(value);
    if (as_double != as_double) return "nan";
    if (as_double - as_double != 0) return as_double > 0 ? "inf" : "-inf";
    return json_value(value).dump();
  }

  field_path path_;
  std::string mistake_;
};

PLAIT_DECL std::string mistake_in(ext::machine const& of) { return machine_checker().mistake(of); }

}  // namespace plait::detail
