// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plait/checkpoint/elements.hpp"
#include "plait/checkpoint/manifest.hpp"
#include "plait/core/header_only.hpp"
#include "plait/io/safetensors.hpp"
#include "plait/train/state/saved_state.hpp"

namespace plait::detail {

/// A cache of open files of a folder, by name. The number of files that are open at the same time
/// is limited, so the folder may have any number of files.
class open_weights {
 public:
  explicit open_weights(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// Opens a file if it is not open. The reference is valid until the next call.
  safetensors_reader const& file(std::string const& name);

 private:
  std::filesystem::path folder_;
  std::map<std::string, std::unique_ptr<safetensors_reader>> files_{};
};

/// Reads parts of tensors from a complete checkpoint. Any number of ranks may have written it.
///
/// Cost:    reads the requested elements, and the headers of their files.
/// Errors:  input_error that names the file and the tensor.
/// Threads: used by one thread.
class state_reader final : public state_source {
 public:
  /// Makes a reader of the checkpoint in `folder`. read() converts values to elements of
  /// `element_bytes` bytes. `files`: files that are already open.
  state_reader(std::filesystem::path folder, checkpoint_manifest const& manifest,
               std::size_t element_bytes)
      : state_reader(folder, manifest, element_bytes, open_weights(folder)) {}
  state_reader(std::filesystem::path folder, checkpoint_manifest const& manifest,
               std::size_t element_bytes, open_weights files);

  [[nodiscard]] bool contains(std::string_view name) const override {
    return tensors_.contains(name);
  }
  [[nodiscard]] std::optional<std::int64_t> age(std::string_view name) const override;

  /// Reads a rectangle of a tensor.
  ///
  /// Errors: also input_error if the tensor is missing or its shape differs from the shape in
  ///         `info`.
  void read(std::string const& name, parameter_info const& info, parameter_rectangle const& where,
            void* out) override;

  /// Reads a rectangle and converts it to T, which is float or double.
  template <class T>
  void read_numbers(std::string const& name, parameter_info const& info,
                    parameter_rectangle const& where, std::span<T> out) {
    std::vector<T> rows;
    for (auto const* const block : find(name, sizes_of(info, info.rows, info.columns)).blocks) {
      auto const has = rectangle_of(block->offset, block->extent);
      std::size_t const row = std::max(has.row, where.row);
      std::size_t const column = std::max(has.column, where.column);
      std::size_t const end_row = std::min(has.row + has.rows, where.row + where.rows);
      std::size_t const end_column =
          std::min(has.column + has.columns, where.column + where.columns);
      if (row >= end_row || column >= end_column) continue;
      std::size_t const height = end_row - row, width = end_column - column;
      // Whole rows are contiguous in `out`, so they are read directly into it.
      bool const in_place = width == where.columns;
      std::size_t const first = (row - where.row) * where.columns + (column - where.column);
      rows.resize(in_place ? 0 : height * width);
      auto const to = in_place ? out.subspan(first, height * width) : std::span(rows);
      file(block->file)
          .read_block(name, sizes_of(info, row - has.row, column - has.column),
                      sizes_of(info, height, width), to);
      for (std::size_t i = 0; i < (in_place ? 0 : height); ++i)
        std::ranges::copy(to.subspan(i * width, width),
                          out.begin() + static_cast<std::ptrdiff_t>(first + i * where.columns));
    }
  }

  /// Compares the type, shape and CRC-32 of stored rectangles with the manifest. The ranks divide
  /// the rectangles among themselves: this call checks the rectangles with the numbers `rank`,
  /// `rank + ranks`, ...
  ///
  /// Errors: input_error that names the file, the tensor and both numbers.
  void verify(std::size_t rank, std::size_t ranks);

 private:
  struct known {
    checkpoint_tensor const* whole = nullptr;
    std::vector<checkpoint_block const*> blocks{};
  };

  static parameter_rectangle rectangle_of(std::vector<std::size_t> const& offset,
                                          std::vector<std::size_t> const& extent);

  known const& find(std::string const& name, std::vector<std::size_t> const& sizes) const;

  safetensors_reader const& file(std::string const& name) { return files_.file(name); }

  std::filesystem::path folder_;
  checkpoint_manifest const& manifest_;
  std::size_t element_bytes_;
  open_weights files_;
  std::map<std::string, known, std::less<>> tensors_{};
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/checkpoint/state_reader.ipp"
#endif
