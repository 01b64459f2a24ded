// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include <nlohmann/json.hpp>

namespace plait::detail {

/// What parsers share that read JSON event by event, so that no tree of it is built. A parser has
/// the library's events for objects, arrays, keys, strings and numbers without a sign, which return
/// whether it shall go on, and:
///   bool other_value()       a value of another kind
///   bool refuse_text(at)     not JSON, or a number too large for its type, at a byte; throws
template <class Parser>
class json_events {
 public:
  using json = nlohmann::json;

  /// Errors: those of the parser.
  void read(std::string const& text) {
    // For the library a 0 would be the end.
    if (auto const zero = text.find('\0'); zero != std::string::npos)
      parser().refuse_text(zero + 1);
    json::sax_parse(text, &parser());
  }

  bool null() { return parser().other_value(); }
  bool boolean(bool) { return parser().other_value(); }
  bool number_integer(json::number_integer_t) { return parser().other_value(); }
  bool number_float(json::number_float_t, std::string const&) { return parser().other_value(); }
  bool binary(json::binary_t&) { return parser().other_value(); }
  template <class Problem>
  bool parse_error(std::size_t at, std::string const&, Problem const&) {
    return parser().refuse_text(at);
  }

 private:
  Parser& parser() { return static_cast<Parser&>(*this); }
};

}  // namespace plait::detail
