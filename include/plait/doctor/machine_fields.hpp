// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "plait/core/concat.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/doctor/machine.hpp"
#include "plait/placement/collective.hpp"

// The fields of a machine file, in the order of the file, each with its name and its range. Reader,
// writer, checks and comparison all walk through these lists, so that a field which is added here
// is read, written, checked and compared. Only .ipp files include this header.
namespace plait::detail {

/// The kind of a number. Rates, times, ratios and resources tell how good a machine is, so
/// compare_machines compares them. Counts, indices of processors and bytes describe a measurement.
enum class number_kind { count, cpu, bytes, resource, rate, seconds, ratio };

constexpr bool tells_how_good(number_kind kind) { return kind >= number_kind::resource; }

/// The range of the numbers of a kind, as numbers and as text. The ranges are so narrow that
/// products and quotients of such numbers are finite.
struct number_range_of_kind {
  double least, most;
  char const* text;
};

constexpr number_range_of_kind range_of(number_kind kind) {
  switch (kind) {
    case number_kind::count: return {1, 1e12, "a whole number from 1 to 10^12"};
    case number_kind::cpu: return {0, 1e6, "a whole number from 0 to 10^6"};
    case number_kind::bytes:
    case number_kind::resource: return {1, 1e18, "a whole number from 1 to 10^18"};
    case number_kind::rate: return {1, 1e24, "a number from 1 to 10^24"};
    case number_kind::seconds: return {1e-12, 1e9, "a number from 10^-12 to 10^9"};
    case number_kind::ratio: return {1e-6, 1e6, "a number from 10^-6 to 10^6"};
  }
  return {};
}

/// The allowed length of a text in bytes.
struct text_range {
  std::size_t least, most;
};
inline constexpr text_range short_text{1, 200}, long_text{0, 4000};

/// The allowed number of elements of a list.
struct list_range {
  std::size_t least, most;
};

/// A link matrix has as many rows and columns as there are ranks, or it is empty. Its numbers have
/// this kind.
struct matrix_of {
  number_kind kind;
};
inline constexpr std::size_t most_ranks_of_matrix = 1024;

/// The words for the values of an enum, in the order of the values.
constexpr std::array<char const*, 3> words_of(ext::transposed_operand) {
  return {"none", "a", "b"};
}
constexpr std::array<char const*, 3> words_of(ext::rank_group) {
  return {"world", "host", "one_per_host"};
}
constexpr std::array<char const*, 5> words_of(ext::collective) {
  std::array<char const*, 5> out{};  // all_reduce to broadcast
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = to_string(static_cast<ext::collective>(i));
  return out;
}

template <class Enum>
constexpr bool has_word(Enum value) {
  return static_cast<std::size_t>(value) < words_of(value).size();
}

/// Returns the word for a value of an enum that has words_of.
template <class Enum>
constexpr char const* word_of(Enum value) {
  return has_word(value) ? words_of(value)[static_cast<std::size_t>(value)] : "unknown";
}

/// Returns the words for the values of an enum that has words_of, as a list: "none, a, b".
template <class Enum>
std::string list_of_words(Enum of) {
  std::string out;
  for (char const* const word : words_of(of)) out += ext::concat({out.empty() ? "" : ", ", word});
  return out;
}

template <class Of, class Part>
concept is_part = std::same_as<std::remove_const_t<Of>, Part>;

// Each function calls visit(name, member, range) for each field. A bool and an enum have no range:
// visit(name, member).
template <class Visit>
void visit_fields(Visit& visit, is_part<ext::machine::host> auto& of) {
  visit("name", of.name, short_text);
  visit("devices", of.devices, number_kind::resource);
  visit("memory_bytes", of.memory_bytes, number_kind::resource);
  visit("device_memory_bytes", of.device_memory_bytes, number_kind::resource);
}

template <class Visit>
void visit_fields(Visit& visit, is_part<ext::machine::rank> auto& of) {
  visit("host", of.host, short_text);
  visit("cpus", of.cpus, list_range{0, 65536});
  visit("speed", of.speed, number_kind::ratio);
}

template <class Visit>
void visit_fields(Visit& visit, is_part<ext::machine::product> auto& of) {
  visit("rows", of.shape.rows, number_kind::count);
  visit("columns", of.shape.columns, number_kind::count);
  visit("inner", of.shape.inner, number_kind::count);
  visit("transposed", of.shape.transposed);
  visit("flop_per_second", of.flop_per_second, number_kind::rate);
}

template <class Visit>
void visit_fields(Visit& visit, is_part<ext::machine::attention> auto& of) {
  visit("head_width", of.head_width, number_kind::count);
  visit("flop_per_second", of.flop_per_second, number_kind::rate);
}

template <class Visit>
void visit_fields(Visit& visit, is_part<ext::machine::element_type> auto& of) {
  visit("name", of.name, short_text);
  visit("products", of.products, list_range{0, 100'000});
  visit("attentions", of.attentions, list_range{0, 1000});
  visit("row_bytes_per_second", of.row_bytes_per_second, number_kind::rate);
  visit("optimizer_bytes_per_second", of.optimizer_bytes_per_second, number_kind::rate);
  visit("seconds_per_operation", of.seconds_per_operation, number_kind::seconds);
}

template <class Visit>
void visit_fields(Visit& visit, is_part<ext::machine_link> auto& of) {
  visit("latency_seconds", of.latency_seconds, number_kind::seconds);
  visit("bytes_per_second", of.bytes_per_second, number_kind::rate);
  visit("shared_by", of.shared_by, number_kind::count);
}

template <class Visit>
void visit_fields(Visit& visit, is_part<ext::machine::collective_time> auto& of) {
  visit("bytes", of.bytes, number_kind::bytes);
  visit("seconds", of.seconds, number_kind::seconds);
}

template <class Visit>
void visit_fields(Visit& visit, is_part<ext::machine::collective_times> auto& of) {
  visit("kind", of.kind);
  visit("over", of.over);
  visit("ranks", of.ranks, number_kind::count);
  visit("times", of.times, list_range{2, 1000});
}

template <class Visit>
void visit_fields(Visit& visit, is_part<ext::machine> auto& of) {
  visit("name", of.name, short_text);
  visit("date", of.date, short_text);
  visit("backend", of.backend, short_text);
  visit("quiet", of.quiet);
  visit("versions", of.versions, list_range{0, 1000});
  visit("settings", of.settings, list_range{0, 1000});
  visit("hosts", of.hosts, list_range{1, 65536});
  visit("ranks", of.ranks, list_range{1, 65536});
  visit("memory_bytes_per_second", of.memory_bytes_per_second, number_kind::rate);
  visit("element_types", of.element_types, list_range{0, 100});
  visit("link_within_host", of.link_within_host);
  visit("link_between_hosts", of.link_between_hosts);
  visit("link_latency_seconds", of.link_latency_seconds, matrix_of{number_kind::seconds});
  visit("link_bytes_per_second", of.link_bytes_per_second, matrix_of{number_kind::rate});
  visit("collectives", of.collectives, list_range{0, 100});
}

/// Returns the text that identifies an element of a list; no two elements of the list may have the
/// same text. Ranks have no such text, because their numbers identify them.
inline std::string label_of(ext::machine::named_text const& of) { return of.name; }
inline std::string label_of(ext::machine::host const& of) { return of.name; }
inline std::string label_of(ext::machine::element_type const& of) { return of.name; }
inline std::string label_of(ext::machine::product const& of) {
  auto const& [rows, columns, inner, transposed] = of.shape;
  std::string out = ext::concat({rows, "x", columns, "x", inner});
  if (transposed != ext::transposed_operand::none)
    out += ext::concat({" ", word_of(transposed), " transposed"});
  return out;
}
inline std::string label_of(ext::machine::attention const& of) {
  return ext::concat({of.head_width});
}
inline std::string label_of(ext::machine::collective_time const& of) {
  return ext::concat({of.bytes});
}
inline std::string label_of(ext::machine::collective_times const& of) {
  return ext::concat({word_of(of.kind), " ", word_of(of.over)});
}

/// The place of a value in a machine, as "element_types[0].products[3].rows".
class field_path {
 public:
  /// Adds a part to the path while this object exists.
  class part {
   public:
    part(field_path& of, std::string_view name) : of_(of) { of_.parts_.emplace_back(name, 0); }
    part(field_path& of, std::size_t index) : of_(of) {
      of_.parts_.emplace_back(std::string_view{}, index);
    }
    ~part() { of_.parts_.pop_back(); }
    part(part const&) = delete;
    part& operator=(part const&) = delete;

   private:
    field_path& of_;
  };

  [[nodiscard]] std::string text() const {
    std::string out;
    for (auto const& [name, index] : parts_) {
      if (name.empty()) out += ext::concat({"[", index, "]"});
      else out += ext::concat({out.empty() ? "" : ".", name});
    }
    return out;
  }

 private:
  std::vector<std::pair<std::string_view, std::size_t>> parts_;
};

}  // namespace plait::detail
