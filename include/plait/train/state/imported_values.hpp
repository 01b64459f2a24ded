// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/hash.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/core/quote.hpp"
#include "plait/train/checks/consistency_check.hpp"
#include "plait/train/checks/set_up_checks.hpp"

namespace plait::execution {

/// The name of a parameter, and a hash of the values that a rank has imported for it.
struct imported_values {
  static constexpr std::uint64_t absent = 0;  ///< the rank has no such parameter
  static constexpr std::uint64_t kept =
      1;  ///< the parameter stays unchanged, because the source has returned false

  /// The part of a parameter that a rank imports: all of it, or the block that the rank holds.
  enum extent { whole, blocks };

  std::string name;
  std::uint64_t hash = kept;  ///< the hash of the values

  template <class T>
  void read(std::vector<T> const& values) {
    auto const number = detail::hash().add_many(std::as_bytes(std::span(values))).value();
    hash = std::max(number, kept + 1);
  }
};

/// Checks that the ranks have imported the same values for a parameter. `all`: the hashes of some
/// parameters on all ranks; `index`: the index of this parameter's hash among the hashes of one
/// rank. `is_same(one, other)`: returns true if two ranks import the same elements of the
/// parameter, so that their hashes must be equal.
///
/// Errors: input_error if two ranks that have the parameter differ.
template <class IsSame>
[[gnu::cold]] void require_equal_values(std::string const& trainer, std::string const& name,
                                        numbers_of_ranks const& all, std::size_t index,
                                        IsSame is_same) {
  auto const hash = [&](std::size_t rank) { return all[rank][index]; };
  auto const said = [&](std::size_t rank) {
    char digits[32];
    std::snprintf(digits, sizeof digits, "hash %016llx",
                  static_cast<unsigned long long>(hash(rank)));
    return concat({(hash(rank) == imported_values::kept ? "left as it was" : std::string(digits)),
                   " on rank ", rank});
  };
  for (std::size_t at = 0; at < all.size(); ++at)
    for (std::size_t first = 0; first < at && hash(at) != imported_values::absent; ++first) {
      if (hash(first) == imported_values::absent) continue;
      bool const same = is_same(int(first), int(at));
      bool const one_kept =
          (hash(first) == imported_values::kept) != (hash(at) == imported_values::kept);
      if (one_kept || (same && hash(first) != hash(at)))
        throw input_error({trainer, ": import_parameters: the ranks differ in the values of ",
                           in_quotes(name), ": ", said(first), ", ", said(at),
                           "; the source must return the same whole values on every rank"});
      if (same) break;  // rank `first` has been compared with all earlier ranks
    }
}

/// Checks, for each parameter, that all ranks that have the parameter have imported the same
/// values. Returns a list with an entry for each parameter of the model: 1 if the parameter has
/// been imported, and 0 otherwise. All ranks get the same list.
///
/// Errors: input_error that names the first parameter that differs, on all ranks.
template <class Plan>
[[gnu::cold]] std::vector<char> compare_imported(number_gather const& gather,
                                                 std::string const& trainer,
                                                 lean_vector<imported_values> const& mine,
                                                 imported_values::extent extent) {
  auto const& grid = gather.grid;
  auto const parameters = parameters_of_model<Plan>(grid);
  std::vector<char> taken(parameters.size());
  for (std::size_t begin = 0; begin < parameters.size(); begin += compared_fields) {
    std::size_t const count = std::min<std::size_t>(compared_fields, parameters.size() - begin);
    std::vector<std::uint64_t> hashes(compared_fields, imported_values::absent);
    for (std::size_t i = 0; i < count; ++i)
      for (auto const& [name, hash] : mine)
        if (name == parameters[begin + i].name) hashes[i] = hash;
    auto const all = gather.of_all(hashes);
    for (std::size_t i = 0; i < count; ++i) {
      auto const& [name, dimensions, cut] = parameters[begin + i];
      auto const over = extent == imported_values::blocks ? cut : axis_set{};
      auto const block_of = [&](int one) { return grid.block_of(grid.coordinates_of(one), over); };
      require_equal_values(trainer, name, all, i,
                           [&](int one, int other) { return block_of(one) == block_of(other); });
      for (std::size_t of = 0; of < all.size(); ++of)
        if (all[of][i] > imported_values::kept) taken[begin + i] = 1;
    }
  }
  return taken;
}

}  // namespace plait::execution
