// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "plait/core/error.hpp"

// The common part of the fuzz targets. A target gets bytes that libFuzzer has made up. A violated
// expectation ends the program, and so does an exception that is not an input_error.
namespace fuzzing {

inline void expect(bool condition, char const* what) {
  if (condition) return;
  std::fprintf(stderr, "fuzzing: %s\n", what);
  std::abort();
}

/// Checks a message about wrong input: one line without control sequences for terminals.
inline void expect_message(std::string_view text) {
  expect(text.size() > 10, "the message says nothing");
  for (std::size_t i = 0; i < text.size(); ++i) {
    auto const byte = static_cast<unsigned char>(text[i]);
    expect(byte >= 32 && byte != 127, "there is a control character in a message");
    bool const c1 =
        byte == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0;
    expect(!c1, "there is a C1 control character in a message");
  }
}

/// False if the call ends in input_error.
template <class Call>
bool accepts(Call call) {
  try {
    call();
    return true;
  } catch (plait::input_error const& problem) {
    expect_message(problem.what());
    return false;
  }
}

/// A file in memory that holds these bytes, and its name.
inline std::string file_of(std::span<std::uint8_t const> bytes) {
  static int const file = ::memfd_create("fuzz", MFD_CLOEXEC);
  expect(file >= 0, "memfd_create failed");
  expect(::ftruncate(file, 0) == 0, "ftruncate failed");
  expect(::pwrite(file, bytes.data(), bytes.size(), 0) == static_cast<::ssize_t>(bytes.size()),
         "pwrite failed");
  return "/proc/self/fd/" + std::to_string(file);
}

/// A folder of this process, in memory where there is such a file system.
inline std::filesystem::path const& scratch() {
  struct folder {
    std::filesystem::path path;
    folder() {
      std::filesystem::path const shared = "/dev/shm";
      path = (std::filesystem::exists(shared) ? shared : std::filesystem::temp_directory_path()) /
             ("plait_fuzz_" + std::to_string(::getpid()));
      std::filesystem::create_directories(path);
    }
    ~folder() { std::filesystem::remove_all(path); }
  };
  static folder const made;
  return made.path;
}

/// Takes a number from the front of the bytes; zeros where there are none.
inline std::uint64_t take(std::span<std::uint8_t const>& bytes, int count) {
  std::uint64_t out = 0;
  for (int i = 0; i < count && !bytes.empty(); ++i) {
    out |= std::uint64_t{bytes[0]} << (8 * i);
    bytes = bytes.subspan(1);
  }
  return out;
}

/// Takes a text that ends at the next byte of the value 10, or where the bytes end.
inline std::string take_line(std::span<std::uint8_t const>& bytes) {
  std::string out;
  while (!bytes.empty()) {
    auto const byte = static_cast<char>(bytes[0]);
    bytes = bytes.subspan(1);
    if (byte == '\n') break;
    out += byte;
  }
  return out;
}

}  // namespace fuzzing

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size);
