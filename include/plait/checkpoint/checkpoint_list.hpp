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

/// A checkpoint that is in a folder.
struct found_checkpoint {
  std::int64_t step = 0;
  std::filesystem::path path{};
  std::string job{};     ///< of its manifest
  std::string damage{};  ///< why it cannot be used, in a sentence; empty if it is complete

  [[nodiscard]] bool complete() const { return damage.empty(); }
};

}  // namespace plait::ext

namespace plait::detail {

/// The files of a checkpoint, also those in its folder of what optimizers hold.
[[nodiscard]] int files_of(std::filesystem::path const& checkpoint, disk::links symbolic, disk& on,
                           std::vector<std::string>& out);

/// Reads a checkpoint's manifest and sees whether its files are there.
found_checkpoint look_at_checkpoint(std::filesystem::path const& path, std::int64_t step, disk& on);

/// Those that are the best weights, or all others: see list_checkpoints.
std::vector<found_checkpoint> list_checkpoints(std::filesystem::path const& folder, bool are_best,
                                               disk& on);

}  // namespace plait::detail

namespace plait::ext {

/// The checkpoints of a folder, newest first; none if there is no folder. A damaged one comes with
/// its reason, so that the one after it can be taken. The content of files is not read: who reads a
/// block compares its CRC-32.
///
/// One that was to be replaced by another of its step is listed while that one is not complete. In
/// the folder of an elastic job those are listed that count for its newest root, see
/// counted_checkpoints. The best weights are not among them, see find_best.
///
/// Errors:  input_error if the folder cannot be read.
/// Threads: any rank may list while others write.
inline std::vector<found_checkpoint> list_checkpoints(std::filesystem::path const& folder,
                                                      detail::disk& on = detail::the_disk()) {
  return detail::list_checkpoints(folder, false, on);
}

/// Says whether this host sees, in a folder of checkpoints, the probe of that name with those
/// bytes: what checkpoint_folder::make_probe wrote, perhaps on another host. It looks again for as
/// long as `patience`: network file systems remember names, and that there was none.
///
/// Errors: none: what cannot be read is not seen.
bool sees_probe(std::filesystem::path const& folder, std::string_view name,
                std::span<std::byte const> bytes, std::chrono::milliseconds patience = {},
                detail::disk& on = detail::the_disk());

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/checkpoint/checkpoint_list.ipp"
#endif
