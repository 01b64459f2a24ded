// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "plait/checkpoint/checkpoint_name.hpp"
#include "plait/checkpoint/disk.hpp"
#include "plait/core/header_only.hpp"

namespace plait::detail {

inline constexpr std::string_view lock_start = "plait.lock-", list_start = "plait.list-";
inline constexpr std::size_t most_lease_bytes = 16'000'000;

/// The content of a file plait.lock-N or plait.list-N: the owner of a folder of checkpoints, and
/// the names of the earlier checkpoints that this owner recognises as valid. Neither file is ever
/// changed.
struct lease_text {
  std::string job{};
  std::string id{};             ///< an elastic job's id; "" for a job with fixed ranks
  std::int64_t generation = 0;  ///< an elastic job's generation
  std::vector<std::string> names{};

  [[nodiscard]] std::string text() const;
  /// Reads the file `path`.
  ///
  /// Errors: input_error that names the file.
  [[nodiscard]] static lease_text read(std::filesystem::path const& path, disk& on);

 private:
  [[nodiscard]] nlohmann::json json() const {
    return {{"job", job}, {"id", id}, {"generation", generation}, {"names", names}};
  }
  static std::string dumped(nlohmann::json const& of) {
    return of.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  }
  static std::uint32_t crc_of(nlohmann::json const& of);
};

/// Decides which checkpoints in a folder "count", which means that they are valid: they are listed,
/// and a job may resume from them. A checkpoint that a job with fixed ranks has written is always
/// valid. A checkpoint of an elastic job is valid if the newest list (plait.list-N) names it, or if
/// it was written by the owner that wrote the newest list.
///
/// Without this rule, a former owner that was suspended and is then continued could damage the run
/// of its successor.
/// Example: owner 6 is stopped before it renames its save to step-00000300.lease-6-3. Owner 7
/// writes plait.list-7, which names step-00000200.lease-6-2. When owner 6 continues, it renames its
/// save, but no list names that checkpoint, so the checkpoint never becomes valid.
class counted_checkpoints {
 public:
  /// Reads the names in the folder and its newest list.
  ///
  /// Errors: input_error if the folder or its newest list cannot be read; a missing folder is
  ///         treated as empty.
  counted_checkpoints(std::filesystem::path const& folder, disk& on);

  [[nodiscard]] std::vector<std::string> const& names() const { return names_; }
  /// Returns the greatest number that follows `start` in the names of the folder's files; 0 if no
  /// name begins with `start`.
  [[nodiscard]] std::int64_t newest(std::string_view start) const;
  /// Returns the greatest lease number that appears in the names of files and folders, even if a
  /// user has removed the lock file of that lease.
  [[nodiscard]] std::int64_t greatest_lease() const;
  /// Returns the names of the files and folders that plait has made, sorted. If they differ from an
  /// earlier result, another process is working in the folder.
  [[nodiscard]] std::vector<std::string> own_names() const;

  [[nodiscard]] bool has(checkpoint_name const& name) const;
  /// Returns true if checkpoint `one` is preferred to checkpoint `other` of the same step.
  [[nodiscard]] bool is_before(checkpoint_name const& one, checkpoint_name const& other) const {
    return place(one) < place(other);
  }

 private:
  /// Returns the key by which the checkpoints of one step are sorted, with the preferred checkpoint
  /// first: checkpoints of the present owner, then checkpoints of earlier elastic jobs, then all
  /// others.
  [[nodiscard]] std::tuple<int, std::int64_t, std::int64_t, int, std::string_view> place(
      checkpoint_name const& of) const;

  std::vector<std::string> names_{};
  std::int64_t number_ = 0;
  std::optional<lease_text> list_{};
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/checkpoint/counted_checkpoints.ipp"
#endif
