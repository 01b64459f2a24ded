// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plait/backend/process/process_engine.hpp"

namespace plait::detail {

/// 32 bytes that nobody makes without the key (RFC 2104, with SHA-256).
[[nodiscard]] inline std::string hmac_sha256(std::string_view key, std::string_view text) {
  std::string out(EVP_MAX_MD_SIZE, '\0');
  unsigned bytes = 0;
  auto const* const begin = reinterpret_cast<unsigned char const*>(text.data());
  if (::HMAC(::EVP_sha256(), key.data(), static_cast<int>(key.size()), begin, text.size(),
             reinterpret_cast<unsigned char*>(out.data()), &bytes) == nullptr)
    throw engine_error("gloo: OpenSSL makes no HMAC of SHA-256");
  out.resize(bytes);
  return out;
}

/// 32 bytes of the system's that nobody can foresee.
[[nodiscard]] inline std::string random_bytes() {
  std::string out(32, '\0');
  if (::getentropy(out.data(), out.size()) != 0)
    throw engine_error("gloo: the system gives no random numbers");
  return out;
}

/// Which rendezvous of which job the connections are of; `key` is what only its processes know.
struct gloo_identity {
  std::string key, rendezvous;
};

/// What the two ends of a new connection say to each other, so that each knows that the other has
/// the key and is the rank that it says, of this rendezvous. Who is connected to asks, who connects
/// answers, and who asked proves the same in turn:
///
///     question: a random number
///     answer:   its rank, a random number, HMAC("answer", rendezvous, ranks, addresses, numbers)
///     proof:    HMAC("proof", the same)
///
/// A member with the higher rank connects to that with the lower. Each message has a size of its
/// own, and nothing of the rendezvous is in one but the rank.
class gloo_challenge {
 public:
  /// `addresses`: where each member is connected to.
  gloo_challenge(gloo_identity of, int rank, std::vector<std::string> addresses)
      : of_(std::move(of)), rank_(rank), addresses_(std::move(addresses)) {}

  static constexpr std::size_t number_bytes = 32, code_bytes = 32;
  static constexpr std::string_view mark = "plait 1\n";
  static constexpr std::size_t question_bytes = mark.size() + number_bytes, rank_bytes = 4,
                               answer_bytes = mark.size() + rank_bytes + number_bytes + code_bytes,
                               proof_bytes = code_bytes;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] std::vector<std::string> const& addresses() const { return addresses_; }

  [[nodiscard]] static std::string question() { return std::string(mark) + random_bytes(); }

  /// To the question of `member`; nothing if it is none.
  [[nodiscard]] std::optional<std::string> answer(std::string_view question, int member) const {
    if (question.size() != question_bytes || !question.starts_with(mark)) return std::nullopt;
    std::string out(mark);
    for (std::size_t i = 0; i < rank_bytes; ++i)
      out += static_cast<char>(static_cast<std::uint32_t>(rank_) >> 8 * i & 0xffu);
    out += random_bytes();
    return out + code("answer", question, out, rank_, member);
  }
  /// Which member has answered; nothing if none of those that connect to this one has.
  [[nodiscard]] std::optional<int> who(std::string_view question, std::string_view answer) const {
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
  /// For `member`, whose answer it was.
  [[nodiscard]] std::string proof(std::string_view question, std::string_view answer,
                                  int member) const {
    return code("proof", question, answer, member, rank_);
  }
  /// Whether it is that of `member`, for this one's answer.
  [[nodiscard]] bool proves(std::string_view proof, std::string_view question,
                            std::string_view answer, int member) const {
    return is_same(proof, code("proof", question, answer, rank_, member));
  }

 private:
  /// Each field behind its size, so that no two lists of fields are one text.
  [[nodiscard]] std::string code(std::string_view what, std::string_view question,
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
  static bool is_same(std::string_view one, std::string_view other) {
    return one.size() == other.size() && ::CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
  }

  gloo_identity of_;
  int rank_;
  std::vector<std::string> addresses_;
};

}  // namespace plait::detail
