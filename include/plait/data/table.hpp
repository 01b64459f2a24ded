// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/file.hpp"
#include "plait/core/file_kind.hpp"
#include "plait/core/number_range.hpp"
#include "plait/core/quote.hpp"
#include "plait/data/csv_reader.hpp"
#include "plait/data/dataset.hpp"
#include "plait/layer/value.hpp"

namespace plait {

/// The options of `plait::table`.
struct table_options {
  /// The columns to be predicted, by their names in the first row, or by their numbers, "0" and so
  /// on, where that is no header.
  std::vector<std::string> targets;
  /// Columns that are not used.
  std::vector<std::string> ignored{};
  /// The words of a class column in the order of their numbers, as another table has them; empty:
  /// those of the file, in order (as numbers, where all are numbers).
  std::vector<std::string> classes{};
  char separator = ',';
  /// The first row has the names of the columns.
  bool header = true;
  /// Stands for a feature that is missing, which is else an error.
  std::optional<double> missing{};
};

namespace detail {

/// A cell as a number: not a number if it is empty, nothing if it has anything else.
/// `in_range` becomes false if it is too large or too small for a double.
inline std::optional<double> number_of_cell(std::string_view cell, bool* in_range = nullptr) {
  constexpr std::string_view blanks = " \t";
  auto const first = cell.find_first_not_of(blanks);
  if (first == cell.npos) return std::numeric_limits<double>::quiet_NaN();
  cell = cell.substr(first, cell.find_last_not_of(blanks) + 1 - first);
  if (cell.size() > 1 && cell[0] == '+' && cell[1] != '-') cell.remove_prefix(1);
  double out = 0;
  auto const [end, problem] = std::from_chars(cell.data(), cell.data() + cell.size(), out);
  if (in_range != nullptr && problem == std::errc::result_out_of_range) *in_range = false;
  if (problem != std::errc{} || end != cell.data() + cell.size()) return std::nullopt;
  return out;
}

/// Words in order, or as numbers where all of them are.
inline void sort_words(std::vector<std::string>& words) {
  auto const key = [](std::string const& word) { return number_of_cell(word); };
  bool const numbers = std::all_of(words.begin(), words.end(), [&](std::string const& word) {
    return key(word) && !std::isnan(*key(word));
  });
  auto const before = [&](std::string const& one, std::string const& other) {
    return numbers && *key(one) != *key(other) ? *key(one) < *key(other) : one < other;
  };
  std::sort(words.begin(), words.end(), before);
}

}  // namespace detail

/// A table in a text file (CSV) as a data set: each row is a sample, its cells are the features,
/// but for those of the target columns. Targets are classes, words that become numbers from 0 on,
/// or real numbers: `table<float, float>`.
///
/// Cells are separated by `.separator`; those in quotes may have it, and ends of lines, within. An
/// empty cell, or one that says nan, is missing: as a target it does not count, as a feature it is
/// an error unless `.missing` stands for it. Infinite numbers are errors.
///
/// Shapes: inputs (features), in the order of the columns; targets (target columns), (1) for
///         classes.
/// Cost:   the file is read once; the numbers are held in memory.
/// Errors: input_error with the file, the line and both values if the file is missing or no
///         regular file, has no rows, a row of another number of cells, a cell that is no number or
///         a class that is not among `.classes`; if a column that is named is not there, or twice,
///         or if none is left for features.
/// Threads: all members are const and may run at the same time.
template <std::floating_point T = float, class Target = std::int32_t>
  requires std::same_as<Target, std::int32_t> || std::floating_point<Target>
class table {
 public:
  using concept_tag = dataset_tag;
  using element = T;
  using target = Target;

  table(std::filesystem::path const& path, table_options const& options)
      : name_("table", path), file_(path.filename().string()) {
    detail::open_file const file(path, "table");
    detail::refuse_other_kind(file, path, detail::file_use::table);
    detail::mapped_file const mapped(file);
    auto const bytes = mapped.bytes();
    check(options);
    try {
      read({reinterpret_cast<char const*>(bytes.data()), bytes.size()}, options);
    } catch (input_error const&) {
      throw;
    } catch (std::exception const&) {  // bad_alloc or length_error
      name_.refuse(ext::concat({"has ", bytes.size(), " bytes, too many for the memory"}));
    }
  }

  [[nodiscard]] std::size_t size() const { return targets_.size() / target_width_; }
  [[nodiscard]] std::size_t sequence_length() const { return 1; }
  [[nodiscard]] std::size_t width() const { return feature_names_.size(); }
  [[nodiscard]] std::size_t target_width() const { return target_width_; }

  /// The names of the columns that are features.
  [[nodiscard]] std::vector<std::string> const& feature_names() const { return feature_names_; }
  /// The words of the class column: class i is the word i. Empty for real targets.
  [[nodiscard]] std::vector<std::string> const& classes() const { return classes_; }

  /// Its file and numbers, as a text.
  [[nodiscard]] std::string description() const {
    auto const counted = [](std::size_t count, std::string const& word, char const* plural = "s") {
      return ext::concat({count, " ", word, (count == 1 ? "" : plural)});
    };
    std::string out =
        ext::concat({"table(", detail::path_in_quotes(file_), ", ", counted(size(), "row"), ", ",
                     counted(width(), "feature"), ", "});
    if constexpr (has_classes)
      return ext::concat({out, counted(classes_.size(), "class", "es"), ")"});
    else return ext::concat({out, counted(target_width_, "target"), ")"});
  }

  void inputs(std::size_t sample, std::span<T> out) const {
    detail::check_sample("table", sample, size(), out.size(), width());
    std::copy_n(features_.data() + sample * width(), width(), out.data());
  }

  void targets(std::size_t sample, std::span<Target> out) const {
    detail::check_sample("table", sample, size(), out.size(), target_width_);
    std::copy_n(targets_.data() + sample * target_width_, target_width_, out.data());
  }

 private:
  static constexpr bool has_classes = std::same_as<Target, std::int32_t>;
  enum class role { feature, target, ignored };

  void check(table_options const& options) const {
    constexpr std::string_view others = "\"\n\r.+-_";
    char const c = options.separator;
    bool const is_word = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (c == '\0' || is_word || others.find(c) != others.npos)
      throw input_error({"table_options::separator is ", detail::in_quotes({&c, 1}),
                         ", which cells can have; write ',', ';', '\\t', '|' or the like"});
    if (options.missing && !std::isfinite(static_cast<T>(*options.missing)))
      throw input_error({"table_options::missing is ", detail::number_text(*options.missing),
                         "; it must be a finite number"});
    if (options.targets.empty())
      throw input_error("table_options::targets names no column; name those to be predicted");
    if (has_classes && options.targets.size() != 1)
      throw input_error({"table_options::targets names ", options.targets.size(),
                         " columns, of which the classes are one; for real numbers write "
                         "plait::table<float, float>"});
    if (!has_classes && !options.classes.empty())
      throw input_error({"table_options::classes has ", options.classes.size(),
                         " words, but the targets are real numbers; for classes write "
                         "plait::table<float>"});
    auto words = options.classes;
    std::sort(words.begin(), words.end());
    if (!words.empty() && words[0].empty())
      throw input_error("table_options::classes has the word '', which stands for a missing class");
    if (auto const twice = std::adjacent_find(words.begin(), words.end()); twice != words.end())
      throw input_error(
          {"table_options::classes has the word ", detail::in_quotes(*twice), " twice"});
  }

  void read(std::string_view text, table_options const& options) {
    detail::csv_reader rows(text, options.separator, name_);
    if (!rows.next()) name_.refuse("has no rows: it is empty");
    std::vector<std::string> names(rows.cells());
    for (std::size_t i = 0; i < names.size(); ++i)
      names[i] = options.header ? std::string(rows.cell(i)) : std::to_string(i);
    set_columns(names, options);

    std::map<std::string, std::int32_t, std::less<>> numbers;  // of classes
    for (auto const& word : options.classes)
      numbers.emplace(word, static_cast<std::int32_t>(numbers.size()));
    if (options.header && !rows.next()) name_.refuse("has no rows behind its header");
    do {
      if (rows.cells() != names.size())
        rows.refuse(ext::concat({"has ", rows.cells(), " cells, but ",
                                 (options.header ? "the header has " : "the first row has "),
                                 names.size()}));
      std::size_t const first = targets_.size();
      targets_.resize(first + target_width_);
      for (std::size_t i = 0; i < names.size(); ++i) {
        auto const cell = rows.cell(i);
        if (roles_[i] == role::feature)
          features_.push_back(feature(cell, rows, names[i], options.missing));
        else if (roles_[i] == role::target)
          targets_[first + places_[i]] = target_of_cell(cell, rows, names[i], numbers, options);
      }
    } while (rows.next());
    if constexpr (has_classes) set_classes(numbers, options);
  }

  /// Sets what each column is for.
  void set_columns(std::vector<std::string> const& names, table_options const& options) {
    roles_.assign(names.size(), role::feature);
    places_.assign(names.size(), 0);
    for (std::size_t i = 0; i < options.targets.size(); ++i) {
      std::size_t const at = column(names, options.targets[i]);
      if (std::exchange(roles_[at], role::target) != role::feature)
        throw input_error({"table_options::targets names the column ",
                           detail::in_quotes(options.targets[i]), " twice"});
      places_[at] = i;
    }
    for (auto const& name : options.ignored) {
      std::size_t const at = column(names, name);
      if (std::exchange(roles_[at], role::ignored) == role::target)
        throw input_error({"table_options::ignored names the column ", detail::in_quotes(name),
                           ", which is a target"});
    }
    for (std::size_t i = 0; i < names.size(); ++i)
      if (roles_[i] == role::feature) feature_names_.push_back(names[i]);
    if (feature_names_.empty())
      name_.refuse(ext::concat(
          {"has ", names.size(),
           " columns, all of which are targets or ignored; none is left for features"}));
    target_width_ = options.targets.size();
  }

  [[nodiscard]] std::size_t column(std::vector<std::string> const& names,
                                   std::string const& name) const {
    auto const found = std::find(names.begin(), names.end(), name);
    if (found == names.end())
      name_.refuse(ext::concat(
          {"has no column ", detail::in_quotes(name), "; its columns are ", list_of(names)}));
    auto const place = static_cast<std::size_t>(found - names.begin());
    if (auto const other = std::find(found + 1, names.end(), name); other != names.end())
      name_.refuse(ext::concat({"has two columns ", detail::in_quotes(name), ", number ", place,
                                " and number ", other - names.begin()}));
    return place;
  }

  static std::string list_of(std::vector<std::string> const& words) {
    constexpr std::size_t most = 20;
    std::string out;
    for (std::size_t i = 0; i < std::min(most, words.size()); ++i)
      out += (i == 0 ? "" : ", ") + detail::in_quotes(words[i]);
    if (words.size() > most) out += ext::concat({" and ", words.size() - most, " more"});
    return out;
  }

  [[noreturn]] static void refuse_cell(std::string_view cell, detail::csv_reader const& rows,
                                       std::string const& column, std::string const& what) {
    rows.refuse(ext::concat({"has ", detail::in_quotes(cell), " in the column ",
                             detail::in_quotes(column), ", which ", what}));
  }

  template <class Number>
  [[nodiscard]] static Number number(std::string_view cell, detail::csv_reader const& rows,
                                     std::string const& column) {
    bool in_range = true;
    auto const found = detail::number_of_cell(cell, &in_range);
    if (!in_range)
      refuse_cell(cell, rows, column, "is too large or too small for a number of 64 bits");
    if (!found) refuse_cell(cell, rows, column, "is no number");
    auto const out = static_cast<Number>(*found);
    if (std::isinf(out))
      refuse_cell(cell, rows, column,
                  ext::concat({"is no finite number of ", 8 * sizeof(Number), " bits"}));
    return out;
  }

  [[nodiscard]] static T feature(std::string_view cell, detail::csv_reader const& rows,
                                 std::string const& column, std::optional<double> missing) {
    T const out = number<T>(cell, rows, column);
    if (!std::isnan(out)) return out;
    if (!missing)
      refuse_cell(cell, rows, column,
                  "is missing; give table_options::missing a number to stand for it");
    return static_cast<T>(*missing);
  }

  [[nodiscard]] static Target target_of_cell(
      std::string_view cell, detail::csv_reader const& rows, std::string const& column,
      std::map<std::string, std::int32_t, std::less<>>& numbers, table_options const& options) {
    if constexpr (!has_classes) {
      return number<Target>(cell, rows, column);
    } else {
      if (cell.empty()) return ext::ignored_target;
      if (auto const found = numbers.find(cell); found != numbers.end()) return found->second;
      if (!options.classes.empty())
        rows.refuse(
            ext::concat({"has the class ", detail::in_quotes(cell), " in the column ",
                         detail::in_quotes(column),
                         ", which is none of table_options::classes: ", list_of(options.classes)}));
      if (numbers.size() == std::numeric_limits<std::int32_t>::max())
        rows.refuse(
            ext::concat({"has one class too many in the column ", detail::in_quotes(column)}));
      auto const next = static_cast<std::int32_t>(numbers.size());
      return numbers.emplace(cell, next).first->second;
    }
  }

  /// Numbers classes in their order, which so far is that of the rows.
  void set_classes(std::map<std::string, std::int32_t, std::less<>> const& numbers,
                   table_options const& options) {
    if (numbers.empty())
      name_.refuse(
          ext::concat({"has no class in the column ", detail::in_quotes(options.targets[0]),
                       ": all its cells are empty"}));
    classes_ = options.classes;
    if (!classes_.empty()) return;
    for (auto const& one : numbers) classes_.push_back(one.first);
    detail::sort_words(classes_);
    std::vector<std::int32_t> now(numbers.size());
    for (std::size_t i = 0; i < classes_.size(); ++i)
      now[static_cast<std::size_t>(numbers.at(classes_[i]))] = static_cast<std::int32_t>(i);
    for (auto& one : targets_)
      if (one != ext::ignored_target) one = now[static_cast<std::size_t>(one)];
  }

  detail::file_name name_;
  std::string file_;
  std::vector<role> roles_;          // of columns
  std::vector<std::size_t> places_;  // of target columns among the targets
  std::vector<std::string> feature_names_, classes_;
  std::vector<T> features_;
  std::vector<Target> targets_;
  std::size_t target_width_ = 1;
};

static_assert(ext::feature_dataset<table<float>> && ext::feature_dataset<table<double, double>>);

}  // namespace plait
