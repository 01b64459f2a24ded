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
              "plait/data/token_shards.hpp: token files are little-endian and this machine is not; "
              "it needs conversions that plait does not have");

/// The options of `plait::token_shards`.
struct token_options {
  /// Tokens of a sample.
  std::size_t sequence = 0;
  /// Tokens are below it.
  std::size_t vocabulary = 0;
};

namespace detail {

/// A file of tokens, mapped: a header of 256 little-endian int32, which begins with 20240520, 1 and
/// the number of tokens, and behind it the tokens as uint16; or with 20240801, 7, that number, and
/// uint32.
///
/// Errors: input_error if the file is missing, not a regular file or not readable; if it has no
///         such header or not as many tokens as the header says.
class token_shard {
 public:
  explicit token_shard(std::filesystem::path const& path)
      : token_shard(open_file(path, "token file"), path) {}

  [[nodiscard]] file_name const& name() const { return name_; }
  /// That without its folders.
  [[nodiscard]] std::string const& short_name() const { return short_name_; }
  [[nodiscard]] std::size_t tokens() const { return count_; }
  [[nodiscard]] std::size_t token_bytes() const { return token_bytes_; }

  /// Copies the tokens from `at` on.
  ///
  /// Errors: input_error with the place of a token that is not below `vocabulary`.
  void copy(std::size_t at, std::span<std::int32_t> out, std::size_t vocabulary) const;

 private:
  struct kind {
    std::int32_t magic, version;
    std::size_t token_bytes;
  };
  static constexpr std::array<kind, 2> kinds{{{20240520, 1, 2}, {20240801, 7, 4}}};
  static constexpr std::size_t header_bytes = 256 * sizeof(std::int32_t);

  token_shard(open_file const& file, std::filesystem::path const& path);

  /// Returns the largest.
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

/// The tokens of several files, one file behind the other, cut into sequences, each token to be
/// predicted from those before it: the inputs of sample i are the tokens from i * sequence on, its
/// targets the same shifted by one. Samples are those of one file with the same tokens, so that a
/// sequence may begin in one file and end in the next. Tokens that do not fill a last sequence are
/// not used.
///
/// A file has a header of 256 little-endian int32, which begins with 20240520, 1 and the number of
/// tokens, and behind it the tokens as uint16: what the data scripts of llm.c write for GPT-2, and
/// scripts/make_tokens. For vocabularies above 65 536 it begins with 20240801, 7 and that number,
/// and has uint32. The files are all of one kind; in all they may have more than 2^31 tokens.
///
/// Shapes: inputs, targets of a sample (sequence), values 0 to vocabulary - 1.
/// Cost:   files are mapped, not copied; of each only the header is read when it is opened. They
///         must not change while the object lives: reading what was cut off ends the program by the
///         signal SIGBUS.
/// Errors: input_error, from inputs and targets, with the file and the place of a token that is not
///         below the vocabulary.
/// Threads: all members are const and may run at the same time.
/// Source: github.com/karpathy/llm.c, dev/data/data_common.py
class token_shards {
 public:
  using concept_tag = dataset_tag;
  using element = std::int32_t;

  /// Errors: input_error if no file is given, the sequence or the vocabulary is 0 or the latter
  ///         above 2^31; if a file is missing, not a regular file or not readable, has no such
  ///         header, not as many tokens as the header says, or tokens of another kind than the
  ///         first; if all together have fewer than sequence + 1 tokens.
  token_shards(std::vector<std::filesystem::path> const& files, token_options const& options);

  /// Returns all files of a folder whose names end with .bin and do not begin with a dot, in the
  /// order of the names.
  ///
  /// Errors: as the constructor, and input_error if the folder cannot be read or has none.
  [[nodiscard]] static token_shards in_folder(std::filesystem::path const& folder,
                                              token_options const& options);

  [[nodiscard]] std::size_t size() const { return (tokens_ - 1) / options_.sequence; }
  [[nodiscard]] std::size_t sequence_length() const { return options_.sequence; }
  [[nodiscard]] std::size_t vocabulary() const { return options_.vocabulary; }
  /// Those of all files.
  [[nodiscard]] std::size_t tokens() const { return tokens_; }

  /// Its files and numbers, as a text.
  [[nodiscard]] std::string description() const;

  void inputs(std::size_t sample, std::span<std::int32_t> out) const { copy(sample, 0, out); }
  void targets(std::size_t sample, std::span<std::int32_t> out) const { copy(sample, 1, out); }

 private:
  [[noreturn]] void refuse_size() const;

  void copy(std::size_t sample, std::size_t shift, std::span<std::int32_t> out) const;

  token_options options_;
  std::vector<detail::token_shard> shards_;
  std::vector<std::size_t> firsts_;  // the number of each shard's first token
  std::size_t tokens_ = 0;
};

static_assert(ext::token_dataset<token_shards>);

}  // namespace plait

#if PLAIT_HEADER_ONLY
#include "plait/data/token_shards.ipp"
#endif
