// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "plait/core/error.hpp"

namespace plait {

/// A file on a file system that all processes of a job see, through which one of them gives some
/// bytes to the others: written under another name and linked, so that nobody reads half of it.
class rendezvous_file {
 public:
  explicit rendezvous_file(std::filesystem::path path) : path_(std::move(path)) {}

  /// Errors: input_error if the file cannot be written, or is there already: then it is what
  ///         another job, which runs or has broken off, has left.
  void write(std::span<std::byte const> bytes) const {
    auto part = path_;
    part += ".part";
    {
      std::ofstream out(part, std::ios::binary | std::ios::trunc);
      out.write(reinterpret_cast<char const*>(bytes.data()),
                static_cast<std::streamsize>(bytes.size()));
      out.flush();
      if (!out) throw input_error(name() + " cannot be written: " + std::strerror(errno));
    }
    // A link is refused where a file is; a rename would put ours in its place.
    std::error_code refused, unused;
    std::filesystem::create_hard_link(part, path_, refused);
    std::filesystem::remove(part, unused);
    if (refused == std::errc::file_exists)
      throw input_error(name() +
                        " is there already; another job runs with it or has left it: choose "
                        "another path by PLAIT_RENDEZVOUS, or delete the file");
    if (refused) throw input_error(name() + " cannot be written: " + refused.message());
  }

  /// The bytes of the file once it is there. check() is called while it is waited for, and may
  /// throw.
  ///
  /// Errors: input_error if it does not come in time, or has not `size` bytes.
  template <class Check>
  [[nodiscard]] std::vector<std::byte> read(std::size_t size, std::chrono::nanoseconds timeout,
                                            Check check) const {
    auto const end = std::chrono::steady_clock::now() + timeout;
    for (;;) {
      if (std::ifstream in(path_, std::ios::binary | std::ios::ate); in) {
        auto const found = static_cast<std::size_t>(in.tellg());
        std::vector<std::byte> bytes(size);
        in.seekg(0);
        in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(size));
        if (!in || found != size)
          throw input_error(name() + " has " + std::to_string(found) + " bytes, not " +
                            std::to_string(size) + "; it is not of this job");
        return bytes;
      }
      check();
      if (std::chrono::steady_clock::now() > end)
        throw input_error(
            name() + " has not come in " +
            std::to_string(std::chrono::duration_cast<std::chrono::seconds>(timeout).count()) +
            " s; rank 0 writes it: is that process running, and do all see this path?");
      std::this_thread::sleep_for(std::chrono::milliseconds{10});
    }
  }

  /// When everybody has read it.
  void remove() const noexcept {
    std::error_code unused;
    std::filesystem::remove(path_, unused);
  }

  [[nodiscard]] std::string name() const { return "the rendezvous file " + path_.string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace plait
