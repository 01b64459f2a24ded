// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "plait/backend/process/rendezvous_store.hpp"
#include "plait/core/file.hpp"
#include "plait/core/header_only.hpp"

namespace plait::detail {

/// A rendezvous store in a folder that only its user can read, on a file system that all processes
/// see. Each key is a file, which becomes visible only when it is complete.
class gloo_folder final : public rendezvous_store {
 public:
  explicit gloo_folder(std::filesystem::path path, bool of_one_start = false)
      : path_(std::move(path)), name_("rendezvous folder", path_), of_one_start_(of_one_start) {}

  [[nodiscard]] std::string name() const override;
  [[nodiscard]] std::string what_to_check() const override;

  void make() override;
  [[nodiscard]] bool put(std::string const& key, std::string_view value) override;
  [[nodiscard]] std::optional<std::string> get(std::string const& key) override;
  void remove(std::string const& key) noexcept override { ::unlink((path_ / key).c_str()); }
  void clear(bool at_end) noexcept override;
  [[nodiscard]] bool is_of_one_start() const override { return of_one_start_; }

 private:
  static constexpr std::string_view kind = "rendezvous note";
  static constexpr std::size_t most_bytes = std::size_t{1} << 20;

  // Returns true if plait has written the file: "writer", "0123456789abcdef.here.0", or an
  // incomplete file of a killed process.
  static bool is_ours(std::string_view file);
  /// Returns false if the folder does not exist. Throws if it is not a folder that only this user
  /// can enter.
  [[nodiscard]] bool is_usable() const;

  std::filesystem::path path_;
  file_name name_;
  bool of_one_start_;
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/gloo/gloo_store.ipp"
#endif
