// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/checkpoint/checksum.hpp"

#include <isa-l/crc.h>

#include <algorithm>
#include <vector>

namespace plait::ext {

PLAIT_DECL std::uint32_t checkpoint_crc(std::span<std::byte const> bytes, std::uint32_t before) {
  return ::crc32_gzip_refl(before, reinterpret_cast<unsigned char const*>(bytes.data()),
                           bytes.size());
}

PLAIT_DECL std::uint32_t checkpoint_crc(safetensors_reader const& file, std::string_view tensor) {
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
