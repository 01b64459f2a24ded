// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/doctor/doctor_options.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/file.hpp"
#include "plait/core/quote.hpp"
#include "plait/doctor/machine_fields.hpp"

namespace plait::detail::doctor {

// Reads a whole number from `least` to `most`; returns false for any other text.
PLAIT_DECL bool read_whole(std::string_view text, std::uint64_t least, std::uint64_t most,
                           std::uint64_t& into) {
  constexpr std::size_t most_digits = 18;  // the number is below 2^64
  if (text.empty() || text.size() > most_digits) return false;
  std::uint64_t value = 0;
  for (char const digit : text) {
    if (digit < '0' || digit > '9') return false;
    value = 10 * value + static_cast<std::uint64_t>(digit - '0');
  }
  if (value < least || value > most) return false;
  into = value;
  return true;
}

/// Reads the words of main().
class option_reader {
 public:
  option_reader(int count, char const* const* words) : count_(count), words_(words) {}

  [[nodiscard]] ext::doctor_options read() {
    while (at_ < count_) take_option(words_[at_++]);
    check_together();
    return std::move(out_);
  }

 private:
  using options = ext::doctor_options;

  void take_option(std::string_view word) {
    struct flag {
      std::string_view name;
      bool options::* member;
    };
    constexpr std::array<flag, 4> flags{{{"--full", &options::full},
                                         {"--strict", &options::strict},
                                         {"--json", &options::json},
                                         {"--help", &options::help}}};
    struct file {
      std::string_view name;
      std::string options::* member;
    };
    constexpr std::array<file, 4> files{{{"--store", &options::store},
                                         {"--compare", &options::compare},
                                         {"--svg", &options::svg},
                                         {"--products", &options::products}}};
    name_ = word == "-h" ? "--help" : word;
    for (auto const& [name, member] : flags)
      if (name == name_) return take_name(), void(out_.*member = true);
    for (auto const& [name, member] : files)
      if (name == name_) return void(out_.*member = file_value());
    if (name_ == "--quick") return take_name();
    if (name_ == "--only") return take_parts(value("some of products,memory,links,settings"));
    if (name_ == "--timeout") return take_timeout();
    if (name_ == "-n") return take_ranks();
    if (name_ == "--name") return take_machine_name();
    throw input_error({"unknown option ", in_quotes(word), "; see --help"});
  }

  // Remembers that the option name_ was given, and refuses it the second time.
  void take_name() {
    if (is_given(name_)) throw input_error({name_, " is given twice"});
    given_.push_back(name_);
  }
  [[nodiscard]] bool is_given(std::string_view name) const {
    return std::find(given_.begin(), given_.end(), name) != given_.end();
  }

  std::string_view value(std::string_view what) {
    take_name();
    if (at_ < count_ && *words_[at_] != '\0') return words_[at_++];
    throw input_error({name_, " needs a value: ", what});
  }

  std::string file_value() {
    auto const path = value("the name of a file");
    if (path.front() != '-') return std::string(path);
    throw input_error({name_, " needs the name of a file, got ", in_quotes(path),
                       ", which looks like an option; write './", escaped(path),
                       "' for a file of this name"});
  }

  void take_parts(std::string_view text) {
    constexpr std::string_view known = "products, memory, links, settings";
    auto& only = out_.only;
    only = {.products = false, .memory = false, .links = false, .settings = false};
    for (bool is_last = false; !is_last;) {
      auto const end = text.find(',');
      auto const word = text.substr(0, end);
      auto* const part = word == "products"   ? &only.products
                         : word == "memory"   ? &only.memory
                         : word == "links"    ? &only.links
                         : word == "settings" ? &only.settings
                                              : nullptr;
      if (part == nullptr)
        throw input_error({"--only has the part ", in_quotes(word), "; the parts are: ", known,
                           ", with a comma between two of them"});
      if (*part) throw input_error({"--only has the part ", in_quotes(word), " twice"});
      *part = true;
      is_last = end == std::string_view::npos;
      if (!is_last) text.remove_prefix(end + 1);
    }
  }

  std::uint64_t number(std::string_view what, int most) {
    auto const text = value(what);
    std::uint64_t out = 0;
    if (read_whole(text, 1, static_cast<std::uint64_t>(most), out)) return out;
    throw input_error(
        {name_, " needs a whole number from 1 to ", most, ", ", what, "; got ", in_quotes(text)});
  }

  void take_timeout() {
    auto const seconds = number("the seconds to wait for a rank", options::most_timeout_seconds);
    out_.timeout = std::chrono::milliseconds(1000 * seconds);
  }

  void take_ranks() {
    out_.ranks = static_cast<int>(number("the number of ranks", options::most_ranks));
  }

  void take_machine_name() {
    auto const text = value("the name of the machine");
    if (text.size() > options::most_name_bytes)
      throw input_error(
          {"--name has ", text.size(), " bytes; it may have at most ", options::most_name_bytes});
    if (text.front() == '-')
      throw input_error({"--name needs the name of the machine, got ", in_quotes(text),
                         ", which looks like an option"});
    if (escaped(text) != text)
      throw input_error({"--name is ", in_quotes(text),
                         ", which has a control character, a backslash, or bytes that are not "
                         "UTF-8; write printable characters"});
    out_.name = text;
  }

  void check_together() const {
    if (out_.full && is_given("--quick"))
      throw input_error("--quick and --full contradict each other; leave one out");
    if (!out_.products.empty() && !out_.only.products)
      throw input_error(
          "--products adds products, but --only leaves out this part; add 'products' to --only");
    if (!out_.svg.empty() && !out_.only.links)
      throw input_error(
          "--svg draws the links, but --only leaves out this part; add 'links' to --only");
    if (!out_.svg.empty() && out_.svg == out_.store)
      throw input_error(
          {"--svg and --store both write ", path_in_quotes(out_.svg), "; write two names"});
  }

  int count_, at_ = 1;
  char const* const* words_;
  std::string_view name_{};  ///< the option that is read
  std::vector<std::string_view> given_{};
  ext::doctor_options out_{};
};

/// Reads the lines of a list of products.
class product_reader {
 public:
  explicit product_reader(std::string const& path) : file_("list of products", path) {}

  [[nodiscard]] std::vector<ext::product_shape> read(std::string_view text) {
    if (text.size() > most_bytes)
      file_.refuse(concat({"has ", text.size(), " bytes; it may have at most ", most_bytes}));
    while (!text.empty()) {
      auto const end = text.find('\n');
      take_line(text.substr(0, end));
      text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    }
    if (out_.empty()) file_.refuse(concat({"has no product; write ", form}));
    return std::move(out_);
  }

 private:
  static constexpr std::size_t most_bytes = std::size_t{1} << 20, most_lines = 4096;
  static constexpr std::string_view form =
      "a line such as '512 1024 256 none': rows, columns, inner, and the transposed operand (none, "
      "a or b)";

  void take_line(std::string_view line) {
    if (++line_ > most_lines)
      file_.refuse(concat({"has more than ", most_lines, " lines; measure them in several runs"}));
    auto const words = words_of(line.substr(0, line.find('#')));
    if (words.empty()) return;
    if (words.size() != 4)
      refuse(
          concat({"has ", words.size(), words.size() == 1 ? " word" : " words", "; write ", form}));
    ext::product_shape shape{.rows = length(words[0], "rows"),
                             .columns = length(words[1], "columns"),
                             .inner = length(words[2], "inner")};
    auto const& known = words_of_operands;
    auto const found = std::find(known.begin(), known.end(), words[3]);
    if (found == known.end())
      refuse(concat({"has the transposed operand ", in_quotes(words[3]),
                     "; write one of these: ", list_of_words(shape.transposed)}));
    shape.transposed = static_cast<ext::transposed_operand>(found - known.begin());
    auto const same = std::find(out_.begin(), out_.end(), shape);
    if (same != out_.end())
      refuse(
          concat({"has the product of line ", lines_[static_cast<std::size_t>(same - out_.begin())],
                  " again; remove one of the lines"}));
    out_.push_back(shape);
    lines_.push_back(line_);
  }

  // Returns the words of a line, at most 5 of them.
  static std::vector<std::string_view> words_of(std::string_view line) {
    constexpr std::string_view blanks = " \t\r";
    std::vector<std::string_view> out;
    for (;;) {
      auto const begin = line.find_first_not_of(blanks);
      if (begin == std::string_view::npos || out.size() == 5) return out;
      line.remove_prefix(begin);
      out.push_back(line.substr(0, line.find_first_of(blanks)));
      line.remove_prefix(out.back().size());
    }
  }

  std::size_t length(std::string_view word, char const* of) const {
    auto const [least, most, range] = range_of(number_kind::count);
    std::uint64_t out = 0;
    if (!read_whole(word, static_cast<std::uint64_t>(least), static_cast<std::uint64_t>(most), out))
      refuse(concat({"has ", in_quotes(word), " for ", of, "; write ", range}));
    return out;
  }

  [[noreturn]] void refuse(std::string const& what) const {
    file_.refuse_part(concat({"line ", line_}), what);
  }

  static constexpr auto words_of_operands = detail::words_of(ext::transposed_operand::none);

  file_name file_;
  std::size_t line_ = 0;
  std::vector<ext::product_shape> out_{};
  std::vector<std::size_t> lines_{};  ///< the line of each product
};

}  // namespace plait::detail::doctor

namespace plait::ext {

PLAIT_DECL doctor_options doctor_options_of(int count, char const* const* words) {
  return detail::doctor::option_reader(count, words).read();
}

PLAIT_DECL std::string_view doctor_help() {
  return R"(plait-doctor checks and measures the machines of a job: settings, products, memory and links.
Start it as you start the job, with the same launcher and the same number of ranks.
  --quick               the default: usually at most 20 s for 2 ranks, 60 s for 8
  --full                larger sizes, and more turns of each measurement
  --only PART,PART,...  measure or check only some of products,memory,links,settings (all)
  --products FILE       measure further products, a line 'ROWS COLUMNS INNER none|a|b' for each;
                        the last word is the transposed operand, and # begins a comment
  --store FILE          write the measurements into a machine file
  --compare FILE        compare the measurements with an earlier machine file
  --svg FILE            draw the links (SVG)
  --name NAME           the name of the machine in the machine file (the name of rank 0's host)
  --json                print the report as JSON
  --strict              end with exit code 1 also if there are only notes
  --timeout SECONDS     the time that a process waits for the others, 1 to 86400 (30)
  -n N                  the number of ranks that are threads (one for each processor) or GPUs (all);
                        for processes the launcher decides
  --help                print this
Exit codes: 0 nothing was found, or only notes; 1 something is slower than it should be; 2 wrong
options or files; 3 a job would fail or hang here, or a rank did not come.
)";
}

PLAIT_DECL std::vector<product_shape> product_shapes_of(std::string const& text,
                                                        std::string const& path) {
  return detail::doctor::product_reader(path).read(text);
}

PLAIT_DECL int exit_code_of(std::vector<finding> const& all, bool is_strict) {
  int out = 0;
  for (auto const& each : all) switch (each.severity) {
      case finding_severity::note: out = std::max(out, is_strict ? 1 : 0); break;
      case finding_severity::slow: out = std::max(out, 1); break;
      case finding_severity::fails: out = 3; break;
    }
  return out;
}

}  // namespace plait::ext
