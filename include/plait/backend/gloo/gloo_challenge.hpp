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

/// Returns the 32 bytes of HMAC-SHA-256 (RFC 2104) of `text` with `key`.
[[nodiscard]] std::string hmac_sha256(std::string_view key, std::string_view text);

/// Returns 32 bytes of the system's cryptographic random numbers.
[[nodiscard]] std::string random_bytes();

/// Identifies the rendezvous of which the connections are part; `key` is the secret of its
/// processes.
struct gloo_identity {
  std::string key, rendezvous;
};

/// Authenticates the two ends of a new connection to each other: each end learns that the other
/// knows the key and is the rank that it claims to be in this rendezvous. Without the challenge,
/// any program that reaches the port could send gradients. Three messages are sent: the member that
/// listens sends a question, the member that connects an answer, and the member that listens a
/// proof.
///
///     question: a random number
///     answer:   its rank, a random number, HMAC("answer", rendezvous, ranks, addresses, numbers)
///     proof:    HMAC("proof", rendezvous, ranks, addresses, numbers)
///
/// The member with the higher rank connects to the member with the lower rank: of ranks 2 and 5,
/// rank 2 asks and rank 5 answers. Each message has a fixed size. The only part of the identities
/// that a message contains in clear text is the rank.
class gloo_challenge {
 public:
  /// `rank`: the rank of this member. `addresses`: the address at which each member listens.
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

  /// Returns the answer to the question of `member`; nullopt if `question` is not a valid question.
  [[nodiscard]] std::optional<std::string> answer(std::string_view question, int member) const;
  /// Returns the rank of the member that wrote `answer`; nullopt if the answer is not valid or its
  /// writer is not a member that connects to this member.
  [[nodiscard]] std::optional<int> who(std::string_view question, std::string_view answer) const;
  /// Returns the proof that this member sends to `member`, from which it has received `answer`.
  [[nodiscard]] std::string proof(std::string_view question, std::string_view answer,
                                  int member) const {
    return code("proof", question, answer, member, rank_);
  }
  /// Returns true if `proof` is the valid proof of `member` for the answer that this member sent.
  [[nodiscard]] bool proves(std::string_view proof, std::string_view question,
                            std::string_view answer, int member) const {
    return is_same(proof, code("proof", question, answer, rank_, member));
  }

 private:
  /// Returns the HMAC of the fields. Each field is preceded by its size, so that two different
  /// lists of fields are never the same text.
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
