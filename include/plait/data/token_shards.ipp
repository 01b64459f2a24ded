// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/data/token_shards.hpp"

#include <system_error>

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/quote.hpp"
#include "plait/data/packed_documents.hpp"

namespace plait::detail {

PLAIT_DECL void token_shard::copy(std::size_t at, std::span<std::int32_t> out,
                                  std::size_t vocabulary) const {
  auto const* const from = file_.bytes().data() + header_bytes + at * token_bytes_;
  auto const largest = token_bytes_ == sizeof(std::uint16_t) ? copy_as<std::uint16_t>(from, out)
                                                             : copy_as<std::uint32_t>(from, out);
  if (largest < vocabulary) return;
  auto const bad = std::find_if(out.begin(), out.end(), [&](std::int32_t token) {
    return static_cast<std::uint32_t>(token) >= vocabulary;
  });
  name_.refuse(
      concat({"has the token ", static_cast<std::uint32_t>(*bad), " at place ",
              at + std::size_t(bad - out.begin()), ", but the vocabulary has only ", vocabulary}));
}

PLAIT_DECL token_shard::token_shard(open_file const& file, std::filesystem::path const& path)
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
    name_.refuse(concat(
        {"begins with ", header[0],
         " instead of 20240520 or 20240801: it is not a token file, which has a header of 256 "
         "int32 and then tokens of 16 or 32 bits; add the header to a file that has only tokens"}));
  if (header[1] != found->version)
    name_.refuse(
        concat({"has version ", header[1], ", but only version ", found->version, " can be read"}));
  token_bytes_ = found->token_bytes;
  count_ = static_cast<std::size_t>(header[2]);
  if (header[2] < 0 || bytes - header_bytes != token_bytes_ * count_)
    name_.refuse(
        concat({"should have ", header[2], " tokens of ", 8 * token_bytes_,
                " bits according to its header, but ", bytes - header_bytes, " bytes follow it"}));
}

}  // namespace plait::detail

namespace plait {

PLAIT_DECL token_shards::token_shards(std::vector<std::filesystem::path> const& files,
                                      ext::token_options const& options)
    : options_(options) {
  constexpr std::size_t most = std::size_t{1} << 31;
  if (options.sequence == 0)
    throw input_error("token_options::sequence is 0; the sequence length must be at least 1");
  if (options.vocabulary == 0 || options.vocabulary > most)
    throw input_error(
        {"token_options::vocabulary is ", options.vocabulary, "; it must be from 1 to ", most});
  detail::check_packing("token_options", options.pack, options.end_of_text, options.vocabulary);
  if (files.empty()) throw input_error("token_shards: the list of files is empty");
  shards_.reserve(files.size());
  firsts_.reserve(files.size());
  for (auto const& path : files) {
    auto const& shard = shards_.emplace_back(path);
    if (shard.token_bytes() != shards_[0].token_bytes())
      shard.name().refuse(ext::concat({"has tokens of ", 8 * shard.token_bytes(), " bits, but ",
                                       detail::path_in_quotes(files[0]), " tokens of ",
                                       8 * shards_[0].token_bytes(), " bits"}));
    firsts_.push_back(tokens_);
    tokens_ += shard.tokens();
  }
  if (tokens_ == 0 || tokens_ - 1 < options.sequence) refuse_size();
}

PLAIT_DECL token_shards token_shards::in_folder(std::filesystem::path const& folder,
                                                ext::token_options const& options) {
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

PLAIT_DECL std::string token_shards::description() const {
  std::string out = "token_shards(";
  if (shards_.size() > 1)
    out += ext::concat({shards_.size(), " files from ",
                        detail::path_in_quotes(shards_.front().short_name()), " to "});
  return ext::concat(
      {out, detail::path_in_quotes(shards_.back().short_name()), ", ", tokens_, " tokens of ",
       8 * shards_[0].token_bytes(), " bits, sequences of ", options_.sequence,
       ", a vocabulary of ", options_.vocabulary,
       (options_.pack ? ext::concat({", documents that end with token ", options_.end_of_text})
                      : std::string{}),
       ")"});
}

PLAIT_DECL void token_shards::refuse_size() const {
  std::string const needs = ext::concat({tokens_, " tokens; one sequence of ", options_.sequence,
                                         " needs at least ", options_.sequence, " + 1"});
  if (shards_.size() == 1) shards_[0].name().refuse(ext::concat({"has ", needs}));
  throw input_error({"token_shards: ", shards_.size(), " files have ", needs});
}

PLAIT_DECL void token_shards::copy(std::size_t sample, std::size_t shift,
                                   std::span<std::int32_t> out) const {
  detail::check_sample("token_shards", sample, size(), out.size(), options_.sequence);
  copy_from(sample * options_.sequence + shift, out);
}

PLAIT_DECL void token_shards::targets(std::size_t sample, std::span<std::int32_t> out) const {
  copy(sample, 1, out);
  if (!options_.pack) return;
  std::int32_t first_input = 0;
  copy_from(sample * options_.sequence, std::span(&first_input, 1));
  detail::ignore_targets_of_ends(out, first_input, options_.end_of_text);
}

PLAIT_DECL void token_shards::documents(std::size_t sample, std::span<std::int32_t> out) const {
  copy(sample, 0, out);
  detail::number_documents(out, options_.end_of_text);
}

PLAIT_DECL void token_shards::copy_from(std::size_t at, std::span<std::int32_t> out) const {
  // The file that contains token `at` is the last file whose first token has an index of at most
  // `at`.
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

}  // namespace plait
