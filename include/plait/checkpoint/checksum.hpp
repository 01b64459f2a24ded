// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isa-l/crc.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "plait/core/namespaces.hpp"
#include "plait/io/safetensors.hpp"

namespace plait::ext {

/// The CRC-32 (of zlib and gzip) of bytes; `before` is that of the bytes in front of them, if any.
inline std::uint32_t checkpoint_crc(std::span<std::byte const> bytes, std::uint32_t before = 0) {
  return ::crc32_gzip_refl(before, reinterpret_cast<unsigned char const*>(bytes.data()),
                           bytes.size());
}

/// The CRC-32 of a tensor's data as a file has it.
///
/// Cost:   reads all of the tensor, a MiB at a time.
/// Errors: input_error if the tensor is missing or cannot be read.
inline std::uint32_t checkpoint_crc(safetensors_reader const& file, std::string_view tensor) {
  std::size_t const bytes = file.info(tensor).bytes();
  std::vector<std::byte> part(std::min(bytes, std::size_t{1} << 20));
  std::uint32_t crc = 0;
  for (std::size_t at = 0; at < bytes; at += part.size()) {
    part.resize(std::min(part.size(), bytes - at));
    file.read_bytes(tensor, at, part);
    crc = checkpoint_crc(part, crc);
  }
  return crc;
}

}  // namespace plait::ext
