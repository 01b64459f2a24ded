// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "plait/core/file.hpp"
#include "plait/core/header_only.hpp"

// The index of weights that are stored in several files, in the format of Hugging Face's
// transformers.
namespace plait::detail {

inline constexpr char const* weights_file = "model.safetensors";
inline constexpr char const* weights_index_file = "model.safetensors.index.json";

/// The largest size of an index in bytes: about 160 bytes for each tensor, at the largest number of
/// tensors. The size is limited because parsed JSON takes many times the memory of its text.
inline constexpr std::size_t most_index_bytes = 50'000'000;

/// Maps the name of a tensor to the name of its file.
using weights_index = std::map<std::string, std::string, std::less<>>;

/// Reads {"weight_map": {"TENSOR": "FILE", ...}}. Other keys are skipped.
///
/// Cost:   O(n log n) for n tensors; the memory that read_json needs.
/// Errors: input_error, one sentence with the index's name, for every other text; also input_error
///         if a tensor is named twice, or if its file is outside of the folder of the index.
[[nodiscard]] [[gnu::cold]] weights_index parse_weights_index(std::string const& text,
                                                              file_name const& file);

/// Reads the index in the file `path`.
///
/// Errors: the errors of parse_weights_index and open_file.
[[nodiscard]] [[gnu::cold]] weights_index read_weights_index(std::filesystem::path const& path);

/// Returns the text of an index. `bytes`: the size of the data of all tensors.
///
/// Errors: input_error if the name of a tensor is not UTF-8, or the text would have more than
///         most_index_bytes.
[[nodiscard]] [[gnu::cold]] std::string to_text(weights_index const& index, std::size_t bytes);

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/checkpoint/weights_index.ipp"
#endif
