// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/doctor/finding.hpp"

#include "plait/core/concat.hpp"
#include "plait/core/quote.hpp"
#include "plait/mesh/ranks_text.hpp"

namespace plait::detail::doctor {

PLAIT_DECL std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (;;) {
    auto const end = text.find('\\');
    for (char const each : escaped(text.substr(0, end))) {
      if (each == '"' || each == '\\') out += '\\';
      out += each;
    }
    if (end == std::string_view::npos) return out += '"';
    out += "\\\\";
    text.remove_prefix(end + 1);
  }
}

}  // namespace plait::detail::doctor

namespace plait::ext {

PLAIT_DECL std::string_view to_string(finding_severity of) {
  switch (of) {
    case finding_severity::note: return "note";
    case finding_severity::slow: return "slow";
    case finding_severity::fails: return "fails";
  }
  return "unknown";
}

PLAIT_DECL std::string finding::text() const {
  std::string out = ranks.empty() ? "all ranks" : ranks_text(ranks);
  if (!host.empty()) out += concat({" (host ", host, ")"});
  out += concat({": ", measured});
  if (!expected.empty()) out += concat({"; expected: ", expected});
  if (!what_to_do.empty()) out += concat({"; ", what_to_do});
  return detail::sentence_of_another(out);
}

PLAIT_DECL std::string finding::json() const {
  using detail::doctor::json_string;
  std::string numbers;
  for (int const rank : ranks) numbers += concat({numbers.empty() ? "" : ", ", rank});
  return concat({"{\"id\": ", json_string(id), ", \"severity\": ", json_string(to_string(severity)),
                 ", \"ranks\": [", numbers, "], \"host\": ", json_string(host), ", \"measured\": ",
                 json_string(measured), ", \"expected\": ", json_string(expected),
                 ", \"what_to_do\": ", json_string(what_to_do), "}"});
}

}  // namespace plait::ext
