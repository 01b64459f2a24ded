// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "plait/core/error.hpp"
#include "plait/core/file.hpp"
#include "plait/data/dataset.hpp"

namespace plait {

static_assert(std::endian::native == std::endian::little,
              "plait/data/token_file.hpp: token files are little-endian and this machine is not; "
              "it needs conversions that plait does not have");

/// A file of tokens cut into sequences, each token to be predicted from those before it: the inputs
/// of sample i are the tokens from i * sequence on, its targets the same shifted by one. Tokens
/// that do not fill a last sequence are not used.
///
/// The file has a header of 256 little-endian int32, which begins with 20240520, 1 and the number
/// of tokens, and behind it the tokens as uint16: what the data scripts of llm.c write for GPT-2.
///
/// Shapes: inputs, targets of a sample (sequence), values 0 to vocabulary - 1.
/// Cost:   the file is mapped, not copied; it is read once when it is opened, to check its tokens.
///         It must not change while the object lives: tokens are not checked again, and reading
///         what was cut off ends the program by the signal SIGBUS.
/// Source: github.com/karpathy/llm.c, dev/data/data_common.py
class token_file {
 public:
  using concept_tag = dataset_tag;
  using element = std::int32_t;

  /// Errors: input_error if `sequence` is 0; if the file is missing, not a regular file or not
  ///         readable; if it has no such header or not as many tokens as the header says, fewer
  ///         than sequence + 1, or one that is not below `vocabulary`.
  token_file(std::filesystem::path const& path, std::size_t sequence, std::size_t vocabulary)
      : token_file(detail::open_file(path, "token file"), sequence, vocabulary) {}

  [[nodiscard]] std::size_t size() const { return (tokens_.size() - 1) / sequence_; }
  [[nodiscard]] std::size_t sequence_length() const { return sequence_; }
  [[nodiscard]] std::size_t tokens() const { return tokens_.size(); }

  void inputs(std::size_t sample, std::span<std::int32_t> out) const { copy(sample, 0, out); }
  void targets(std::size_t sample, std::span<std::int32_t> out) const { copy(sample, 1, out); }

 private:
  static constexpr std::int32_t magic = 20240520, version = 1;
  static constexpr std::size_t header_bytes = 256 * sizeof(std::int32_t);

  token_file(detail::open_file const& file, std::size_t sequence, std::size_t vocabulary)
      : file_(file), sequence_(sequence) {
    if (sequence == 0) throw input_error("token_file: the sequence length must be at least 1");
    auto const& name = file.name();
    auto const bytes = file_.bytes();
    if (bytes.size() < header_bytes)
      name.refuse("has " + std::to_string(bytes.size()) + " bytes, fewer than its header of " +
                  std::to_string(header_bytes));
    std::array<std::int32_t, 3> header{};
    file.read(std::as_writable_bytes(std::span(header)), 0);
    if (header[0] != magic)
      name.refuse("begins with " + std::to_string(header[0]) + " instead of " +
                  std::to_string(magic) +
                  ": it is no file of 16 bit tokens behind a header of 256 int32 (bare tokens need "
                  "the header)");
    if (header[1] != version)
      name.refuse("has version " + std::to_string(header[1]) + ", only version " +
                  std::to_string(version) + " can be read");
    if (header[2] < 0 ||
        (bytes.size() - header_bytes) != sizeof(std::uint16_t) * std::size_t(header[2]))
      name.refuse("should have " + std::to_string(header[2]) + " tokens by its header, but " +
                  std::to_string(bytes.size() - header_bytes) + " bytes follow it");
    tokens_ = {reinterpret_cast<std::uint16_t const*>(bytes.data() + header_bytes),
               std::size_t(header[2])};
    if (tokens_.empty() || tokens_.size() - 1 < sequence)
      name.refuse("has " + std::to_string(tokens_.size()) + " tokens; one sequence of " +
                  std::to_string(sequence) + " needs at least " + std::to_string(sequence) +
                  " + 1");
    if (auto const largest = std::ranges::max_element(tokens_); *largest >= vocabulary)
      name.refuse("has the token " + std::to_string(*largest) + " at place " +
                  std::to_string(largest - tokens_.begin()) + ", the vocabulary has only " +
                  std::to_string(vocabulary));
  }

  void copy(std::size_t sample, std::size_t shift, std::span<std::int32_t> out) const {
    if (sample >= size() || out.size() != sequence_)
      throw size_mismatch("token_file: sample " + std::to_string(sample) + " of " +
                          std::to_string(size()) + " into a span of " + std::to_string(out.size()) +
                          ", the sequence length is " + std::to_string(sequence_));
    std::ranges::copy(tokens_.subspan(sample * sequence_ + shift, sequence_), out.begin());
  }

  detail::mapped_file file_;
  std::span<std::uint16_t const> tokens_;
  std::size_t sequence_;
};

static_assert(ext::token_dataset<token_file>);

}  // namespace plait
