// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "plait/core/header_only.hpp"

namespace plait::detail {

/// A process that may become a rank.
struct replica_candidate {
  std::string uid, host;
  int block = -1;  ///< the block (part of the model) whose state it has, or -1
};

/// Returns true if for each block of a replica there is a candidate with the state of the block.
[[nodiscard]] bool has_all_blocks(std::vector<replica_candidate> const& of, int blocks);

/// Chooses the members of `count` replicas and returns their uids, replica after replica, within a
/// replica in the order of blocks. A candidate with the state of a block keeps that block if a
/// replica still needs it; the other blocks are given to the oldest remaining candidates. Members
/// of a replica are on one host if possible.
///
/// `of` has at least blocks * count candidates, the oldest first. For one replica, it is enough
/// that for each block a candidate has the block's state.
[[nodiscard]] [[gnu::cold]] std::vector<std::string> make_replicas(
    std::vector<replica_candidate> const& of, int blocks, int count);

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/elastic/replicas.ipp"
#endif
