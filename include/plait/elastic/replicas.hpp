// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "plait/core/header_only.hpp"

namespace plait::detail {

/// A process that may become a rank.
struct replica_candidate {
  std::string uid, host;
  int block = -1;  ///< which part of the model it has the state of, -1 for none
};

/// Whether each of the blocks of a replica is held by one of them.
[[nodiscard]] bool has_all_blocks(std::vector<replica_candidate> const& of, int blocks);

/// The members of `count` replicas, one replica behind the other, each in the order of its blocks:
/// who has the state of a block keeps it, as far as there is room; places that are left go to the
/// others, oldest first. Members of a replica are on one host where that can be had.
///
/// There are at least blocks * count candidates, the oldest first; for one replica it is enough
/// that they hold each block.
[[nodiscard]] [[gnu::cold]] std::vector<std::string> make_replicas(
    std::vector<replica_candidate> const& of, int blocks, int count);

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/elastic/replicas.ipp"
#endif
