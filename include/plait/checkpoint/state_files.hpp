// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plait/checkpoint/manifest.hpp"
#include "plait/core/header_only.hpp"
#include "plait/io/safetensors_header.hpp"
#include "plait/train/state/saved_state.hpp"

namespace plait::detail {

/// The key in a file's metadata under which the CRC-32 of its tensors is stored, in addition to
/// PyTorch's keys.
inline constexpr char const* crc_key = "plait_crc32";

/// The copies of all data that one rank saves, sorted by kind: parameters, optimizer states,
/// averages.
struct rank_copies {
  int rank = 0;
  std::vector<std::string> kinds{}, matrix_kinds{};
  std::vector<std::size_t> element_bytes{};  ///< bytes of an element of each kind
  std::vector<saved_rectangle> rectangles{};
  /// The copy of each kind; empty if the state has no tensors of the kind.
  std::vector<std::vector<std::byte>> bytes{};
};

/// Writes the copies of a rank to files. Each rectangle of a parameter becomes a tensor in a file.
/// A file has at most one rectangle of each parameter. Parameters are in
/// `weights-<rank>-<n>.safetensors`, states of optimizers and averages in `optimizer/state-...`;
/// the folder `optimizer` must exist. All files are on the disk on return.
///
/// Errors: input_error that names the file.
class state_writer {
 public:
  explicit state_writer(rank_copies const& of) : of_(of) {}

  void write(std::filesystem::path const& folder);

 private:
  struct entry {
    std::size_t kind = 0;
    saved_rectangle const* of = nullptr;
  };

  /// Writes the kinds with index `begin` to `end` - 1 into files whose names begin with `path`.
  void write_kinds(std::filesystem::path const& path, std::size_t begin, std::size_t end);

  void write_file(std::filesystem::path const& path, std::vector<entry> const& tensors);

  /// Returns the bytes of a rectangle, row by row. The bytes are valid until the next call of this
  /// function.
  std::span<std::byte const> rows_of(std::size_t kind, parameter_rectangle const& where);

  /// Returns the name of the tensor of a kind; empty if the parameter has no tensor of the kind.
  [[nodiscard]] std::string name_of(entry const& tensor) const;

  rank_copies const& of_;
  std::vector<std::byte> rows_{};
};

/// Returns the rectangles that all ranks have written into a folder, each with its file and its
/// CRC-32.
///
/// Cost:   reads the headers of all files.
/// Errors: input_error that names a file that state_writer did not write.
[[nodiscard]] [[gnu::cold]] std::vector<checkpoint_block> blocks_in(
    std::filesystem::path const& folder);

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/checkpoint/state_files.ipp"
#endif
