// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string_view>

#include "plait/backend/process_ranks.hpp"
#include "plait/core/header_only.hpp"

namespace plait::detail {

/// Where processes meet.
struct store_place {
  std::filesystem::path path;
  bool is_of_one_start = false;  ///< nobody else will ever use it
};

/// `given`, if it is not empty, else PLAIT_RENDEZVOUS; empty if the user has said nothing.
[[nodiscard]] std::filesystem::path store_place_of_user(std::filesystem::path const& given);

/// What the user has said, else a path in the temporary folder where one launcher has started all
/// processes on this machine. `user`: "gloo"; `kind`: "file" or "folder"; `otherwise`: what else
/// could be done, for the error.
///
/// Errors: input_error that says the choices if there is none.
[[nodiscard]] [[gnu::cold]] store_place find_store_place(process_ranks const& here,
                                                         std::filesystem::path const& given,
                                                         std::string_view user,
                                                         std::string_view kind,
                                                         std::string_view otherwise);

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/process/store_place.ipp"
#endif
