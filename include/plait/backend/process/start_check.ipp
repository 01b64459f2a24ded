// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/process/start_check.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "plait/backend/process/process_mark.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/hash.hpp"
#include "plait/core/quote.hpp"
#include "plait/version.hpp"

namespace plait::detail {

PLAIT_DECL shown_terms shown_terms::of(start_terms const& terms) {
  shown_terms out;
  out.version = PLAIT_VERSION_MAJOR * 1'000'000 + PLAIT_VERSION_MINOR * 1'000 + PLAIT_VERSION_PATCH;
  out.reduction = terms.reduction;
  out.streams = terms.streams;
  out.is_one_thread = terms.is_one_thread ? 1 : 0;
  out.compares_calls = terms.compares_calls ? 1 : 0;
  out.require_local = terms.require_local.bits;
  out.world_size = terms.groups.grid().world_size();
  out.first_here = terms.first_here;
  for (auto const over : terms.groups.sets()) out.sets |= std::uint64_t{1} << over.bits;
  out.token = hash().add(terms.token).value();
  auto const put = [](std::string const& text, auto& in) {
    std::copy_n(text.begin(), std::min(text.size(), in.size() - 1), in.begin());
  };
  auto const here = process_mark::here();
  put(to_string(terms.groups.grid()), out.mesh);
  put(here.host, out.host);
  put(here.boot, out.boot);
  return out;
}

PLAIT_DECL std::string shown_terms::version_text(std::int32_t version) {
  return concat({version / 1'000'000, ".", version / 1'000 % 1'000, ".", version % 1'000});
}

PLAIT_DECL std::string shown_terms::text_of_sets(std::uint64_t sets) {
  std::string text;
  for (unsigned bits = 1; bits < axis_set_count; ++bits) {
    if ((sets >> bits & 1) == 0) continue;
    axis_set over;
    over.bits = bits;
    text += (text.empty() ? "" : ", ") + to_string(over);
  }
  return text.empty() ? "none" : text;
}

PLAIT_DECL std::string shown_terms::difference(shown_terms const& other, int rank) const {
  auto const say = [&](std::string const& what, std::string const& mine,
                       std::string const& theirs) {
    return concat({what, ": ", mine, " on rank 0, ", theirs, " on rank ", rank});
  };
  auto const quoted = [](auto const& text) {
    return concat({"'", sentence_of_another(text.data()), "'"});
  };
  if (version != other.version)
    return say("the version of plait", version_text(version), version_text(other.version));
  if (std::strcmp(mesh.data(), other.mesh.data()) != 0)
    return say("the mesh of the plan", quoted(mesh), quoted(other.mesh));
  if (sets != other.sets)
    return say("the axes that the jobs communicate over", text_of_sets(sets),
               text_of_sets(other.sets));
  auto const mode = [](std::int32_t which) {
    return std::string(which == 0 ? "ranked" : "library");
  };
  if (reduction != other.reduction)
    return say(".reduction", mode(reduction), mode(other.reduction));
  auto const when = [](std::int32_t which) {
    return std::string(which == 0 ? "concurrent" : "in_turn");
  };
  if (streams != other.streams) return say(".streams", when(streams), when(other.streams));
  if (compares_calls != other.compares_calls)
    return say(".compare_calls", std::to_string(compares_calls),
               std::to_string(other.compares_calls));
  if (require_local != other.require_local) {
    auto const local = [](std::uint64_t bits) {
      axis_set over;
      over.bits = static_cast<unsigned>(bits);
      return bits == 0 ? std::string("no axis") : to_string(over);
    };
    return say(".require_local", local(require_local), local(other.require_local));
  }
  if (token != other.token)
    return concat({"the token, of which rank ", rank,
                   " has another value than rank 0 (the values are not shown)"});
  return "";
}

PLAIT_DECL host_map hosts_of(std::vector<shown_terms> const& all) {
  std::vector<std::string> names;
  for (auto const& each : all) {
    auto const first = static_cast<std::size_t>(each.first_here);
    auto const& one = each.first_here < 0 || first >= all.size() ? each : all[first];
    bool const is_taken = std::ranges::any_of(all, [&](auto const& other) {
      return one.host == other.host && std::strcmp(one.boot.data(), other.boot.data()) != 0;
    });
    auto const name = std::string(one.host.data()) +
                      (is_taken ? concat({"/", std::string(one.boot.data()).substr(0, 8)}) : "");
    names.push_back(sentence_of_another(name));
  }
  return host_map(std::move(names));
}

PLAIT_DECL start_rendezvous meet_at_start(process_group& world, int processes,
                                          start_terms const& terms) {
  auto const mine = shown_terms::of(terms);
  std::vector<shown_terms> all(static_cast<std::size_t>(processes));
  world.all_gather(&mine, all.data(), sizeof mine);
  for (auto& each : all) each.mesh.back() = each.host.back() = each.boot.back() = '\0';
  for (int rank = 1; rank < processes; ++rank)
    if (auto const found = all[0].difference(all[std::size_t(rank)], rank); !found.empty())
      return {concat({"processes: the ranks have different settings: ", found,
                      "; start all ranks by one command, with one program and the same options"}),
              {}};
  auto const found = std::ranges::find(all, 1, &shown_terms::is_one_thread);
  return {"", hosts_of(all), found == all.end() ? -1 : static_cast<int>(found - all.begin())};
}

}  // namespace plait::detail
