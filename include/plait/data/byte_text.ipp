// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/core/file_kind.hpp"
#include "plait/data/byte_text.hpp"

#include <algorithm>
#include <exception>

#include "plait/core/error.hpp"
#include "plait/core/file.hpp"
#include "plait/core/quote.hpp"
#include "plait/data/packed_documents.hpp"

namespace plait::detail {

PLAIT_DECL void append_file(std::string& text, std::string const& path) {
  open_file const file(path, "text file");
  refuse_other_kind(file, path, file_use::text);
  std::size_t const before = text.size();
  try {
    text.resize(before + file.size());
  } catch (std::exception const&) {  // std::bad_alloc or std::length_error
    file.name().refuse(concat({"has ", file.size(), " bytes, which do not fit into memory"}));
  }
  file.read(std::as_writable_bytes(std::span(text).subspan(before)), 0);
}

}  // namespace plait::detail

namespace plait {

PLAIT_DECL byte_text byte_text::from_text(std::string text, ext::text_options const& options,
                                          std::string_view source) {
  if (options.sequence == 0) throw input_error("byte_text: the sequence length must be at least 1");
  detail::check_packing("byte_text", options.pack, options.end_of_text, vocabulary);
  if (text.empty()) throw input_error({source, " is empty"});
  if (text.size() - 1 < options.sequence)
    throw input_error({source, " has ", text.size(), " bytes; one sequence of ", options.sequence,
                       " needs at least ", options.sequence, " + 1"});
  return byte_text(std::move(text), options);
}

PLAIT_DECL byte_text byte_text::from_file(std::string const& path,
                                          ext::text_options const& options) {
  std::string text;
  detail::append_file(text, path);
  return from_text(std::move(text), options,
                   ext::concat({"text file ", detail::path_in_quotes(path)}));
}

PLAIT_DECL void byte_text::copy(std::size_t sample, std::size_t shift,
                                std::span<std::int32_t> out) const {
  detail::check_sample("byte_text", sample, size(), out.size(), options_.sequence);
  char const* const begin = text_.data() + sample * options_.sequence + shift;
  std::transform(begin, begin + options_.sequence, out.begin(), [](char byte) {
    return static_cast<std::int32_t>(static_cast<unsigned char>(byte));
  });
}

PLAIT_DECL void byte_text::targets(std::size_t sample, std::span<std::int32_t> out) const {
  copy(sample, 1, out);
  if (!options_.pack) return;
  auto const first = static_cast<unsigned char>(text_[sample * options_.sequence]);
  detail::ignore_targets_of_ends(out, first, options_.end_of_text);
}

PLAIT_DECL void byte_text::documents(std::size_t sample, std::span<std::int32_t> out) const {
  copy(sample, 0, out);
  detail::number_documents(out, options_.end_of_text);
}

}  // namespace plait
