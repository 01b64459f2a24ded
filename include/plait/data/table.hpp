// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
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
#include "plait/data/table_words.hpp"
#include "plait/layer/value.hpp"

namespace plait {

/// The options of `plait::table`. Options refer to a column by its name in the first row. If the
/// file has no header, they refer to a column by its number, counted from "0". If several columns
/// have the same name, refer to them by position: "#0" is the first column of the file.
struct table_options {
  /// The columns whose values a model predicts.
  std::vector<std::string> targets;
  /// Columns that are not used.
  std::vector<std::string> ignored{};
  /// The words of the class column in the order of their class numbers, for example classes() of
  /// another table. If the list is empty, the words are taken from the file and sorted (by value,
  /// if all words are numbers).
  std::vector<std::string> classes{};
  char separator = ',';
  /// True if the first row contains the names of the columns.
  bool header = true;
  /// The value that replaces a missing feature. If this option is not set, a missing feature is an
  /// error.
  std::optional<double> missing{};
  /// If true, missing features stay nan until `plait::normalize` replaces them with their mean in
  /// the training part: `data | plait::normalize::from(train)`.
  bool keep_missing = false;
  /// Words that mark a missing value, such as {"NA", "?"}, in every column; blanks around them are
  /// ignored. Empty cells and nan are missing without being listed.
  std::vector<std::string> missing_words{};
  /// Columns of words. Each of these columns becomes several features, one for each of its words:
  /// the feature is 1 in rows with the word and 0 in other rows. All of them are 0 if the cell is
  /// missing.
  std::vector<std::string> one_hot{};
  /// Columns of words. Each of these columns becomes one feature: the number of the row's word.
  std::vector<std::string> numbered{};
  /// For each column in one_hot and numbered, its words in the order of their numbers, such as the
  /// result of words() of the training table. If empty, the words are taken from the file and
  /// sorted.
  std::map<std::string, std::vector<std::string>> words{};
};

/// A table in a text file (CSV) as a data set. Each row is a sample, and its cells are features,
/// except in target columns. Targets are classes (words, which become numbers counted from 0) or
/// real numbers: `table<float, float>`. Columns of words become features if
/// `table_options::one_hot` or `table_options::numbered` names them.
///
/// Cells are separated by `.separator`; cells in quotation marks may contain separators and ends of
/// lines. A cell is missing if it is empty, contains only blanks, is the word nan, or is one of
/// `.missing_words`. A missing target is ignored in the loss. For a missing cell in a column of
/// `.one_hot`, all features of the column are 0. Any other missing feature is an error unless
/// `.missing` is set to a number that replaces it, or `.keep_missing` is true.
///
/// A number is rounded to the nearest double, and then to the nearest T. Numbers that are too small
/// for T become 0; infinite and too large numbers are errors. Words are sorted (by value, if all
/// words of the column are numbers) and numbered in that order. A column of `.one_hot` has at most
/// 1,000 words, a column of `.numbered` at most 100,000.
///
/// Shapes: inputs (features), in the order of the columns, and of the words within a `.one_hot`
///         column; targets (target columns), (1) for classes.
/// Cost:   reads the file once, and once more to find words that the options do not list; holds the
///         numbers in memory.
/// Errors: input_error with the file, the line and both values if the file is missing or not a
///         regular file, has no rows, a row with another number of cells, a cell that is not a
///         number or a word that is not among `.classes` or `.words`; if a named column is missing
///         or exists twice, or if no column is left for features.
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
    } catch (std::exception const&) {  // std::bad_alloc or std::length_error
      name_.refuse(ext::concat({"has ", bytes.size(), " bytes, too many for the memory"}));
    }
  }

  [[nodiscard]] std::size_t size() const { return targets_.size() / target_width_; }
  [[nodiscard]] std::size_t sequence_length() const { return 1; }
  [[nodiscard]] std::size_t width() const { return feature_names_.size(); }
  [[nodiscard]] std::size_t target_width() const { return target_width_; }

  /// Returns the names of the features: the name of the column, or "column=word" for a `.one_hot`
  /// column.
  [[nodiscard]] std::vector<std::string> const& feature_names() const { return feature_names_; }
  /// Returns the words of the class column, in the order of the classes' numbers. Empty for real
  /// targets.
  [[nodiscard]] std::vector<std::string> const& classes() const { return classes_; }
  /// Returns the words of the columns in `.one_hot` and `.numbered`. Pass them as `.words` of
  /// another table, so that its features have the same meaning.
  [[nodiscard]] std::map<std::string, std::vector<std::string>> const& words() const {
    return words_;
  }
  /// True if a feature of some row is missing and stored as nan, which `.keep_missing` allows.
  [[nodiscard]] bool has_missing() const { return has_missing_; }

  /// Returns a text with the file and the numbers of rows and columns, by which ranks and
  /// checkpoints compare data sets.
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
  enum class role { feature, one_hot, numbered, target, ignored };

  struct word_column {
    std::string name;  // the name of the column, as the options spell it
    role as;           // one_hot or numbered
    detail::word_numbers words;

    [[nodiscard]] std::size_t most() const { return as == role::one_hot ? 1'000 : 100'000; }
  };

  struct cell_of_row {
    std::string_view text;
    std::string const& column;
    detail::csv_reader const& rows;

    [[noreturn]] [[gnu::cold]] void refuse(std::string const& what) const {
      rows.refuse(ext::concat({"has ", detail::in_quotes(text), " in the column ",
                               detail::in_quotes(column), ", which ", what}));
    }
  };

  void check(table_options const& options) const {
    constexpr std::string_view others = "\"\n\r.+-_";
    char const c = options.separator;
    bool const is_word = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (c == '\0' || is_word || others.find(c) != others.npos)
      throw input_error(
          {"table_options::separator is ", detail::in_quotes({&c, 1}),
           ", a character that cells can contain; use a separator such as ',', ';', '\\t' or '|'"});
    if (options.missing && !std::isfinite(static_cast<T>(*options.missing)))
      throw input_error({"table_options::missing is ", detail::number_text(*options.missing),
                         "; it must be a finite number"});
    if (options.missing && options.keep_missing)
      throw input_error({"table_options::missing is ", detail::number_text(*options.missing),
                         ", but keep_missing is true; set only one of the two options"});
    if (options.targets.empty())
      throw input_error(
          "table_options::targets lists no column; list the columns that the model must predict");
    if (has_classes && options.targets.size() != 1)
      throw input_error({"table_options::targets names ", options.targets.size(),
                         " columns, but a table of classes has exactly one target column; for real "
                         "numbers write plait::table<float, float>"});
    if (!has_classes && !options.classes.empty())
      throw input_error({"table_options::classes has ", options.classes.size(),
                         " words, but the targets are real numbers; for classes write "
                         "plait::table<float>"});
    check_words("classes has", "class", options.classes, options);
    for (auto const& [column, words] : options.words)
      check_words(ext::concat({"words has for the column ", detail::in_quotes(column)}), "word",
                  words, options);
  }

  static void check_words(std::string const& what, char const* kind, std::vector<std::string> words,
                          table_options const& options) {
    detail::missing_cells const missing(options.missing_words);
    for (auto const& word : words)
      if (missing.has(word))
        throw input_error({"table_options::", what, " the word ", detail::in_quotes(word),
                           ", which marks a missing ", kind});
    std::sort(words.begin(), words.end());
    if (auto const twice = std::adjacent_find(words.begin(), words.end()); twice != words.end())
      throw input_error(
          {"table_options::", what, " the word ", detail::in_quotes(*twice), " twice"});
  }

  void read(std::string_view text, table_options const& options) {
    detail::csv_reader rows(text, options.separator, name_);
    if (!rows.next()) name_.refuse("has no rows: it is empty");
    std::vector<std::string> names(rows.cells());
    for (std::size_t i = 0; i < names.size(); ++i)
      names[i] = options.header ? std::string(rows.cell(i)) : std::to_string(i);
    auto const hint =
        names.size() == 1 ? detail::separator_hint(rows.cell(0), options.separator) : std::string();
    set_roles(names, hint, options);
    detail::missing_cells const missing(options.missing_words);
    auto columns = word_columns(options);
    if (options.header && !rows.next()) name_.refuse("has no rows after its header");
    if (!columns.empty() && options.words.empty()) find_words(rows, names, missing, columns);
    set_features(names, hint, columns);

    auto numbers = detail::numbers_of(options.classes);
    do {
      if (rows.cells() != names.size())
        rows.refuse(ext::concat({"has ", rows.cells(), " cells, but ",
                                 (options.header ? "the header has " : "the first row has "),
                                 names.size()}));
      std::size_t const first = targets_.size();
      targets_.resize(first + target_width_);
      for (std::size_t i = 0; i < names.size(); ++i) {
        cell_of_row const cell{rows.cell(i), names[i], rows};
        switch (roles_[i]) {
          case role::feature: add_number(cell, missing, options); break;
          case role::one_hot:
          case role::numbered: add_word(cell, missing, columns[places_[i]], options); break;
          case role::target:
            targets_[first + places_[i]] = target_of(cell, missing, numbers, options);
            break;
          case role::ignored: break;
        }
      }
    } while (rows.next());
    if constexpr (has_classes) set_classes(numbers, options);
  }

  /// Stores the role of each column (in roles_) and the column's index among all columns with this
  /// role (in places_).
  void set_roles(std::vector<std::string> const& names, std::string const& hint,
                 table_options const& options) {
    roles_.assign(names.size(), role::feature);
    places_.assign(names.size(), 0);
    auto const take = [&](std::vector<std::string> const& of, char const* option, role as,
                          std::size_t first = 0) {
      for (std::size_t i = 0; i < of.size(); ++i) {
        std::size_t const at = column(names, of[i], hint);
        role const before = std::exchange(roles_[at], as);
        places_[at] = first + i;
        if (before == role::feature || (before == as && as == role::ignored)) continue;
        throw input_error({"table_options::", option, " names the column ",
                           detail::in_quotes(of[i]),
                           (before == as              ? " twice"
                            : before == role::target  ? ", which is a target"
                            : before == role::ignored ? ", which is ignored"
                                                      : ", which is in one_hot")});
      }
    };
    take(options.targets, "targets", role::target);
    take(options.ignored, "ignored", role::ignored);
    take(options.one_hot, "one_hot", role::one_hot);
    take(options.numbered, "numbered", role::numbered, options.one_hot.size());
    target_width_ = options.targets.size();
  }

  /// Returns the columns of words, with the words that the options list.
  std::vector<word_column> word_columns(table_options const& options) {
    std::vector<word_column> out;
    for (auto const& name : options.one_hot) out.push_back({name, role::one_hot, {}});
    for (auto const& name : options.numbered) out.push_back({name, role::numbered, {}});
    if (options.words.empty()) return out;
    words_ = options.words;
    for (auto& one : out) {
      auto const& words = words_[one.name];
      if (words.empty() || words.size() > one.most())
        throw input_error({"table_options::words has ", words.size(), " words for the column ",
                           detail::in_quotes(one.name), "; it takes 1 to ", one.most()});
      one.words = detail::numbers_of(words);
    }
    for (auto const& [name, words] : options.words)
      if (std::none_of(out.begin(), out.end(), [&](auto const& one) { return one.name == name; }))
        throw input_error({"table_options::words has words for the column ",
                           detail::in_quotes(name), ", which is in neither one_hot nor numbered"});
    return out;
  }

  /// Finds the words of each word column in all rows, beginning with the reader's current row.
  void find_words(detail::csv_reader rows, std::vector<std::string> const& names,
                  detail::missing_cells const& missing, std::vector<word_column>& columns) {
    do
      for (std::size_t i = 0; i < std::min(names.size(), rows.cells()); ++i) {
        if (roles_[i] != role::one_hot && roles_[i] != role::numbered) continue;
        auto& column = columns[places_[i]];
        auto const text = rows.cell(i);
        if (column.words.find(text) != column.words.end() || missing.has(text)) continue;
        if (column.words.size() == column.most())
          cell_of_row{text, names[i], rows}.refuse(
              ext::concat({"has more than ", column.most(), " words; list the column in ",
                           (roles_[i] == role::one_hot ? ".numbered or .ignored" : ".ignored")}));
        column.words.emplace(text, 0);
      }
    while (rows.next());
    for (auto& column : columns) {
      if (column.words.empty())
        name_.refuse(ext::concat({"has no word in the column ", detail::in_quotes(column.name),
                                  ": all its cells are missing; list the column in .ignored"}));
      auto const& words = words_[column.name] = detail::ordered_words(column.words);
      column.words = detail::numbers_of(words);
    }
  }

  void set_features(std::vector<std::string> const& names, std::string const& hint,
                    std::vector<word_column> const& columns) {
    for (std::size_t i = 0; i < names.size(); ++i)
      if (roles_[i] == role::feature || roles_[i] == role::numbered)
        feature_names_.push_back(names[i]);
      else if (roles_[i] == role::one_hot)
        for (auto const& word : words_[columns[places_[i]].name])
          feature_names_.push_back(ext::concat({names[i], "=", word}));
    if (feature_names_.empty())
      name_.refuse(ext::concat(
          {"has ", names.size(),
           " columns, all of which are targets or ignored, so no column is left for features",
           hint}));
  }

  [[nodiscard]] std::size_t column(std::vector<std::string> const& names, std::string const& name,
                                   std::string const& hint) const {
    auto const found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) {
      for (std::size_t i = 0; i < names.size(); ++i)
        if (name == ext::concat({"#", i})) return i;
      name_.refuse(ext::concat({"has no column ", detail::in_quotes(name), "; its columns are ",
                                detail::list_of(names), hint}));
    }
    auto const place = static_cast<std::size_t>(found - names.begin());
    if (auto const other = std::find(found + 1, names.end(), name); other != names.end())
      name_.refuse(ext::concat({"has two columns ", detail::in_quotes(name), "; write '#", place,
                                "' or '#", other - names.begin(), "', their places"}));
    return place;
  }

  /// Reads a cell as a number, or as nan if it is missing.
  template <class Number>
  [[nodiscard]] static Number number(cell_of_row const& cell, detail::missing_cells const& missing,
                                     char const* otherwise) {
    if (missing.lists(cell.text)) return std::numeric_limits<Number>::quiet_NaN();
    auto const found = detail::number_of_cell(cell.text);
    if (!found)
      cell.refuse(ext::concat({"is not a number; ", otherwise,
                               "; list words that mark a missing value in .missing_words"}));
    auto const out = static_cast<Number>(*found);
    if (std::isinf(out))
      cell.refuse(ext::concat({"is not a finite number of ", 8 * sizeof(Number), " bits"}));
    return out;
  }

  void add_number(cell_of_row const& cell, detail::missing_cells const& missing,
                  table_options const& options) {
    T const out =
        number<T>(cell, missing,
                  "list columns of words in .one_hot or .numbered, and unused columns in .ignored");
    features_.push_back(std::isnan(out) ? missing_feature(cell, options) : out);
  }

  void add_word(cell_of_row const& cell, detail::missing_cells const& missing,
                word_column const& column, table_options const& options) {
    auto const found = column.words.find(cell.text);
    bool const is_missing = found == column.words.end();
    if (is_missing && !missing.has(cell.text))
      cell.refuse(ext::concat(
          {"is not one of the words that table_options::words lists for this column: ",
           detail::list_of(words_[column.name]),
           "; train with a table that contains the word, or list the word in .missing_words"}));
    if (column.as == role::numbered) {
      features_.push_back(is_missing ? missing_feature(cell, options)
                                     : static_cast<T>(found->second));
    } else {
      std::size_t const first = features_.size();
      features_.resize(first + column.words.size());
      if (!is_missing) features_[first + found->second] = 1;
    }
  }

  [[nodiscard]] T missing_feature(cell_of_row const& cell, table_options const& options) {
    if (options.missing) return static_cast<T>(*options.missing);
    if (!options.keep_missing)
      cell.refuse(
          "is missing; set table_options::missing to a number that replaces it, or set "
          ".keep_missing = true, so that plait::normalize replaces it by the mean");
    has_missing_ = true;
    return std::numeric_limits<T>::quiet_NaN();
  }

  [[nodiscard]] static Target target_of(cell_of_row const& cell,
                                        detail::missing_cells const& missing,
                                        detail::word_numbers& numbers,
                                        table_options const& options) {
    if constexpr (!has_classes) {
      return number<Target>(cell, missing, "for classes write plait::table<float>");
    } else {
      auto const found = numbers.find(cell.text);
      if (found != numbers.end()) return static_cast<Target>(found->second);
      if (missing.has(cell.text)) return ext::ignored_target;
      if (!options.classes.empty())
        cell.rows.refuse(ext::concat(
            {"has the class ", detail::in_quotes(cell.text), " in the column ",
             detail::in_quotes(cell.column),
             ", which is not one of table_options::classes: ", detail::list_of(options.classes)}));
      if (numbers.size() == std::numeric_limits<std::int32_t>::max())
        cell.rows.refuse(ext::concat({"has one class too many for 32-bit numbers in the column ",
                                      detail::in_quotes(cell.column)}));
      auto const next = numbers.size();
      numbers.emplace(cell.text, next);
      return static_cast<Target>(next);
    }
  }

  /// Sorts the classes, which so far are numbered in the order of their first rows, and renumbers
  /// them.
  void set_classes(detail::word_numbers const& numbers, table_options const& options) {
    if (numbers.empty())
      name_.refuse(
          ext::concat({"has no class in the column ", detail::in_quotes(options.targets[0]),
                       ": all its cells are missing"}));
    classes_ = options.classes;
    if (!classes_.empty()) return;
    classes_ = detail::ordered_words(numbers);
    std::vector<std::int32_t> now(numbers.size());
    for (std::size_t i = 0; i < classes_.size(); ++i)
      now[numbers.at(classes_[i])] = static_cast<std::int32_t>(i);
    for (auto& one : targets_)
      if (one != ext::ignored_target) one = now[static_cast<std::size_t>(one)];
  }

  detail::file_name name_;
  std::string file_;
  std::vector<role> roles_;          // the role of each column
  std::vector<std::size_t> places_;  // each column's index among the columns of its role
  std::vector<std::string> feature_names_, classes_;
  std::map<std::string, std::vector<std::string>> words_;
  bool has_missing_ = false;
  std::vector<T> features_;
  std::vector<Target> targets_;
  std::size_t target_width_ = 1;
};

static_assert(ext::feature_dataset<table<float>> && ext::feature_dataset<table<double, double>>);

}  // namespace plait
