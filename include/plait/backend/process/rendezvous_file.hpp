// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "plait/core/clock.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/file.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"

namespace plait::ext {

/// A file through which one process of a job passes bytes to the other processes, which must all
/// see its file system. The file appears only when it is complete, and only its user can read it.
/// It contains the name of the job, so that no process uses a file that another job has left.
class rendezvous_file {
 public:
  /// `job`: a text that is equal in all processes of a job and differs between jobs, if the
  /// launcher provides one, see process_ranks::job.
  explicit rendezvous_file(std::filesystem::path path, std::string_view job = {})
      : path_(std::move(path)), job_(detail::escaped(job)) {}

  /// Writes the bytes to the file. Throws input_error if the file cannot be written, or if it
  /// exists already: then it is from another job, which still runs or has been killed.
  void write(std::span<std::byte const> bytes) const;

  /// Waits until the file exists and returns its bytes. While it waits, it calls check()
  /// repeatedly, which may throw to end the wait.
  ///
  /// Errors: input_error if the file does not appear in time, cannot be read, belongs to another
  ///         user or another job, or does not have `size` bytes.
  template <class Check>
  [[nodiscard]] std::vector<std::byte> read(std::size_t size, std::chrono::nanoseconds timeout,
                                            Check check) const {
    auto const end = std::chrono::steady_clock::now() + timeout;
    while (!is_there()) {
      check();
      if (std::chrono::steady_clock::now() > end)
        name().refuse(concat({"has not appeared within ",
                              std::chrono::duration_cast<std::chrono::seconds>(timeout).count(),
                              " s; rank 0 writes it: is that process running, and do all processes "
                              "see this path?"}));
      std::this_thread::sleep_for(std::chrono::milliseconds{10});
    }
    return checked(detail::open_file(path_, kind, detail::open_file::links::refused), size);
  }

  /// Removes the file; call it after all processes have read it.
  void remove() const noexcept;

 private:
  static constexpr std::string_view kind = "rendezvous file";
  static constexpr std::string_view first_line = "plait rendezvous 1\n";

  [[nodiscard]] detail::file_name name() const { return {kind, path_}; }
  [[noreturn]] void refuse_old() const;
  // Returns true if the file exists, and also if its folder cannot be searched: an attempt to open
  // the file then reports the reason.
  [[nodiscard]] bool is_there() const;
  [[nodiscard]] std::string first_lines() const { return std::string(first_line) + job_ + '\n'; }

  [[nodiscard]] std::vector<std::byte> checked(detail::open_file const& file,
                                               std::size_t size) const;

  std::filesystem::path path_;
  std::string job_;
};

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/backend/process/rendezvous_file.ipp"
#endif
