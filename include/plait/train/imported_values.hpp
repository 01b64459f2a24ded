// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "plait/core/error.hpp"
#include "plait/core/quote.hpp"
#include "plait/train/agreement.hpp"
#include "plait/train/set_up_checks.hpp"

namespace plait::execution {

/// What a rank has imported of a parameter.
struct imported_values {
  static constexpr std::uint64_t absent = 0;  ///< the rank has no such parameter
  static constexpr std::uint64_t kept = 1;    ///< the source has left it as it was

  std::string name;
  std::uint64_t digest = kept;  ///< of the whole values
};

/// `all`: the digest on each rank, `agreed_fields` apart.
///
/// Errors: input_error if there are two on ranks that have the parameter.
[[gnu::cold]] inline void require_equal_values(std::string const& trainer, std::string const& name,
                                               std::span<std::uint64_t const> all) {
  auto const said = [&](std::size_t at) {
    char digits[32];
    std::snprintf(digits, sizeof digits, "digest %016llx",
                  static_cast<unsigned long long>(all[at]));
    return (all[at] == imported_values::kept ? "left as it was" : std::string(digits)) +
           " on rank " + std::to_string(at / agreed_fields);
  };
  std::size_t first = 0;
  while (first < all.size() && all[first] == imported_values::absent) first += agreed_fields;
  for (std::size_t at = first; at < all.size(); at += agreed_fields)
    if (all[at] != imported_values::absent && all[at] != all[first])
      throw input_error(trainer + ": import_parameters: the ranks differ in the values of " +
                        in_quotes(name) + ": " + said(first) + ", " + said(at) +
                        "; the source gives the same whole values on every rank");
}

/// Sees to it that all ranks have imported the same values of each parameter that they have.
///
/// Errors: input_error that names the first that differs, on all ranks.
template <class Plan, class Rank>
[[gnu::cold]] void compare_imported(Rank& rank, agreement_room const& room,
                                    std::string const& trainer,
                                    std::vector<imported_values> const& mine) {
  auto const parameters = parameters_of_model<Plan>(rank.grid());
  for (std::size_t begin = 0; begin < parameters.size(); begin += agreed_fields) {
    std::size_t const count = std::min<std::size_t>(agreed_fields, parameters.size() - begin);
    std::vector<std::uint64_t> digests(agreed_fields, imported_values::absent);
    for (std::size_t i = 0; i < count; ++i)
      for (auto const& [name, digest] : mine)
        if (name == parameters[begin + i].name) digests[i] = digest;
    auto const all = numbers_of_all(rank, room, digests);
    for (std::size_t i = 0; i < count; ++i)
      require_equal_values(trainer, parameters[begin + i].name, std::span(all).subspan(i));
  }
}

}  // namespace plait::execution
