// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/doctor/rule_parts.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <iterator>
#include <utility>

#include "plait/core/concat.hpp"
#include "plait/core/quote.hpp"
#include "plait/mesh/ranks_text.hpp"

namespace plait::detail::doctor {

PLAIT_DECL finding_words finding_words::unread(std::string_view what, std::string const& problem) {
  return {.measured = concat({what, ": not checked (", problem, ")"}),
          .severity = finding_severity::note};
}

PLAIT_DECL finding about(std::vector<host_settings const*> const& of, std::string_view id,
                         finding_words words) {
  finding out{.id = std::string(id),
              .severity = words.severity,
              .measured = std::move(words.measured),
              .expected = std::move(words.expected),
              .what_to_do = std::move(words.what_to_do)};
  if (!of.empty()) out.host = of.front()->host;
  for (auto const* const each : of) {
    out.ranks.push_back(each->rank);
    if (each->host != out.host) out.host.clear();
  }
  std::sort(out.ranks.begin(), out.ranks.end());
  return out;
}

PLAIT_DECL std::vector<finding> of_each_rank(
    all_settings const& all, std::string_view id,
    function_reference<finding_words(host_settings const&)> rule) {
  std::vector<finding> out;
  for (auto const& each : all) {
    auto words = rule(each);
    if (words.measured.empty()) continue;
    auto found = about({&each}, id, std::move(words));
    auto const same = std::find_if(out.begin(), out.end(), [&](finding const& other) {
      bool const may_join = other.host == found.host || found.severity == finding_severity::note;
      return may_join && other.measured == found.measured && other.expected == found.expected &&
             other.severity == found.severity;
    });
    if (same == out.end()) {
      out.push_back(std::move(found));
    } else {
      same->ranks.push_back(each.rank);
      std::sort(same->ranks.begin(), same->ranks.end());
      if (same->host != found.host) same->host.clear();
    }
  }
  return out;
}

PLAIT_DECL std::vector<finding> of_each_common_value(
    all_settings const& all, std::string_view id, std::string_view what,
    function_reference<reading<common_value>(host_settings const&)> value,
    function_reference<finding_words(host_settings const&)> rule) {
  struct common_ranks {
    std::vector<host_settings const*> of{};
    common_value greatest{};
    host_settings const* with_greatest = nullptr;
  };
  auto out = of_each_rank(all, id, [&](host_settings const& of) {
    auto const found = value(of);
    return found.is_known() ? finding_words{} : finding_words::unread(what, found.problem());
  });
  std::vector<common_ranks> groups;
  for (auto const& each : all) {
    auto const found = value(each);
    if (!found.is_known()) continue;
    auto same = std::find_if(groups.begin(), groups.end(), [&](auto const& other) {
      return other.of[0]->host == each.host && other.greatest.group == found.value().group;
    });
    if (same == groups.end()) same = groups.insert(same, {{}, found.value(), &each});
    same->of.push_back(&each);
    if (found.value().amount <= same->greatest.amount) continue;
    same->greatest = found.value();
    same->with_greatest = &each;
  }
  for (auto const& each : groups)
    if (auto words = rule(*each.with_greatest); !words.measured.empty())
      out.push_back(about(each.of, id, std::move(words)));
  return out;
}

PLAIT_DECL std::vector<finding> unlike(
    all_settings const& all, std::string_view id, std::string_view what,
    finding_words const& advice,
    function_reference<reading<std::string>(host_settings const&)> value) {
  struct variant {
    std::string text;
    std::vector<host_settings const*> of;
  };
  std::vector<host_settings const*> ranks;
  for (auto const& each : all) ranks.push_back(&each);
  std::sort(ranks.begin(), ranks.end(),
            [](auto const* a, auto const* b) { return a->rank < b->rank; });
  std::vector<variant> variants;
  for (auto const* const each : ranks) {
    auto const found = value(*each);
    if (!found.is_known()) continue;
    auto same = std::find_if(variants.begin(), variants.end(),
                             [&](auto const& other) { return other.text == found.value(); });
    if (same == variants.end()) same = variants.insert(same, {found.value(), {}});
    same->of.push_back(each);
  }
  auto out = of_each_rank(all, id, [&](host_settings const& of) {
    auto const found = value(of);
    return found.is_known() ? finding_words{} : finding_words::unread(what, found.problem());
  });
  auto const usual =
      std::max_element(variants.begin(), variants.end(),
                       [](auto const& a, auto const& b) { return a.of.size() < b.of.size(); });
  for (auto const& each : variants) {
    if (&each == &*usual) continue;
    std::vector<int> others;
    for (auto const* const of : usual->of) others.push_back(of->rank);
    auto words = advice;
    words.measured = concat({what, ": ", in_quotes(each.text)});
    words.expected = concat({in_quotes(usual->text), ", as on ", ranks_text(others)});
    out.push_back(about(each.of, id, std::move(words)));
  }
  return out;
}

PLAIT_DECL std::vector<std::vector<host_settings const*>> by_host(all_settings const& all) {
  std::vector<std::vector<host_settings const*>> out;
  for (auto const& each : all) {
    auto same = std::find_if(out.begin(), out.end(),
                             [&](auto const& other) { return other[0]->host == each.host; });
    if (same == out.end()) same = out.insert(same, std::vector<host_settings const*>{});
    same->push_back(&each);
  }
  return out;
}

PLAIT_DECL std::string bytes_text(std::uint64_t bytes) {
  if (bytes == no_limit) return "no limit";
  constexpr std::array units{"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < units.size()) value /= 1024, ++unit;
  char text[48];
  std::snprintf(text, sizeof text, "%.4g %s", value, units[unit]);
  return text;
}

PLAIT_DECL std::string percent_text(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g %%", share * 100);
  return text;
}

PLAIT_DECL std::string cpus_text(std::vector<int> const& cpus) {
  auto const words = rank_ranges(cpus);
  constexpr std::size_t most = 16;
  std::string out = cpus.size() == 1 ? "cpu " : "cpus ";
  for (std::size_t i = 0; i < std::min(words.size(), most); ++i)
    out += concat({i == 0 ? "" : i + 1 < words.size() ? ", " : " and ", words[i]});
  return words.size() > most ? out += ", ..." : out;
}

PLAIT_DECL void append(std::vector<finding>& to, std::vector<finding> more) {
  to.insert(to.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

}  // namespace plait::detail::doctor
