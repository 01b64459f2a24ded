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

/// Maps the name of a tensor to the offset, within the whole tensor, of the block that a file has.
using sharding_info = std::map<std::string, std::vector<std::size_t>, std::less<>>;

}  // namespace plait::ext

namespace plait::detail {

/// The largest size of the metadata text in bytes: about 160 bytes for each tensor, at the largest
/// number of tensors. The header of a file may be longer, but parsed JSON takes many times the
/// memory of its text.
inline constexpr std::size_t most_sharding_bytes = 50'000'000;

}  // namespace plait::detail

namespace plait::ext {

/// Returns metadata for a safetensors file that has blocks of tensors. PyTorch's distributed
/// checkpoint reads from this metadata which block of each tensor the file has.
///
/// Errors: input_error if a name is not UTF-8.
/// Source: torch/distributed/checkpoint/_hf_utils.py (DCP_VERSION 1.0).
std::map<std::string, std::string> make_sharding_metadata(sharding_info const& info);

/// Reads the metadata that make_sharding_metadata writes. Returns nullopt if the file has no such
/// metadata. The caller must check that the file has the tensors that the metadata names.
///
/// Errors: input_error that names `path`, for an unknown version and for any other deviation from
///         the format.
std::optional<sharding_info> parse_sharding_metadata(
    std::map<std::string, std::string> const& metadata, std::filesystem::path const& path);

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/io/sharding_info.ipp"
#endif
