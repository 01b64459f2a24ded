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
#include <system_error>
#include <utility>
#include <vector>

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/file.hpp"
#include "plait/core/file_kind.hpp"
#include "plait/core/quote.hpp"
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
  void copy(std::size_t at, std::span<std::int32_t> out, std::size_t vocabulary) const {
    auto const* const from = file_.bytes().data() + header_bytes + at * token_bytes_;
    auto const largest = token_bytes_ == sizeof(std::uint16_t) ? copy_as<std::uint16_t>(from, out)
                                                               : copy_as<std::uint32_t>(from, out);
    if (largest < vocabulary) return;
    auto const bad = std::find_if(out.begin(), out.end(), [&](std::int32_t token) {
      return static_cast<std::uint32_t>(token) >= vocabulary;
    });
    name_.refuse(
        concat({"has the token ", static_cast<std::uint32_t>(*bad), " at place ",
                at + std::size_t(bad - out.begin()), ", the vocabulary has only ", vocabulary}));
  }

 private:
  struct kind {
    std::int32_t magic, version;
    std::size_t token_bytes;
  };
  static constexpr std::array<kind, 2> kinds{{{20240520, 1, 2}, {20240801, 7, 4}}};
  static constexpr std::size_t header_bytes = 256 * sizeof(std::int32_t);

  token_shard(open_file const& file, std::filesystem::path const& path)
      : name_(file.name()), short_name_(path.filename().string()), file_(file) {
    std::size_t const bytes = file.size();
    refuse_other_kind(file, path, file_use::tokens);
    if (bytes < header_bytes)
      name_.refuse(concat({"has ", bytes, " bytes, fewer than its header of ", header_bytes}));
    std::array<std::int32_t, 3> header{};
    file.read(std::as_writable_bytes(std::span(header)), 0);
    auto const* const found = std::find_if(kinds.begin(), kinds.end(),
                                           [&](kind const& one) { return one.magic == header[0]; });
    if (found == kinds.end())
      name_.refuse(
          concat({"begins with ", header[0],
                  " instead of 20240520 or 20240801: it is no file of tokens of 16 or 32 bits "
                  "behind a header of 256 int32 (bare tokens need the header)"}));
    if (header[1] != found->version)
      name_.refuse(
          concat({"has version ", header[1], ", only version ", found->version, " can be read"}));
    token_bytes_ = found->token_bytes;
    count_ = static_cast<std::size_t>(header[2]);
    if (header[2] < 0 || bytes - header_bytes != token_bytes_ * count_)
      name_.refuse(concat({"should have ", header[2], " tokens of ", 8 * token_bytes_,
                           " bits by its header, but ", bytes - header_bytes, " bytes follow it"}));
  }

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
  token_shards(std::vector<std::filesystem::path> const& files, token_options const& options)
      : options_(options) {
    constexpr std::size_t most = std::size_t{1} << 31;
    if (options.sequence == 0)
      throw input_error("token_options::sequence is 0; the sequence length must be at least 1");
    if (options.vocabulary == 0 || options.vocabulary > most)
      throw input_error(
          {"token_options::vocabulary is ", options.vocabulary, "; it must be from 1 to ", most});
    if (files.empty()) throw input_error("token_shards: no file is given");
    shards_.reserve(files.size());
    firsts_.reserve(files.size());
    for (auto const& path : files) {
      auto const& shard = shards_.emplace_back(path);
      if (shard.token_bytes() != shards_[0].token_bytes())
        shard.name().refuse(ext::concat({"has tokens of ", 8 * shard.token_bytes(), " bits, but ",
                                         detail::path_in_quotes(files[0]), " those of ",
                                         8 * shards_[0].token_bytes(), " bits"}));
      firsts_.push_back(tokens_);
      tokens_ += shard.tokens();
    }
    if (tokens_ == 0 || tokens_ - 1 < options.sequence) refuse_size();
  }

  /// Returns all files of a folder whose names end with .bin and do not begin with a dot, in the
  /// order of the names.
  ///
  /// Errors: as the constructor, and input_error if the folder cannot be read or has none.
  [[nodiscard]] static token_shards in_folder(std::filesystem::path const& folder,
                                              token_options const& options) {
    std::vector<std::filesystem::path> files;
    std::error_code problem;
    std::filesystem::directory_iterator at(folder, problem);
    for (; !problem && at != std::filesystem::directory_iterator(); at.increment(problem))
      if (auto const& path = at->path();
          path.extension() == ".bin" && !path.filename().native().starts_with('.'))
        files.push_back(path);
    detail::file_name const name("folder of token files", folder);
    if (problem) name.fail("cannot be read", problem.value());
    if (files.empty()) name.refuse("has no file whose name ends with .bin");
    std::sort(files.begin(), files.end());
    return {files, options};
  }

  [[nodiscard]] std::size_t size() const { return (tokens_ - 1) / options_.sequence; }
  [[nodiscard]] std::size_t sequence_length() const { return options_.sequence; }
  [[nodiscard]] std::size_t vocabulary() const { return options_.vocabulary; }
  /// Those of all files.
  [[nodiscard]] std::size_t tokens() const { return tokens_; }

  /// Its files and numbers, as a text.
  [[nodiscard]] std::string description() const {
    std::string out = "token_shards(";
    if (shards_.size() > 1)
      out += ext::concat({shards_.size(), " files from ",
                          detail::path_in_quotes(shards_.front().short_name()), " to "});
    return ext::concat({out, detail::path_in_quotes(shards_.back().short_name()), ", ", tokens_,
                        " tokens of ", 8 * shards_[0].token_bytes(), " bits, sequences of ",
                        options_.sequence, ", a vocabulary of ", options_.vocabulary, ")"});
  }

  void inputs(std::size_t sample, std::span<std::int32_t> out) const { copy(sample, 0, out); }
  void targets(std::size_t sample, std::span<std::int32_t> out) const { copy(sample, 1, out); }

 private:
  [[noreturn]] void refuse_size() const {
    std::string const needs = ext::concat({tokens_, " tokens; one sequence of ", options_.sequence,
                                           " needs at least ", options_.sequence, " + 1"});
    if (shards_.size() == 1) shards_[0].name().refuse(ext::concat({"has ", needs}));
    throw input_error({"token_shards: ", shards_.size(), " files have ", needs});
  }

  void copy(std::size_t sample, std::size_t shift, std::span<std::int32_t> out) const {
    detail::check_sample("token_shards", sample, size(), out.size(), options_.sequence);
    std::size_t at = sample * options_.sequence + shift;
    // The last shard that begins there or before.
    auto number = static_cast<std::size_t>(std::upper_bound(firsts_.begin(), firsts_.end(), at) -
                                           firsts_.begin() - 1);
    for (; !out.empty(); ++number) {
      auto const& shard = shards_[number];
      std::size_t const within = at - firsts_[number];
      auto const part = out.first(std::min(out.size(), shard.tokens() - within));
      shard.copy(within, part, options_.vocabulary);
      at += part.size();
      out = out.subspan(part.size());
    }
  }

  token_options options_;
  std::vector<detail::token_shard> shards_;
  std::vector<std::size_t> firsts_;  // the number of each shard's first token
  std::size_t tokens_ = 0;
};

static_assert(ext::token_dataset<token_shards>);

}  // namespace plait
