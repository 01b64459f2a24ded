// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "plait/core/header_only.hpp"

namespace plait::detail {

/// A process that may become a rank.
struct replica_candidate {
  std::string uid, host;
  int block = -1;  ///< the part of the model whose state it has, or -1
};

/// Returns true if each block of a replica is held by a candidate.
[[nodiscard]] bool has_all_blocks(std::vector<replica_candidate> const& of, int blocks);

/// Returns the members of `count` replicas, replica after replica, each in the order of its blocks.
/// A candidate with the state of a block keeps that block if there is room; the other places go to
/// the oldest candidates left. Members of a replica are on one host if possible.
///
/// There are at least blocks * count candidates, the oldest first. For one replica it is enough
/// that they hold each block.
[[nodiscard]] [[gnu::cold]] std::vector<std::string> make_replicas(
    std::vector<replica_candidate> const& of, int blocks, int count);

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/elastic/replicas.ipp"
#endif
