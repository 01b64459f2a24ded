// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"

namespace plait::ext {

/// The offset of each part that a file has within its whole tensor, by the tensor's name.
using sharding_info = std::map<std::string, std::vector<std::size_t>, std::less<>>;

}  // namespace plait::ext

namespace plait::detail {

/// Limit of the text's size: 160 bytes for each of the most tensors. A file's header may be longer,
/// but a tree of values takes many times the memory of its text.
inline constexpr std::size_t most_sharding_bytes = 50'000'000;

}  // namespace plait::detail

namespace plait::ext {

/// Returns the metadata of a safetensors file by which PyTorch's distributed checkpoint knows the
/// part of each tensor that the file has.
///
/// Errors: input_error if a name is not UTF-8.
/// Source: torch/distributed/checkpoint/_hf_utils.py (DCP_VERSION 1.0).
std::map<std::string, std::string> make_sharding_metadata(sharding_info const& info);

/// Reads metadata that make_sharding_metadata wrote; nullopt if there is none. The caller checks
/// that the file has these tensors.
///
/// Errors: input_error that names `path`, for another version and for any other deviation.
std::optional<sharding_info> parse_sharding_metadata(
    std::map<std::string, std::string> const& metadata, std::filesystem::path const& path);

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/io/sharding_info.ipp"
#endif
