// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "plait/checkpoint/manifest.hpp"
#include "plait/core/file.hpp"
#include "plait/core/header_only.hpp"

// Rules that a manifest must obey, checked before it is written and after it is read.
namespace plait::detail {

inline constexpr char const* manifest_file = "plait.json";
/// The largest size of a manifest in bytes: about the size of a manifest with the largest number of
/// tensors, one block for each, and the largest number of extra bytes. The size is limited because
/// parsed JSON takes many times the memory of its text.
inline constexpr std::size_t most_manifest_bytes = 100'000'000;
inline constexpr std::size_t most_blocks = 300'000, most_settings = 1'000;
inline constexpr std::size_t most_extra_bytes = std::size_t{1} << 24;
inline constexpr std::size_t most_elements = std::size_t{1} << 60;
// The largest number of dimensions along which a tensor may be cut. If a tensor is cut along this
// number of dimensions, check_tensor sorts 2^6 corners for each block.
inline constexpr std::size_t most_cuts = 6;

/// The folder of optimizer states within a checkpoint. The weights are outside of it, so that
/// programs that read all files of a folder can read them.
inline constexpr std::string_view optimizer_folder = "optimizer";

/// Returns true if `name` can be the name of a file in a checkpoint: it has only letters, digits
/// and . _ -, does not begin with a dot, and may begin with the name of the optimizer folder and a
/// slash. Readers open the files that a manifest names, so a name must not refer to a file outside
/// the folder.
bool is_plain_file_name(std::string_view name);

std::size_t elements_of(std::span<std::size_t const> extent);

/// Checks one tensor and its blocks; any file names are allowed.
void check_tensor(checkpoint_tensor const& tensor, std::span<checkpoint_block const* const> blocks,
                  file_name const& file);

/// Checks a whole manifest.
///
/// Errors: input_error, one sentence with the name of the manifest, the tensor and the numbers.
void check_manifest(checkpoint_manifest const& manifest, file_name const& file);

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/checkpoint/manifest_rules.ipp"
#endif
