// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string_view>

#include "plait/backend/process_ranks.hpp"
#include "plait/core/header_only.hpp"

namespace plait::detail {

/// The place in which processes meet.
struct store_place {
  std::filesystem::path path;
  bool is_of_one_start = false;  ///< no other start of a job will ever use it
};

/// Returns `given` if it is not empty, else PLAIT_RENDEZVOUS; empty if neither is set.
[[nodiscard]] std::filesystem::path store_place_of_user(std::filesystem::path const& given);

/// Returns the user's choice, else a path in the temporary folder if one launcher has started all
/// processes on this machine. `user`: "gloo"; `kind`: "file" or "folder"; `otherwise`: another way
/// out, for the error text.
///
/// Errors: input_error that lists the choices if there is no place.
[[nodiscard]] [[gnu::cold]] store_place find_store_place(process_ranks const& here,
                                                         std::filesystem::path const& given,
                                                         std::string_view user,
                                                         std::string_view kind,
                                                         std::string_view otherwise);

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/process/store_place.ipp"
#endif
