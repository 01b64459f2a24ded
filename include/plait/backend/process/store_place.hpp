// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string_view>

#include "plait/backend/process_ranks.hpp"
#include "plait/core/header_only.hpp"

namespace plait::detail {

/// The path of the file or folder through which processes connect to each other.
struct store_place {
  std::filesystem::path path;
  bool is_of_one_start = false;  ///< true if no other start of a job will use this path
};

/// Returns `given` if it is not empty, else PLAIT_RENDEZVOUS; empty if neither is set.
[[nodiscard]] std::filesystem::path store_place_of_user(std::filesystem::path const& given);

/// Returns the user's choice or, if there is none and one launcher has started all processes on
/// this machine, a path in the temporary folder. `user`: the component that needs the path, such as
/// "gloo"; `kind`: "file" or "folder"; `otherwise`: another remedy, for the error text.
///
/// Errors: input_error, with a list of remedies, if neither path is available.
[[nodiscard]] [[gnu::cold]] store_place find_store_place(process_ranks const& here,
                                                         std::filesystem::path const& given,
                                                         std::string_view user,
                                                         std::string_view kind,
                                                         std::string_view otherwise);

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/process/store_place.ipp"
#endif
