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

/// The content of the files plait.lock-N and plait.list-N: the owner of a folder of checkpoints,
/// and the earlier checkpoints that it continues. Neither file is ever changed.
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

/// Decides which checkpoints in a folder count, that is, which may be listed and resumed from. A
/// checkpoint that a job with fixed ranks has written always counts. A checkpoint of an elastic job
/// counts if the newest list (plait.list-N) names it, or if the owner that wrote the newest list
/// has also written the checkpoint.
///
/// Without this rule, a former owner that was suspended and is then continued could damage the run
/// of its successor.
/// Example: owner 6 is stopped before it renames its save to step-00000300.lease-6-3. Owner 7
/// writes plait.list-7, which names step-00000200.lease-6-2. When owner 6 continues, it renames its
/// save, but no list names that checkpoint, so that it never counts.
class counted_checkpoints {
 public:
  /// Errors: input_error if the folder or its newest list cannot be read; a missing folder is
  ///         treated as empty.
  counted_checkpoints(std::filesystem::path const& folder, disk& on);

  [[nodiscard]] std::vector<std::string> const& names() const { return names_; }
  /// Returns the greatest number after `start` in the names of the folder's files; 0 if there is
  /// none.
  [[nodiscard]] std::int64_t newest(std::string_view start) const;
  /// Returns the greatest number of any lease that names mention, even if a user has removed its
  /// lock file.
  [[nodiscard]] std::int64_t greatest_lease() const;
  /// Returns the names of plait's own files, sorted. If they differ from an earlier result, another
  /// process is working in the folder.
  [[nodiscard]] std::vector<std::string> own_names() const;

  [[nodiscard]] bool has(checkpoint_name const& name) const;
  /// Returns true if checkpoint `one` is preferred to `other`; both are of the same step.
  [[nodiscard]] bool is_before(checkpoint_name const& one, checkpoint_name const& other) const {
    return place(one) < place(other);
  }

 private:
  /// Returns the key by which checkpoints of a step are sorted, the preferred first: the owner's
  /// checkpoints, then checkpoints of earlier elastic jobs, then others.
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
