// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plait/backend/process/process_engine.hpp"
#include "plait/backend/process/process_mark.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/digest.hpp"
#include "plait/core/error.hpp"
#include "plait/core/quote.hpp"
#include "plait/mesh/groups.hpp"
#include "plait/mesh/hosts.hpp"
#include "plait/version.hpp"

namespace plait::detail {

/// What processes must have been told alike before they talk.
struct start_terms {
  mesh_groups const& groups;
  int reduction = 0;
  int streams = 0;
  bool is_one_thread = false;  ///< the engine serves no second one
  bool compares_calls = true;
  std::string_view token{};
  axis_set require_local{};
  int first_here = -1;  ///< as in process_ranks
};

/// The same, as each process shows it to the others, and the machine that it is on. A token is
/// shown as a number made of it.
struct shown_terms {
  std::int32_t version = 0, reduction = 0, streams = 0, is_one_thread = 0, compares_calls = 0,
               world_size = 0, first_here = -1;
  std::uint64_t sets = 0, token = 0, require_local = 0;
  std::array<char, 96> mesh{};
  std::array<char, 72> host{}, boot{};

  static shown_terms of(start_terms const& terms) {
    shown_terms out;
    out.version =
        PLAIT_VERSION_MAJOR * 1'000'000 + PLAIT_VERSION_MINOR * 1'000 + PLAIT_VERSION_PATCH;
    out.reduction = terms.reduction;
    out.streams = terms.streams;
    out.is_one_thread = terms.is_one_thread ? 1 : 0;
    out.compares_calls = terms.compares_calls ? 1 : 0;
    out.require_local = terms.require_local.bits;
    out.world_size = terms.groups.grid().world_size();
    out.first_here = terms.first_here;
    for (auto const over : terms.groups.sets()) out.sets |= std::uint64_t{1} << over.bits;
    out.token = digest().add(terms.token).value();
    auto const put = [](std::string const& text, auto& in) {
      std::copy_n(text.begin(), std::min(text.size(), in.size() - 1), in.begin());
    };
    auto const here = process_mark::here();
    put(to_string(terms.groups.grid()), out.mesh);
    put(here.host, out.host);
    put(here.boot, out.boot);
    return out;
  }

  static std::string version_text(std::int32_t version) {
    return concat({version / 1'000'000, ".", version / 1'000 % 1'000, ".", version % 1'000});
  }

  /// "data, data x tensor"
  static std::string text_of_sets(std::uint64_t sets) {
    std::string text;
    for (unsigned bits = 1; bits < axis_set_count; ++bits) {
      if ((sets >> bits & 1) == 0) continue;
      axis_set over;
      over.bits = bits;
      text += (text.empty() ? "" : ", ") + to_string(over);
    }
    return text.empty() ? "none" : text;
  }

  /// "the mesh: 'data 2' on rank 0, 'data 4' on rank 1", or "" if all is alike.
  [[nodiscard]] std::string difference(shown_terms const& other, int rank) const {
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
                     " was given another than rank 0 (they are not shown)"});
    return "";
  }
};

/// What processes learn of each other when they meet.
struct start_rendezvous {
  std::string difference;  ///< the sentence that says the first of what they were told, or ""
  host_map hosts;          ///< of each process
  int of_one_thread =
      -1;  ///< the first process whose engine serves one thread, -1 if there is none
};

/// A host is one kernel under one name: containers with names of their own are hosts of their own
/// unless MPI says that they share memory, and of two machines with one name the second is told
/// apart by its boot.
[[nodiscard]] [[gnu::cold]] inline host_map hosts_of(std::vector<shown_terms> const& all) {
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

/// Compares what all processes of the world were told; the result is the same on all.
[[nodiscard]] [[gnu::cold]] inline start_rendezvous meet_at_start(process_group& world,
                                                                  int processes,
                                                                  start_terms const& terms) {
  auto const mine = shown_terms::of(terms);
  std::vector<shown_terms> all(static_cast<std::size_t>(processes));
  world.all_gather(&mine, all.data(), sizeof mine);
  for (auto& each : all) each.mesh.back() = each.host.back() = each.boot.back() = '\0';
  for (int rank = 1; rank < processes; ++rank)
    if (auto const found = all[0].difference(all[std::size_t(rank)], rank); !found.empty())
      return {concat({"processes: the ranks were not told the same: ", found,
                      "; start all by one command, with one program and the same options"}),
              {}};
  auto const found = std::ranges::find(all, 1, &shown_terms::is_one_thread);
  return {"", hosts_of(all), found == all.end() ? -1 : static_cast<int>(found - all.begin())};
}

}  // namespace plait::detail
