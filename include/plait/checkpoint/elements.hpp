// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "plait/core/bfloat16.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/io/safetensors_header.hpp"
#include "plait/layer/parameter.hpp"

// What a state calls its elements, and what files do.
namespace plait::detail {

/// The sizes of a parameter or of a rectangle of it, as checkpoints have them: a vector has one.
[[nodiscard]] inline std::vector<std::size_t> sizes_of(parameter_info const& info, std::size_t rows,
                                                       std::size_t columns) {
  return info.rank == 2 ? std::vector{rows, columns} : std::vector{columns};
}

/// The lengths of a whole parameter as files of weights have it.
[[nodiscard]] inline std::vector<std::size_t> sizes_in_files(parameter_info const& info) {
  if (info.rank_in_files == 0) return sizes_of(info, info.rows, info.columns);
  return {info.lengths_in_files.begin(), info.lengths_in_files.begin() + info.rank_in_files};
}

/// The type in files of elements of so many bytes.
[[nodiscard]] inline stored_type type_in_files(std::size_t element_bytes) {
  return element_bytes == 8   ? stored_type::f64
         : element_bytes == 4 ? stored_type::f32
                              : stored_type::bf16;
}

/// Calls read(span) to fill `out`, elements of `element_bytes`: as doubles, floats, or floats that
/// are then rounded to bfloat16.
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
