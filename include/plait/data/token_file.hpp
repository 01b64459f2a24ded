// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>

#include "plait/data/dataset.hpp"
#include "plait/data/token_shards.hpp"

namespace plait {

/// One file of tokens as a data set: token_shards of one file, with the same format, cost and
/// errors.
class token_file : public token_shards {
 public:
  token_file(std::filesystem::path const& path, std::size_t sequence, std::size_t vocabulary)
      : token_shards({path}, {.sequence = sequence, .vocabulary = vocabulary}) {}
};

static_assert(ext::token_dataset<token_file>);

}  // namespace plait
