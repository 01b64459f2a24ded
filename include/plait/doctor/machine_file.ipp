// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/doctor/machine_file.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "plait/core/concat.hpp"
#include "plait/core/quote.hpp"
#include "plait/doctor/machine_fields.hpp"
#include "plait/doctor/machine_rules.hpp"
#include "plait/io/json.hpp"

namespace plait::detail {

inline constexpr char const* machine_version_field = "plait_machine";
inline constexpr std::uint64_t machine_version = 1;
/// The greatest depth of nested lists and objects. The fields of a machine file have at most 5.
inline constexpr int most_depth_of_machine = 16;

template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;

// Returns a value as text for a message.
PLAIT_DECL std::string text_of_value(json_value const& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  std::string const* const text = value.get_ptr<std::string const*>();
  return text != nullptr ? in_quotes(*text) : value.dump();
}

// Fills a machine from JSON. It checks fields and types; mistake_in then checks the values.
class machine_reader {
 public:
  explicit machine_reader(file_name const& file) : file_(file) {}

  [[nodiscard]] ext::machine read(json_value const& value) {
    ext::machine out;
    read_fields(value, out, machine_version_field);
    return out;
  }

  // Reads one field of the current object.
  template <class Field, class... Range>
  void operator()(char const* name, Field& field, Range... range) {
    field_path::part const part(path_, name);
    known_.push_back(name);
    json_value const* const value = find(name);
    if (value != nullptr) read_value(*value, field, range...);
    else if (!is_optional<Field>) file_.refuse(concat({"has no field '", path_.text(), "'"}));
  }

 private:
  [[noreturn]] void refuse(json_value const& value, std::string_view must) const {
    auto const place = path_.text();
    file_.refuse(
        concat({"has ", text_of_value(value), place.empty() ? "" : concat({" for '", place, "'"}),
                "; it must be ", must}));
  }

  [[nodiscard]] json_value const* find(std::string_view name) const {
    json_value const* out = nullptr;
    for (auto const& [key, value] : *members_) {
      if (key != name) continue;
      if (out != nullptr) file_.refuse(concat({"has the field '", path_.text(), "' twice"}));
      out = &value;
    }
    return out;
  }

  // Reads an object; `other`: a field that the caller reads.
  template <class Part>
  void read_fields(json_value const& value, Part& out, std::string_view other = {}) {
    auto const* const members = object_in(value);
    if (members == nullptr) refuse(value, "an object");
    auto const* const outer = std::exchange(members_, members);
    auto const outer_known = std::exchange(known_, {});
    visit_fields(*this, out);
    for (auto const& [key, one] : *members)
      if (key != other && std::find(known_.begin(), known_.end(), key) == known_.end())
        refuse_unknown(key);
    members_ = outer;
    known_ = outer_known;
  }

  [[noreturn]] void refuse_unknown(std::string const& key) const {
    std::string names;
    for (auto const name : known_) names += concat({names.empty() ? "" : ", ", name});
    auto const place = path_.text();
    file_.refuse(concat({"has the unknown field ", in_quotes(key),
                         place.empty() ? "" : concat({" in '", place, "'"}),
                         "; the fields there are: ", names}));
  }

  void read_value(json_value const& value, bool& out) const {
    auto const* const flag = value.get_ptr<json_value::boolean_t const*>();
    if (flag == nullptr) refuse(value, "true or false");
    out = *flag;
  }

  void read_value(json_value const& value, std::string& out, text_range) const {
    if (!take(value, out)) refuse(value, "a text");
  }

  void read_value(json_value const& value, std::uint64_t& out, number_kind kind) const {
    if (!take(value, out)) refuse(value, range_of(kind).text);
  }

  void read_value(json_value const& value, double& out, number_kind kind) const {
    if (!value.is_number()) refuse(value, range_of(kind).text);
    out = value.get<double>();
  }

  template <class Enum>
    requires std::is_enum_v<Enum>
  void read_value(json_value const& value, Enum& out) const {
    auto const words = words_of(Enum{});
    std::string word;
    bool found = false;
    if (take(value, word))
      for (std::size_t i = 0; i < words.size(); ++i)
        if (word == words[i]) {
          out = static_cast<Enum>(i);
          found = true;
        }
    if (!found) refuse(value, concat({"one of these: ", list_of_words(Enum{})}));
  }

  template <class Value, class... Range>
  void read_value(json_value const& value, std::optional<Value>& out, Range... range) {
    if constexpr (std::is_same_v<Value, ext::machine_link>) read_fields(value, out.emplace());
    else read_value(value, out.emplace(), range...);
  }

  void read_value(json_value const& value, std::vector<ext::machine::named_text>& out, list_range) {
    auto const* const members = object_in(value);
    if (members == nullptr) refuse(value, "an object");
    for (auto const& [name, text] : *members) {
      field_path::part const part(path_, out.size());
      read_value(text, out.emplace_back(name, std::string()).value, long_text);
    }
  }

  template <class Element>
  void read_value(json_value const& value, std::vector<Element>& out, list_range) {
    auto const* const list = list_in(value);
    if (list == nullptr) refuse(value, "a list");
    for (auto const& element : *list) {
      field_path::part const part(path_, out.size());
      if constexpr (std::is_same_v<Element, std::size_t>)
        read_value(element, out.emplace_back(), number_kind::cpu);
      else read_fields(element, out.emplace_back());
    }
  }

  void read_value(json_value const& value, ext::machine::link_matrix& out, matrix_of of) {
    auto const* const rows = list_in(value);
    if (rows == nullptr) refuse(value, "a list of rows");
    for (auto const& row : *rows) {
      field_path::part const part(path_, out.size());
      auto const* const numbers = list_in(row);
      if (numbers == nullptr) refuse(row, "a list of numbers");
      auto& out_row = out.emplace_back();
      for (auto const& number : *numbers) {
        field_path::part const column(path_, out_row.size());
        double& one = out_row.emplace_back();
        if (number.is_null()) continue;
        read_value(number, one, of.kind);
        if (one == 0) refuse(number, concat({range_of(of.kind).text, ", or null"}));
      }
    }
  }

  file_name const& file_;
  field_path path_;
  json_object const* members_ = nullptr;  // the current object
  std::vector<std::string_view> known_;   // its fields
};

// Writes a machine as text. Each element of a list of objects begins a line, and so does each row
// of a matrix.
class machine_writer {
 public:
  [[nodiscard]] std::string text(ext::machine const& of) {
    out_ = concat({"{\n  \"", machine_version_field, "\": ", machine_version});
    separator_ = ",\n  ";
    visit_fields(*this, of);
    out_ += "\n}\n";
    return out_;
  }

  template <class Field, class... Range>
  void operator()(char const* name, Field const& field, Range...) {
    if constexpr (is_optional<Field>) {
      if (field) write_field(name, *field);
    } else {
      write_field(name, field);
    }
  }

 private:
  template <class Field>
  void write_field(char const* name, Field const& field) {
    out_ += concat({separator_, "\"", name, "\": "});
    if (separator_ == "{") separator_ = ", ";
    write(field);
  }

  void write(bool value) { out_ += value ? "true" : "false"; }
  void write(std::uint64_t value) { out_ += concat({value}); }
  void write(double value) { out_ += json_value(value).dump(); }
  void write(std::string const& value) { out_ += json_value(value).dump(); }
  void write(ext::machine_link const& value) { write_object(value); }

  template <class Enum>
    requires std::is_enum_v<Enum>
  void write(Enum value) {
    write(std::string(word_of(value)));
  }

  void write(std::vector<std::size_t> const& list) {
    write_list(list, "[", "]", ", ", [&](std::size_t value) { write(value); });
  }

  void write(std::vector<ext::machine::named_text> const& list) {
    write_list(list, "{", "}", ", ", [&](auto const& one) {
      write(one.name);
      out_ += ": ";
      write(one.value);
    });
  }

  template <class Part>
  void write(std::vector<Part> const& list) {
    in_lines(list, [&](Part const& part) { write_object(part); });
  }

  void write(ext::machine::link_matrix const& rows) {
    in_lines(rows, [&](auto const& row) {
      write_list(row, "[", "]", ", ", [&](double value) {
        if (value == 0) out_ += "null";
        else write(value);
      });
    });
  }

  template <class Part>
  void write_object(Part const& of) {
    auto const outer = std::exchange(separator_, "{");
    visit_fields(*this, of);
    separator_ = outer;
    out_ += '}';
  }

  // Writes a list with each element in a line of its own.
  template <class List, class Write>
  void in_lines(List const& list, Write write_one) {
    if (list.empty()) {
      out_ += "[]";
      return;
    }
    auto const outer = indent_;
    indent_ += "  ";
    write_list(list, concat({"[", indent_}), concat({outer, "]"}), concat({",", indent_}),
               write_one);
    indent_ = outer;
  }

  template <class List, class Write>
  void write_list(List const& list, std::string_view begin, std::string_view end,
                  std::string_view between, Write write_one) {
    out_ += begin;
    bool begins_list = true;
    for (auto const& one : list) {
      if (!std::exchange(begins_list, false)) out_ += between;
      write_one(one);
    }
    out_ += end;
  }

  std::string out_;
  std::string indent_ = "\n  ";  // the beginning of a line at the current depth
  std::string separator_;        // the characters in front of the next field
};

PLAIT_DECL ext::machine parse_machine(std::string const& text, file_name const& file) {
  if (is_nested_deeper(text, most_depth_of_machine))
    file.refuse(concat({"has lists and objects that are nested more than ", most_depth_of_machine,
                        " deep, so it is not a machine file"}));
  auto const json = read_json(text, most_machine_bytes, file);
  auto const* const version = member_of(&json, machine_version_field);
  if (version == nullptr)
    file.refuse(concat({"is not a machine file: it has no field '", machine_version_field, "'"}));
  refuse_repeated(*object_in(json), file);
  std::uint64_t number = 0;
  if (!take(*version, number) || number != machine_version)
    file.refuse(concat({"has ", text_of_value(*version), " for '", machine_version_field,
                        "'; this version of plait reads only version ", machine_version}));
  auto out = machine_reader(file).read(json);
  auto const mistake = mistake_in(out);
  if (!mistake.empty()) file.refuse(concat({"has ", mistake}));
  return out;
}

PLAIT_DECL std::string text_of_machine(ext::machine const& of, file_name const& file) {
  auto const mistake = mistake_in(of);
  if (!mistake.empty()) file.refuse(concat({"cannot be written: the machine has ", mistake}));
  auto text = machine_writer().text(of);
  if (text.size() > most_machine_bytes)
    file.refuse(concat({"cannot be written: it would have ", text.size(), " bytes; at most ",
                        most_machine_bytes, " are allowed"}));
  return text;
}

}  // namespace plait::detail

namespace plait::ext {

PLAIT_DECL machine read_machine(std::string const& path) {
  detail::open_file const file(path, "machine file");
  if (file.size() > detail::most_machine_bytes)
    file.name().refuse(concat(
        {"has ", file.size(), " bytes; at most ", detail::most_machine_bytes, " are allowed"}));
  std::string text(file.size(), '\0');
  file.read(std::as_writable_bytes(std::span(text)), 0);
  return detail::parse_machine(text, file.name());
}

PLAIT_DECL void write_machine(std::string const& path, machine const& of) {
  auto const text = detail::text_of_machine(of, detail::file_name("machine file", path));
  detail::partial_file file(path, "machine file");
  file.write(std::as_bytes(std::span(text)), 0);
  file.commit();
}

}  // namespace plait::ext
