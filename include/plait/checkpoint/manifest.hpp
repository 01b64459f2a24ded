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

// A setting in a sentence: escaped, and shortened to about 200 bytes, from `first` on.
std::string in_words(std::string_view text, std::size_t first = 0);

}  // namespace plait::detail

namespace plait::ext {

/// A rectangle of a tensor, whose elements are the whole of the tensor of that name in a file.
struct checkpoint_block {
  std::string file;    ///< a plain name, in the checkpoint's folder
  std::string tensor;  ///< its name, in the manifest and in the file
  std::vector<std::size_t> offset, extent;
  std::uint32_t crc = 0;  ///< CRC-32 of the rectangle's bytes as the file has them

  bool operator==(checkpoint_block const&) const = default;
};

/// A tensor as a whole, without what ranks pad.
struct checkpoint_tensor {
  std::string name;
  std::vector<std::size_t> shape;
  std::string type;  ///< as safetensors files call it: F32, F64, BF16

  bool operator==(checkpoint_tensor const&) const = default;
};

/// The manifest of a checkpoint says when it was, what a run must have again, and where each
/// element of each tensor is. It knows nothing of ranks, so that any number of them can go on from
/// it.
struct checkpoint_manifest {
  std::int64_t step = 0;      ///< steps that are done
  std::uint64_t samples = 0;  ///< samples that these steps have taken
  /// What a run that goes on must have again, by names of the caller's, in the caller's order.
  std::vector<std::pair<std::string, std::string>> settings{};
  std::string job{};  ///< which family of runs it belongs to, not empty; others do not remove it
  std::vector<checkpoint_tensor> tensors{};
  std::vector<checkpoint_block> blocks{};  ///< those of a tensor cover it exactly once
  std::vector<std::byte> extra{};          ///< for the caller
  /// The age of the optimizer's states of a parameter, by its name: the number of updates that they
  /// have seen. Only ages other than `step` are here, as after a reset or where updates were left
  /// out.
  std::vector<std::pair<std::string, std::int64_t>> ages{};

  bool operator==(checkpoint_manifest const&) const = default;
};

/// The settings that are not the same, in sentences such as "global_batch is 64 in the checkpoint
/// and 32 now"; but for those of the names in `allowed`.
[[nodiscard]] std::vector<std::string> differences(
    std::vector<std::pair<std::string, std::string>> const& saved,
    std::vector<std::pair<std::string, std::string>> const& now,
    std::span<std::string_view const> allowed = {});

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/checkpoint/manifest.ipp"
#endif
