// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/elastic/replicas.hpp"

#include <algorithm>
#include <cstddef>

namespace plait::detail {

PLAIT_DECL bool has_all_blocks(std::vector<replica_candidate> const& of, int blocks) {
  for (int block = 0; block < blocks; ++block)
    if (std::ranges::find(of, block, &replica_candidate::block) == of.end()) return false;
  return true;
}

PLAIT_DECL std::vector<std::string> make_replicas(std::vector<replica_candidate> const& of,
                                                  int blocks, int count) {
  std::vector<replica_candidate const*> places(std::size_t(blocks) * std::size_t(count));
  std::vector<char> is_taken(of.size());
  auto const take = [&](int replica, int block, auto fits) {
    auto& place = places[std::size_t(replica * blocks + block)];
    // First the hosts that the replica already uses, then any host.
    for (bool const here : {true, false})
      for (std::size_t i = 0; i < of.size() && place == nullptr; ++i) {
        if (is_taken[i] || !fits(of[i])) continue;
        bool is_beside = !here;
        for (int other = 0; other < blocks && !is_beside; ++other)
          if (auto const* const one = places[std::size_t(replica * blocks + other)])
            is_beside = one->host == of[i].host;
        if (!is_beside) continue;
        place = &of[i];
        is_taken[i] = true;
      }
  };
  for (int replica = 0; replica < count; ++replica)
    for (int block = 0; block < blocks; ++block)
      take(replica, block, [&](auto const& one) { return one.block == block; });
  for (bool const stateless : {true, false})
    for (int replica = 0; replica < count; ++replica)
      for (int block = 0; block < blocks; ++block)
        if (places[std::size_t(replica * blocks + block)] == nullptr)
          take(replica, block, [&](auto const& one) { return (one.block < 0) == stateless; });
  std::vector<std::string> out;
  for (auto const* const one : places)
    if (one != nullptr) out.push_back(one->uid);
  return out;
}

}  // namespace plait::detail
