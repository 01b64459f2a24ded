// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"

namespace plait::detail {

// Returns a setting for a message: escaped, and cut to about 200 bytes from `first` on.
std::string in_words(std::string_view text, std::size_t first = 0);

}  // namespace plait::detail

namespace plait::ext {

/// A rectangle of a tensor, stored as a tensor of the same name in one file.
struct checkpoint_block {
  std::string file;    ///< a plain name in the checkpoint's folder
  std::string tensor;  ///< the name in the manifest and in the file
  std::vector<std::size_t> offset, extent;
  std::uint32_t crc = 0;  ///< CRC-32 of the rectangle's bytes in the file

  bool operator==(checkpoint_block const&) const = default;
};

/// A whole tensor, without the padding of ranks.
struct checkpoint_tensor {
  std::string name;
  std::vector<std::size_t> shape;
  std::string type;  ///< the name in safetensors files: F32, F64, BF16

  bool operator==(checkpoint_tensor const&) const = default;
};

/// The manifest of a checkpoint: its step, the settings that a resumed run must repeat, and the
/// file of each element of each tensor. It does not mention ranks, so that any number of them can
/// resume from it.
struct checkpoint_manifest {
  std::int64_t step = 0;      ///< steps that are done
  std::uint64_t samples = 0;  ///< samples that these steps have taken
  /// Settings that a resumed run must repeat, in the caller's order.
  std::vector<std::pair<std::string, std::string>> settings{};
  std::string job{};  ///< its family of runs, not empty; other jobs do not remove it
  std::vector<checkpoint_tensor> tensors{};
  std::vector<checkpoint_block> blocks{};  ///< the blocks of a tensor cover it exactly once
  std::vector<std::byte> extra{};          ///< bytes of the caller
  /// The age of a parameter's optimizer states: the number of updates that they have seen. Only
  /// ages other than `step` are stored, as after a reset or left-out updates.
  std::vector<std::pair<std::string, std::int64_t>> ages{};

  bool operator==(checkpoint_manifest const&) const = default;
};

/// Returns the settings that differ, in sentences such as "global_batch is 64 in the checkpoint and
/// 32 now", except for the names in `allowed`.
[[nodiscard]] std::vector<std::string> differences(
    std::vector<std::pair<std::string, std::string>> const& saved,
    std::vector<std::pair<std::string, std::string>> const& now,
    std::span<std::string_view const> allowed = {});

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/checkpoint/manifest.ipp"
#endif
