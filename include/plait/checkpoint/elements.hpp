// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "plait/core/bfloat16.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/io/safetensors_header.hpp"
#include "plait/layer/parameter.hpp"

// Conversions between the elements of a trainer's state and the elements in files.
namespace plait::detail {

/// Returns the sizes that checkpoints store for a parameter or for a rectangle of a parameter:
/// {rows, columns} for a matrix, and one size for a vector.
[[nodiscard]] inline std::vector<std::size_t> sizes_of(parameter_info const& info, std::size_t rows,
                                                       std::size_t columns) {
  return info.rank == 2 ? std::vector{rows, columns} : std::vector{columns};
}

/// Returns the sizes that files of weights for other programs store for a whole parameter.
[[nodiscard]] std::vector<std::size_t> sizes_in_files(parameter_info const& info);

/// Returns the type that checkpoints and files of weights use for elements of `element_bytes`
/// bytes.
[[nodiscard]] stored_type type_in_files(std::size_t element_bytes);

/// Fills `out` with `count` elements of `element_bytes` bytes each. It calls read(span), which
/// fills a span of double or float. If the elements are bfloat16, the floats are then rounded.
template <class Read>
void read_elements(std::size_t element_bytes, std::size_t count, void* out, Read read) {
  if (element_bytes == 8) return read(std::span(static_cast<double*>(out), count));
  if (element_bytes == 4) return read(std::span(static_cast<float*>(out), count));
  std::vector<float> wide(count);
  read(std::span(wide));
  std::ranges::transform(wide, static_cast<bfloat16*>(out),
                         [](float value) { return static_cast<bfloat16>(value); });
}

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/checkpoint/elements.ipp"
#endif
