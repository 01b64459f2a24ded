// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/io/block.hpp"

#include <limits>

#include "plait/core/concat.hpp"

namespace plait::detail {

PLAIT_DECL std::string shape_text(std::span<std::size_t const> shape) {
  std::string out = "(";
  for (std::size_t i = 0; i < shape.size() && i < 8; ++i)
    out += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return out + (shape.size() > 8 ? ", ...)" : ")");
}

PLAIT_DECL std::string block_text(std::span<std::size_t const> offset,
                                  std::span<std::size_t const> extent) {
  return concat({shape_text(extent), " from ", shape_text(offset), " on"});
}

PLAIT_DECL bool multiply(std::size_t& product, std::size_t factor) {
  if (factor != 0 && product > std::numeric_limits<std::size_t>::max() / factor) return false;
  product *= factor;
  return true;
}

PLAIT_DECL std::vector<std::size_t> matrix_shape(std::span<std::size_t const> shape) {
  std::vector<std::size_t> out(shape.begin(), shape.end());
  while (out.size() > 2) {
    out[out.size() - 2] *= out.back();
    out.pop_back();
  }
  return out;
}

PLAIT_DECL bool is_block_of(std::span<std::size_t const> shape, std::span<std::size_t const> offset,
                            std::span<std::size_t const> extent) {
  if (offset.size() != shape.size() || extent.size() != shape.size()) return false;
  for (std::size_t i = 0; i < shape.size(); ++i)
    if (offset[i] > shape[i] || extent[i] > shape[i] - offset[i]) return false;
  return true;
}

}  // namespace plait::detail
