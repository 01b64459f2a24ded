// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plait/core/concat.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/core/quote.hpp"

namespace plait::detail {

// A setting in a sentence: escaped, and shortened to about 200 bytes, from `first` on.
inline std::string in_words(std::string_view text, std::size_t first = 0) {
  if (text.empty()) return "''";
  auto const rest = text.substr(first);
  return (first > 0 ? "..." : "") + escaped(rest.substr(0, 200)) + (rest.size() > 200 ? "..." : "");
}
// From where two settings are said: from the beginning, if a difference is to be seen then.
inline std::size_t begin_of_difference(std::string_view one, std::string_view other) {
  auto const same = std::ranges::mismatch(one, other).in1 - one.begin();
  return same < 150 ? 0 : static_cast<std::size_t>(same) - 50;
}

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
[[nodiscard]] inline std::vector<std::string> differences(
    std::vector<std::pair<std::string, std::string>> const& saved,
    std::vector<std::pair<std::string, std::string>> const& now,
    std::span<std::string_view const> allowed = {}) {
  auto const is_allowed = [&](std::string const& name) {
    return std::ranges::find(allowed, name) != allowed.end();
  };
  using pair = std::pair<std::string, std::string>;
  std::vector<std::string> out;
  for (auto const& [name, value] : saved) {
    if (is_allowed(name)) continue;
    auto const found = std::ranges::find(now, name, &pair::first);
    auto const first = found == now.end() ? 0 : detail::begin_of_difference(value, found->second);
    auto const before = concat({detail::in_words(name), " is ", detail::in_words(value, first)});
    if (found == now.end()) out.push_back(concat({before, " in the checkpoint and not set now"}));
    else if (found->second != value)
      out.push_back(concat(
          {before, " in the checkpoint and ", detail::in_words(found->second, first), " now"}));
  }
  for (auto const& [name, value] : now)
    if (!is_allowed(name) && std::ranges::find(saved, name, &pair::first) == saved.end())
      out.push_back(concat({detail::in_words(name), " is not set in the checkpoint and ",
                            detail::in_words(value), " now"}));
  return out;
}

}  // namespace plait::ext
