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

// Returns the text of a setting for a message: escaped, beginning at byte `first`, and cut to about
// 200 bytes.
std::string in_words(std::string_view text, std::size_t first = 0);

}  // namespace plait::detail

namespace plait::ext {

/// A rectangular block of a tensor, stored in one file under the tensor's name.
struct checkpoint_block {
  std::string file;    ///< the name of a file in the checkpoint's folder
  std::string tensor;  ///< the tensor's name, in the manifest and in the file
  std::vector<std::size_t> offset, extent;
  std::uint32_t crc = 0;  ///< CRC-32 of the rectangle's bytes in the file

  bool operator==(checkpoint_block const&) const = default;
};

/// A whole tensor, without the padding that ranks add to get equal blocks.
struct checkpoint_tensor {
  std::string name;
  std::vector<std::size_t> shape;
  std::string type;  ///< the element type as safetensors names it: F32, F64, BF16

  bool operator==(checkpoint_tensor const&) const = default;
};

/// The manifest of a checkpoint: its step, the settings that a resumed run must repeat, and the
/// blocks of each tensor with their files. The manifest does not mention ranks, so any number of
/// ranks can resume from the checkpoint.
struct checkpoint_manifest {
  std::int64_t step = 0;      ///< the number of completed steps
  std::uint64_t samples = 0;  ///< the number of samples that these steps have used
  /// Settings that a resumed run must repeat, in the caller's order.
  std::vector<std::pair<std::string, std::string>> settings{};
  std::string job{};  ///< the name of the job that wrote the checkpoint, not empty; other jobs do
                      ///< not remove the checkpoint
  std::vector<checkpoint_tensor> tensors{};
  std::vector<checkpoint_block>
      blocks{};  ///< the blocks of all tensors; the blocks of a tensor cover it exactly once
  /// The program's own data, see checkpoint_options::extra.
  std::vector<std::byte> extra{};
  /// Pairs of the name of a parameter and the number of updates that its optimizer states have had.
  /// Only numbers that differ from `step` are stored; they occur after a reset or a skipped update.
  std::vector<std::pair<std::string, std::int64_t>> ages{};

  bool operator==(checkpoint_manifest const&) const = default;
};

/// Returns a sentence for each setting that differs, such as "global_batch is 64 in the checkpoint
/// and 32 now", except for the names in `allowed`.
[[nodiscard]] std::vector<std::string> differences(
    std::vector<std::pair<std::string, std::string>> const& saved,
    std::vector<std::pair<std::string, std::string>> const& now,
    std::span<std::string_view const> allowed = {});

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/checkpoint/manifest.ipp"
#endif
