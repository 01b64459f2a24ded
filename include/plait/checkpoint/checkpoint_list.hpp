// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "plait/checkpoint/disk.hpp"
#include "plait/checkpoint/manifest.hpp"
#include "plait/core/clock.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"

namespace plait::ext {

/// A checkpoint that was found in a folder, complete or damaged.
struct found_checkpoint {
  std::int64_t step = 0;
  std::filesystem::path path{};
  std::string job{};  ///< the name of the job in the manifest
  /// The reason why the checkpoint cannot be used, as a sentence; empty if the checkpoint is
  /// complete.
  std::string damage{};

  [[nodiscard]] bool complete() const { return damage.empty(); }
};

}  // namespace plait::ext

namespace plait::detail {

/// Lists the files of a checkpoint, including the files in its folder of optimizer states.
[[nodiscard]] int files_of(std::filesystem::path const& checkpoint, disk::links symbolic, disk& on,
                           std::vector<std::string>& out);

/// Reads a checkpoint's manifest and checks that its files exist.
found_checkpoint look_at_checkpoint(std::filesystem::path const& path, std::int64_t step, disk& on);

/// Returns the checkpoints of a folder: if `are_best` is true, the checkpoints of best weights,
/// otherwise all other checkpoints, like the public list_checkpoints.
std::vector<found_checkpoint> list_checkpoints(std::filesystem::path const& folder, bool are_best,
                                               disk& on);

}  // namespace plait::detail

namespace plait::ext {

/// Returns the checkpoints of a folder, the newest first. If the folder does not exist, the list is
/// empty. A damaged checkpoint is listed with the reason, so that a caller can use the next
/// checkpoint. The tensors in the files are not read here; state_reader checks their CRC-32.
///
/// While a checkpoint is being replaced by a new checkpoint of the same step, the old checkpoint is
/// listed until the new checkpoint is complete. In the folder of an elastic job, only the
/// checkpoints that are valid for the folder's newest owner are listed, see counted_checkpoints.
/// Checkpoints of best weights are not listed, see find_best.
///
/// Errors:  input_error if the folder cannot be read.
/// Threads: any rank may call this function while other ranks write.
inline std::vector<found_checkpoint> list_checkpoints(std::filesystem::path const& folder,
                                                      detail::disk& on = detail::the_disk()) {
  return detail::list_checkpoints(folder, false, on);
}

/// Returns true if this host sees the probe `name` with `bytes` in a folder of checkpoints, which
/// checkpoint_folder::make_probe wrote, perhaps on another host. The function tries again until
/// `patience` has passed, because network file systems cache names for some time, and also the
/// answer that a name does not exist.
///
/// Errors: none; the result is false for a probe that cannot be read.
bool sees_probe(std::filesystem::path const& folder, std::string_view name,
                std::span<std::byte const> bytes, std::chrono::milliseconds patience = {},
                detail::disk& on = detail::the_disk());

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/checkpoint/checkpoint_list.ipp"
#endif
