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

/// Who has a folder of checkpoints, and which of those before are the owner's: what stands in
/// plait.lock-N and plait.list-N. Neither file is ever changed.
struct lease_text {
  std::string job{};
  std::string id{};             ///< of an elastic job; "" of one whose ranks do not change
  std::int64_t generation = 0;  ///< of that
  std::vector<std::string> names{};

  [[nodiscard]] std::string text() const;
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

/// What is in a folder of checkpoints, and which of it counts.
///
/// A folder that a fixed job has written counts always. One of an elastic job counts if the newest
/// list has it or if it is of the owner who has written that list: what an owner before it has
/// renamed since does not.
class counted_checkpoints {
 public:
  /// Errors: input_error if the folder or its newest list cannot be read; nothing is in a folder
  ///         that is not there.
  counted_checkpoints(std::filesystem::path const& folder, disk& on);

  [[nodiscard]] std::vector<std::string> const& names() const { return names_; }
  /// The greatest number of those behind `start`, 0 if there is none.
  [[nodiscard]] std::int64_t newest(std::string_view start) const;
  /// The greatest number that any lease has had, also where a user has removed its lock.
  [[nodiscard]] std::int64_t greatest_lease() const;
  /// Names of plait's, sorted: what changes while somebody else works there.
  [[nodiscard]] std::vector<std::string> own_names() const;

  [[nodiscard]] bool has(checkpoint_name const& name) const;
  /// Whether the first is to be taken before the second, of the same step.
  [[nodiscard]] bool is_before(checkpoint_name const& one, checkpoint_name const& other) const {
    return place(one) < place(other);
  }

 private:
  /// Of a step what the owner has written comes first, then what elastic jobs have written before.
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
