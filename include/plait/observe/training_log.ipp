// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/observe/training_log.hpp"

namespace plait::detail {

PLAIT_DECL std::string path_of_rank(std::string path, int rank) {
  if (rank < 0) return path;
  auto const name = path.rfind('/') + 1;
  auto const end = path.rfind('.');  // a dot at the beginning of a name does not begin an extension
  auto const at = end == std::string::npos || end <= name ? path.size() : end;
  return path.insert(at, concat({".rank", rank}));
}

}  // namespace plait::detail
