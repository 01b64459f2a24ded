// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/core/file_kind.hpp"
#include "plait/data/byte_text.hpp"

#include <algorithm>
#include <exception>

#include "plait/core/error.hpp"
#include "plait/core/file.hpp"
#include "plait/core/quote.hpp"

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

PLAIT_DECL byte_text byte_text::from_text(std::string text, std::size_t sequence,
                                          std::string const& source) {
  if (sequence == 0) throw input_error("byte_text: the sequence length must be at least 1");
  if (text.empty()) throw input_error({source, " is empty"});
  if (text.size() - 1 < sequence)
    throw input_error({source, " has ", text.size(), " bytes; one sequence of ", sequence,
                       " needs at least ", sequence, " + 1"});
  return byte_text(std::move(text), sequence);
}

PLAIT_DECL byte_text byte_text::from_file(std::string const& path, std::size_t sequence) {
  std::string text;
  detail::append_file(text, path);
  return from_text(std::move(text), sequence,
                   ext::concat({"text file ", detail::path_in_quotes(path)}));
}

PLAIT_DECL void byte_text::copy(std::size_t sample, std::size_t shift,
                                std::span<std::int32_t> out) const {
  detail::check_sample("byte_text", sample, size(), out.size(), sequence_);
  char const* const begin = text_.data() + sample * sequence_ + shift;
  std::transform(begin, begin + sequence_, out.begin(), [](char byte) {
    return static_cast<std::int32_t>(static_cast<unsigned char>(byte));
  });
}

}  // namespace plait
