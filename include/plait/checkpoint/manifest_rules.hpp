// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "plait/checkpoint/manifest.hpp"
#include "plait/core/file.hpp"
#include "plait/core/header_only.hpp"

// What every manifest keeps to, whether it is to be written or was read.
namespace plait::detail {

inline constexpr char const* manifest_file = "plait.json";
/// About what the most tensors with a block each and the most extra bytes take. It is bounded as a
/// tree of values takes many times the memory of its text.
inline constexpr std::size_t most_manifest_bytes = 100'000'000;
inline constexpr std::size_t most_blocks = 300'000, most_settings = 1'000;
inline constexpr std::size_t most_extra_bytes = std::size_t{1} << 24;
inline constexpr std::size_t most_elements = std::size_t{1} << 60;
inline constexpr std::size_t most_cuts = 6;  // of dimensions; a block has two to this many corners

/// The folder within a checkpoint that has what optimizers hold, so that the weights alone can be
/// read by programs that take all files of a folder.
inline constexpr std::string_view optimizer_folder = "optimizer";

/// Whether a name can be that of a file in a checkpoint: letters, digits and . _ - in a name that
/// does not begin with a dot, since readers of a manifest open it; the folder of what
/// optimizers hold may stand before it.
bool is_plain_file_name(std::string_view name);

std::size_t elements_of(std::span<std::size_t const> extent);

/// One tensor and its blocks, in a folder where files may have any names.
void check_tensor(checkpoint_tensor const& tensor, std::span<checkpoint_block const* const> blocks,
                  file_name const& file);

/// Errors: input_error, one sentence with the name of the manifest, the tensor and the numbers.
void check_manifest(checkpoint_manifest const& manifest, file_name const& file);

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/checkpoint/manifest_rules.ipp"
#endif
