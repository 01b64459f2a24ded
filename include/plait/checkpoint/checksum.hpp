// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/io/safetensors.hpp"

namespace plait::ext {

/// Returns the CRC-32 of `bytes`, as zlib and gzip define it. To compute the CRC-32 of data in
/// several parts, pass the CRC-32 of the preceding parts as `before`.
std::uint32_t checkpoint_crc(std::span<std::byte const> bytes, std::uint32_t before = 0);

/// Returns the CRC-32 of a tensor's data in a file.
///
/// Cost:   reads the whole tensor, 1 MiB at a time.
/// Errors: input_error if the tensor is missing or cannot be read.
std::uint32_t checkpoint_crc(safetensors_reader const& file, std::string_view tensor);

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/checkpoint/checksum.ipp"
#endif
