// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/run/staging_buffers.hpp"

namespace plait::execution {

PLAIT_DECL block_of_bucket block_in(parameter_layout const& layout, stored_buckets const& at,
                                    int bucket, std::size_t number) {
  auto const b = std::size_t(bucket);
  std::size_t const blocks = at.blocks[b], count = layout.bucket_at(b).elements.count / blocks;
  return {{at.base[b], count}, blocks == 1 ? 0 : number * count};
}

}  // namespace plait::execution
