// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "plait/core/error.hpp"
#include "plait/core/file.hpp"
#include "plait/core/header_only.hpp"

// The kinds of files that users mistake for a file that plait reads, told apart by their first
// bytes. All readers of such files use these functions, so that they call a file by the same name.
namespace plait::detail {

enum class file_kind {
  unknown,
  git_lfs_pointer,
  apple_double,
  html,
  json,
  utf16_text,
  gzip,
  bzip2,
  xz,
  zstd,
  tar,
  zip,
  torch,              ///< written by torch.save
  torch_distributed,  ///< written by torch.distributed.checkpoint
  pickle,
  npy,
  npz,
  hdf5,
  gguf,
  parquet,
  arrow,
  excel,
  picture,        ///< a JPEG or a PNG
  other_picture,  ///< GIF, WebP, BMP, TIFF
  pdf,
  safetensors,
  tokens  ///< begins with the header of llm.c
};

/// The purposes for which plait reads a file.
enum class file_use { weights, table, tokens, picture, text };

/// The number of first bytes that tell the kind of a file.
inline constexpr std::size_t bytes_of_kind = 512;

/// Returns the kind of a file that has this name and begins with these bytes, up to bytes_of_kind
/// of them.
[[nodiscard]] [[gnu::cold]] file_kind kind_of_file(std::string_view begin, std::string_view path);

/// Returns the end of a sentence that begins with the name of a file: its kind, and what the user
/// can do about it.
///
/// Source: tests/oracle/real_weights.py runs the commands in these texts.
[[nodiscard]] [[gnu::cold]] std::string text_of_kind(file_kind kind, std::string const& path,
                                                     file_use use);

/// Says that a file is of a kind that cannot be used for a purpose, and what to do: "is compressed
/// by gzip; unpack it first: ...". Empty if the kind can be used or is not known.
[[nodiscard]] [[gnu::cold]] std::string other_kind_text(std::string_view begin,
                                                        std::string const& path, file_use use);

[[nodiscard]] [[gnu::cold]] std::string beginning_of(open_file const& file);

/// Errors: input_error that says what the file is, if its kind cannot be used for that purpose.
[[gnu::cold]] void refuse_other_kind(open_file const& file, std::string const& path, file_use use);

/// Returns the text of other_kind_text for a file that seems to have weights in another format than
/// safetensors; empty if it has none or cannot be read.
[[nodiscard]] [[gnu::cold]] std::string other_weights_text(std::string const& path);

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/core/file_kind.ipp"
#endif
