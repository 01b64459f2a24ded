// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "plait/core/error.hpp"
#include "plait/core/file.hpp"
#include "plait/core/header_only.hpp"

// The kinds of files that users mistake for a file that plait reads. They are recognised by their
// first bytes. All readers of such files use these functions, so that errors call a kind by the
// same name.
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
  tokens  ///< has the header of llm.c's token files
};

/// The purposes for which plait reads a file.
enum class file_use { weights, table, tokens, picture, text };

/// The number of bytes at the beginning of a file that suffice to recognise its kind.
inline constexpr std::size_t bytes_of_kind = 512;

/// Recognises the kind of a file by its name and its first bytes. `begin` contains at most
/// bytes_of_kind of these bytes.
[[nodiscard]] [[gnu::cold]] file_kind kind_of_file(std::string_view begin, std::string_view path);

/// Returns the part of an error message that follows the name of the file: the file's kind, and
/// advice for the user.
///
/// Source: tests/oracle/real_weights.py runs the commands in these texts.
[[nodiscard]] [[gnu::cold]] std::string text_of_kind(file_kind kind, std::string const& path,
                                                     file_use use);

/// If the kind of a file cannot be used for a purpose, returns the part of an error message that
/// follows the name of the file: the kind and advice, such as "is compressed by gzip; unpack it
/// first: ...". Returns an empty text if the kind can be used or is not known.
[[nodiscard]] [[gnu::cold]] std::string other_kind_text(std::string_view begin,
                                                        std::string const& path, file_use use);

[[nodiscard]] [[gnu::cold]] std::string beginning_of(open_file const& file);

/// Throws an error if the kind of a file cannot be used for a purpose.
///
/// Errors: input_error with the text of other_kind_text.
[[gnu::cold]] void refuse_other_kind(open_file const& file, std::string const& path, file_use use);

/// Returns the text of other_kind_text for a file that seems to have weights in a format other than
/// safetensors; empty for other files, and if the file cannot be read.
[[nodiscard]] [[gnu::cold]] std::string other_weights_text(std::string const& path);

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/core/file_kind.ipp"
#endif
