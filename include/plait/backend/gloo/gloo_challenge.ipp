// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/gloo/gloo_challenge.hpp"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <cstdint>

#include "plait/backend/process/process_engine.hpp"

namespace plait::detail {

PLAIT_DECL std::string hmac_sha256(std::string_view key, std::string_view text) {
  std::string out(EVP_MAX_MD_SIZE, '\0');
  unsigned bytes = 0;
  auto const* const begin = reinterpret_cast<unsigned char const*>(text.data());
  if (::HMAC(::EVP_sha256(), key.data(), static_cast<int>(key.size()), begin, text.size(),
             reinterpret_cast<unsigned char*>(out.data()), &bytes) == nullptr)
    throw engine_error("gloo: OpenSSL cannot compute HMAC-SHA-256");
  out.resize(bytes);
  return out;
}

PLAIT_DECL std::string random_bytes() {
  std::string out(32, '\0');
  if (::getentropy(out.data(), out.size()) != 0)
    throw engine_error("gloo: the system does not provide random numbers");
  return out;
}

PLAIT_DECL std::optional<std::string> gloo_challenge::answer(std::string_view question,
                                                             int member) const {
  if (question.size() != question_bytes || !question.starts_with(mark)) return std::nullopt;
  std::string out(mark);
  for (std::size_t i = 0; i < rank_bytes; ++i)
    out += static_cast<char>(static_cast<std::uint32_t>(rank_) >> 8 * i & 0xffu);
  out += random_bytes();
  return out + code("answer", question, out, rank_, member);
}

PLAIT_DECL std::optional<int> gloo_challenge::who(std::string_view question,
                                                  std::string_view answer) const {
  if (answer.size() != answer_bytes || !answer.starts_with(mark)) return std::nullopt;
  std::uint32_t from = 0;
  for (std::size_t i = 0; i < rank_bytes; ++i)
    from |= std::uint32_t{static_cast<unsigned char>(answer[mark.size() + i])} << 8 * i;
  if (from >= addresses_.size() || static_cast<int>(from) <= rank_) return std::nullopt;
  auto const member = static_cast<int>(from);
  auto const said = answer.substr(answer_bytes - code_bytes);
  if (!is_same(said, code("answer", question, answer, member, rank_))) return std::nullopt;
  return member;
}

PLAIT_DECL std::string gloo_challenge::code(std::string_view what, std::string_view question,
                                            std::string_view answer, int from, int to) const {
  std::string text;
  auto const add = [&](std::string_view field) {
    for (int shift = 0; shift < 64; shift += 8)
      text += static_cast<char>(std::uint64_t{field.size()} >> shift & 0xffu);
    text += field;
  };
  add("plait: processes of one job over Gloo");
  add(what);
  add(of_.rendezvous);
  for (int const member : {from, to}) {
    add(std::to_string(member));
    add(addresses_[static_cast<std::size_t>(member)]);
  }
  add(question);
  add(answer.substr(0, answer_bytes - code_bytes));
  return hmac_sha256(of_.key, text);
}

}  // namespace plait::detail
