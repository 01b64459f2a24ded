// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plait/core/file.hpp"
#include "plait/core/file_kind.hpp"
#include "plait/core/header_only.hpp"
#include "plait/data/dataset.hpp"

namespace plait {

static_assert(std::endian::native == std::endian::little,
              "plait/data/token_shards.hpp: token files are little-endian, but this machine is "
              "not, and plait cannot convert them");

}  // namespace plait

namespace plait::ext {

/// The options of `plait::token_shards`.
struct token_options {
  /// The number of tokens in a sample.
  std::size_t sequence = 0;
  /// The number of different tokens: each token is from 0 to vocabulary - 1.
  std::size_t vocabulary = 0;
  /// If true, each token `end_of_text` ends a document. The loss then ignores the target of this
  /// token, which is the first token of the next document, and layers that read documents keep the
  /// documents of a sample apart.
  bool pack = false;
  std::int64_t end_of_text = -1;  ///< negative: not given
};

}  // namespace plait::ext

namespace plait {

namespace detail {

/// A mapped file of tokens: a header of 256 little-endian int32, then the tokens. If the header
/// begins with 20240520, 1 and the number of tokens, the tokens are uint16; if it begins with
/// 20240801, 7 and the number of tokens, they are uint32.
///
/// Errors: input_error if the file is missing, not a regular file or not readable; if it does not
///         have such a header, or if the number of tokens differs from the header.
class token_shard {
 public:
  explicit token_shard(std::filesystem::path const& path)
      : token_shard(open_file(path, "token file"), path) {}

  [[nodiscard]] file_name const& name() const { return name_; }
  /// Returns the name of the file, without the folders of its path.
  [[nodiscard]] std::string const& short_name() const { return short_name_; }
  [[nodiscard]] std::size_t tokens() const { return count_; }
  [[nodiscard]] std::size_t token_bytes() const { return token_bytes_; }

  /// Copies tokens, from index `at` on, into `out`.
  ///
  /// Errors: input_error with the position of a token that is not below `vocabulary`.
  void copy(std::size_t at, std::span<std::int32_t> out, std::size_t vocabulary) const;

 private:
  struct kind {
    std::int32_t magic, version;
    std::size_t token_bytes;
  };
  static constexpr std::array<kind, 2> kinds{{{20240520, 1, 2}, {20240801, 7, 4}}};
  static constexpr std::size_t header_bytes = 256 * sizeof(std::int32_t);

  token_shard(open_file const& file, std::filesystem::path const& path);

  /// Copies tokens and returns the largest of them.
  template <class Token>
  static std::uint32_t copy_as(std::byte const* from, std::span<std::int32_t> out) {
    std::uint32_t largest = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
      Token token;  // NOLINT: set by memcpy
      std::memcpy(&token, from + i * sizeof token, sizeof token);
      largest = std::max<std::uint32_t>(largest, token);
      out[i] = static_cast<std::int32_t>(token);
    }
    return largest;
  }

  file_name name_;
  std::string short_name_;
  mapped_file file_;
  std::size_t token_bytes_ = 0, count_ = 0;
};

}  // namespace detail

/// The tokens of several files, concatenated and cut into sequences, as a data set for a language
/// model that predicts each token from the tokens before it. The inputs of sample i are `sequence`
/// tokens, beginning at token i * sequence; its targets are the tokens that follow each of them. A
/// split of one file into several files does not change the samples: a sequence may begin in one
/// file and end in the next. Tokens after the last full sequence are not used.
///
/// A file has a header of 256 little-endian int32, then the tokens. If the header begins with
/// 20240520, 1 and the number of tokens, the tokens are uint16. The data scripts of llm.c for GPT-2
/// and scripts/make_tokens write such files. For vocabularies above 65 536, the header begins with
/// 20240801, 7 and the number of tokens, and the tokens are uint32. All files must have the same
/// type of tokens; together they may have more than 2^31 tokens.
///
/// Shapes: inputs, targets of a sample (sequence), values 0 to vocabulary - 1.
/// Cost:   files are mapped, not copied; only the header of each file is read by the constructor.
///         The files must not change while the object exists: if a file is cut off, reading the
///         missing part ends the program with the signal SIGBUS.
/// Errors: inputs and targets throw input_error with the file and the position of a token that is
///         not below the vocabulary.
/// Threads: all members are const and may run at the same time.
/// Source: github.com/karpathy/llm.c, dev/data/data_common.py
class token_shards {
 public:
  using concept_tag = dataset_tag;
  using element = std::int32_t;

  /// Makes a data set from the files, in their order in the list.
  ///
  /// Errors: input_error if `files` is empty, the sequence or the vocabulary is 0, or the
  ///         vocabulary is above 2^31; if `.pack` is true without an `.end_of_text` below the
  ///         vocabulary, or false with an `.end_of_text`; if a file is missing, not a regular file
  ///         or not readable, lacks such a header or some of the tokens that the header counts, or
  ///         if its type of tokens differs from the type in the first file; or if all files
  ///         together have fewer than sequence + 1 tokens.
  token_shards(std::vector<std::filesystem::path> const& files, ext::token_options const& options);

  /// Makes a data set from all files of a folder whose names end with .bin and do not begin with a
  /// dot, in the order of their names.
  ///
  /// Errors: the errors of the constructor; input_error if the folder cannot be read or has no such
  ///         file.
  [[nodiscard]] static token_shards in_folder(std::filesystem::path const& folder,
                                              ext::token_options const& options);

  [[nodiscard]] std::size_t size() const { return (tokens_ - 1) / options_.sequence; }
  [[nodiscard]] std::size_t sequence_length() const { return options_.sequence; }
  [[nodiscard]] std::size_t vocabulary() const { return options_.vocabulary; }
  /// Returns the number of tokens of all files together.
  [[nodiscard]] std::size_t tokens() const { return tokens_; }

  /// Returns a text with the files and their numbers of tokens, by which ranks and checkpoints
  /// compare data sets.
  [[nodiscard]] std::string description() const;

  void inputs(std::size_t sample, std::span<std::int32_t> out) const { copy(sample, 0, out); }
  void targets(std::size_t sample, std::span<std::int32_t> out) const;
  /// Writes the number of the document of each token, counted from 0 in the sample.
  void documents(std::size_t sample, std::span<std::int32_t> out) const;
  [[nodiscard]] bool has_documents() const { return options_.pack; }

 private:
  [[noreturn]] void refuse_size() const;

  void copy(std::size_t sample, std::size_t shift, std::span<std::int32_t> out) const;
  /// Copies tokens from index `at` of the concatenation on.
  void copy_from(std::size_t at, std::span<std::int32_t> out) const;

  ext::token_options options_;
  std::vector<detail::token_shard> shards_;
  std::vector<std::size_t> firsts_;  // the index of each file's first token in the concatenation
  std::size_t tokens_ = 0;
};

static_assert(ext::token_dataset<token_shards>);

}  // namespace plait

#if PLAIT_HEADER_ONLY
#include "plait/data/token_shards.ipp"
#endif
