// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "plait/core/concat.hpp"
#include "plait/core/header_only.hpp"
#include "plait/data/dataset.hpp"

namespace plait::ext {

/// The options of `plait::byte_text`.
struct text_options {
  std::size_t sequence = 0;       ///< the number of bytes in a sample
  bool pack = false;              ///< as token_options::pack
  std::int64_t end_of_text = -1;  ///< the byte that ends each document; negative: not given
};

}  // namespace plait::ext

namespace plait {

namespace detail {

void append_file(std::string& text, std::string const& path);

}  // namespace detail

/// A text as a data set for a language model that predicts each byte from the bytes before it. The
/// text is cut into sequences. The inputs of sample i are `sequence` bytes, beginning at byte i *
/// sequence; its targets are the bytes that follow each of them. With sequence 4, "to be or not"
/// has the samples "to b" and "e or"; bytes after the last complete sequence are not used.
///
/// Shapes: inputs, targets of a sample (sequence), values 0 to 255.
/// Cost:   the text is read once and held in memory.
///
/// Example (tests/reference/names_in_use_test.cpp byte_text):
///     auto const text = plait::byte_text::from_text("to be or not", 4);  // 4 bytes each
class byte_text {
 public:
  using concept_tag = dataset_tag;
  using element = std::int32_t;

  /// The number of values that a token can have.
  static constexpr std::size_t vocabulary = 256;

  /// Makes a data set from a text in memory; error messages call the text `source`.
  ///
  /// Errors: input_error if `sequence` is 0, or the text is shorter than sequence + 1 bytes.
  [[nodiscard]] static byte_text from_text(std::string text, std::size_t sequence,
                                           std::string_view source = "the text") {
    return from_text(std::move(text), ext::text_options{.sequence = sequence}, source);
  }
  /// Makes a data set from a text of several documents: `byte_text::from_text(text, {.sequence =
  /// 64, .pack = true, .end_of_text = '\n'})`.
  ///
  /// Errors: also input_error if `.pack` is true without an `.end_of_text` from 0 to 255, or false
  ///         with an `.end_of_text`.
  [[nodiscard]] static byte_text from_text(std::string text, ext::text_options const& options,
                                           std::string_view source = "the text");

  /// Makes a data set from a file.
  ///
  /// Errors: the errors of from_text; input_error if the file is missing, not a regular file or not
  ///         readable. Also input_error if the first bytes show that the file is not a text but,
  ///         for example, compressed, a pointer of Git LFS or a file of weights; to use such bytes
  ///         nevertheless, read them and call from_text.
  [[nodiscard]] static byte_text from_file(std::string const& path, std::size_t sequence) {
    return from_file(path, ext::text_options{.sequence = sequence});
  }
  /// \overload
  [[nodiscard]] static byte_text from_file(std::string const& path,
                                           ext::text_options const& options);

  /// Makes a data set from several files, joined without a separator. `paths` is a range of paths
  /// or of strings.
  ///
  /// Errors: the errors of from_file, but some of the files may be empty.
  template <class Paths = std::span<std::string const>>
  [[nodiscard]] static byte_text from_files(Paths const& paths, std::size_t sequence) {
    return from_files(paths, ext::text_options{.sequence = sequence});
  }
  /// \overload
  template <class Paths = std::span<std::string const>>
  [[nodiscard]] static byte_text from_files(Paths const& paths, ext::text_options const& options) {
    std::string text;
    for (auto const& path : paths) detail::append_file(text, path);
    return from_text(std::move(text), options,
                     ext::concat({"the text of ", paths.size(), " files"}));
  }

  [[nodiscard]] std::size_t size() const { return (text_.size() - 1) / options_.sequence; }
  [[nodiscard]] std::size_t sequence_length() const { return options_.sequence; }
  [[nodiscard]] std::size_t bytes() const { return text_.size(); }

  void inputs(std::size_t sample, std::span<std::int32_t> out) const { copy(sample, 0, out); }
  void targets(std::size_t sample, std::span<std::int32_t> out) const;
  /// Writes the number of the document of each byte, counted from 0 in the sample.
  void documents(std::size_t sample, std::span<std::int32_t> out) const;
  [[nodiscard]] bool has_documents() const { return options_.pack; }

 private:
  byte_text(std::string text, ext::text_options const& options)
      : text_(std::move(text)), options_(options) {}

  void copy(std::size_t sample, std::size_t shift, std::span<std::int32_t> out) const;

  std::string text_;
  ext::text_options options_;
};

static_assert(ext::token_dataset<byte_text>);

}  // namespace plait

#if PLAIT_HEADER_ONLY
#include "plait/data/byte_text.ipp"
#endif
