// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <openssl/crypto.h>
#include <unistd.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plait/core/header_only.hpp"

namespace plait::detail {

/// 32 bytes that nobody makes without the key (RFC 2104, with SHA-256).
[[nodiscard]] std::string hmac_sha256(std::string_view key, std::string_view text);

/// 32 bytes of the system's that nobody can foresee.
[[nodiscard]] std::string random_bytes();

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
  [[nodiscard]] std::optional<std::string> answer(std::string_view question, int member) const;
  /// Which member has answered; nothing if none of those that connect to this one has.
  [[nodiscard]] std::optional<int> who(std::string_view question, std::string_view answer) const;
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
                                 std::string_view answer, int from, int to) const;
  static bool is_same(std::string_view one, std::string_view other) {
    return one.size() == other.size() && ::CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
  }

  gloo_identity of_;
  int rank_;
  std::vector<std::string> addresses_;
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/gloo/gloo_challenge.ipp"
#endif
