// SPDX-License-Identifier: Apache-2.0
// test: libs=gloo
// Only the rank that was asked may answer the challenge, with the key, in the same rendezvous, for
// the same question.
#include "plait/backend/gloo/gloo_challenge.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace {

using plait::detail::gloo_challenge;
using plait::detail::gloo_identity;
using plait::detail::hmac_sha256;

std::string hexadecimal(std::string_view bytes) {
  std::string out;
  for (char const c : bytes) {
    out += "0123456789abcdef"[static_cast<unsigned char>(c) >> 4];
    out += "0123456789abcdef"[static_cast<unsigned char>(c) & 0xf];
  }
  return out;
}
std::string counted(int bytes) {
  std::string out;
  for (int i = 1; i <= bytes; ++i) out += static_cast<char>(i);
  return out;
}

// RFC 4231, section 4.
TEST(GlooChallenge, TheCodeIsHmacSha256) {
  EXPECT_EQ(hexadecimal(hmac_sha256(std::string(20, '\x0b'), "Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hexadecimal(hmac_sha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hexadecimal(hmac_sha256(std::string(20, '\xaa'), std::string(50, '\xdd'))),
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
  EXPECT_EQ(hexadecimal(hmac_sha256(counted(25), std::string(50, '\xcd'))),
            "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
  EXPECT_EQ(hexadecimal(hmac_sha256(std::string(131, '\xaa'),
                                    "Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  EXPECT_EQ(hexadecimal(hmac_sha256(
                std::string(131, '\xaa'),
                "This is a test using a larger than block-size key and a larger than block-size "
                "data. The key needs to be hashed before being used by the HMAC algorithm.")),
            "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

gloo_identity const here{std::string(32, 'k'), "job a, rendezvous 1"};
std::vector<std::string> const places{"address 0", "address 1", "address 2"};
gloo_challenge member(int rank, gloo_identity const& of = here,
                      std::vector<std::string> const& at = places) {
  return {of, rank, at};
}

TEST(GlooChallenge, RanksOfOneMeetingKnowEachOther) {
  auto const question = gloo_challenge::question();
  auto const answer = member(2).answer(question, 0);
  ASSERT_TRUE(answer);
  EXPECT_EQ(question.size(), gloo_challenge::question_bytes);
  EXPECT_EQ(answer->size(), gloo_challenge::answer_bytes);
  EXPECT_EQ(member(0).who(question, *answer), 2);
  auto const proof = member(0).proof(question, *answer, 2);
  EXPECT_EQ(proof.size(), gloo_challenge::proof_bytes);
  EXPECT_TRUE(member(2).proves(proof, question, *answer, 0));
}

// The answer is right in all respects except one.
TEST(GlooChallenge, AnAnswerFromElsewhereIsNone) {
  auto const question = gloo_challenge::question();
  auto const refused = [&](gloo_challenge const& from, int to, std::string const& what) {
    auto const answer = from.answer(question, to);
    ASSERT_TRUE(answer);
    EXPECT_EQ(member(0).who(question, *answer), std::nullopt) << what;
  };
  refused(member(2, {here.key, "job b, rendezvous 1"}), 0, "another job");
  refused(member(2, {here.key, "job a, rendezvous 2"}), 0, "another rendezvous");
  refused(member(2, {std::string(32, 'l'), here.rendezvous}), 0, "another key");
  refused(member(2, here, {"address 9", "address 1", "address 2"}), 0, "another address of mine");
  refused(member(2, here, {"address 0", "address 1", "address 9"}), 0,
          "another address of its own");
  refused(member(2), 1, "an answer to another rank");
  std::vector<std::string> const same(3, "one address");
  EXPECT_EQ(member(0, here, same).who(question, *member(2, here, same).answer(question, 1)),
            std::nullopt)
      << "an answer to another rank at the same address";
  auto const replayed = member(2).answer(gloo_challenge::question(), 0);
  EXPECT_EQ(member(0).who(question, *replayed), std::nullopt) << "an answer to an older question";
  // Rank 1 knows the key, too. The digits after the mark are the rank.
  auto as_other = *member(1).answer(question, 0);
  as_other[gloo_challenge::mark.size()] = 2;
  EXPECT_EQ(member(0).who(question, as_other), std::nullopt) << "an answer in another's name";
  // The rank with the higher number connects.
  EXPECT_EQ(member(2).who(question, *member(0).answer(question, 2)), std::nullopt)
      << "a lower rank";
  EXPECT_EQ(member(2).who(question, *member(2).answer(question, 2)), std::nullopt) << "its own";
}

TEST(GlooChallenge, EachBitOfAMessageCounts) {
  auto const question = gloo_challenge::question();
  auto const answer = *member(2).answer(question, 0);
  auto const proof = member(0).proof(question, answer, 2);
  auto const for_each_change = [](std::string text, auto check) {
    for (std::size_t i = 0; i < 8 * text.size(); ++i) {
      text[i / 8] = static_cast<char>(text[i / 8] ^ 1 << i % 8);
      check(text, i);
      text[i / 8] = static_cast<char>(text[i / 8] ^ 1 << i % 8);
    }
    check(text.substr(0, text.size() - 1), text.size());
    check(text + '\0', text.size());
    check("", 0);
  };
  for_each_change(answer, [&](std::string const& changed, std::size_t at) {
    EXPECT_EQ(member(0).who(question, changed), std::nullopt) << at;
  });
  for_each_change(question, [&](std::string const& changed, std::size_t at) {
    EXPECT_EQ(member(0).who(changed, answer), std::nullopt) << at;
  });
  for_each_change(proof, [&](std::string const& changed, std::size_t at) {
    EXPECT_FALSE(member(2).proves(changed, question, answer, 0)) << at;
  });
}

// Tests the replies that a stranger at the address of a rank could send.
TEST(GlooChallenge, AProofFromElsewhereIsNone) {
  auto const question = gloo_challenge::question();
  auto const answer = *member(2).answer(question, 0);
  auto const proves = [&](std::string_view proof) {
    return member(2).proves(proof, question, answer, 0);
  };
  EXPECT_TRUE(proves(member(0).proof(question, answer, 2)));
  EXPECT_FALSE(proves(answer.substr(answer.size() - gloo_challenge::code_bytes))) << "reflected";
  EXPECT_FALSE(proves(member(1).proof(question, answer, 2))) << "of another rank";
  EXPECT_FALSE(proves(member(0, {here.key, "job b, rendezvous 1"}).proof(question, answer, 2)));
  auto const older = *member(2).answer(question, 0);
  EXPECT_FALSE(proves(member(0).proof(question, older, 2))) << "of an older answer";
  EXPECT_FALSE(member(2).answer("HTTP/1.1 400 Bad Request\r\n", 0));
  EXPECT_FALSE(member(2).answer(question.substr(1) + '\0', 0));
}

// An attacker records all messages of two jobs with the same key, in two rendezvous of each, and
// replays them to any rank. A rank accepts a message only from the member that it asked.
TEST(GlooChallenge, NothingThatWasHeardIsOfUseLater) {
  struct said {
    std::size_t rendezvous;
    int from, to;
    std::string question, answer, proof;
  };
  std::array<gloo_identity, 4> const of_jobs{{{here.key, "job a, rendezvous 1"},
                                              {here.key, "job a, rendezvous 2"},
                                              {here.key, "job b, rendezvous 1"},
                                              {here.key, "job b, rendezvous 2"}}};
  std::mt19937 random(1);
  auto const below = [&](std::size_t end) { return random() % end; };
  std::vector<said> heard;
  int taken = 0, refused = 0;
  for (int order = 0; order < 100'000; ++order) {
    auto const rendezvous = below(of_jobs.size());
    int const to = static_cast<int>(below(2));
    int const from = to + 1 + static_cast<int>(below(2 - static_cast<std::size_t>(to)));
    auto const question = gloo_challenge::question();
    auto const server = member(to, of_jobs[rendezvous]), client = member(from, of_jobs[rendezvous]);
    if (heard.empty() || below(8) == 0) {
      auto const answer = *client.answer(question, to);
      ASSERT_EQ(server.who(question, answer), from);
      auto const proof = server.proof(question, answer, from);
      ASSERT_TRUE(client.proves(proof, question, answer, to));
      said now{rendezvous, from, to, question, answer, proof};
      if (heard.size() < 64) heard.push_back(now);
      else heard[below(heard.size())] = now;
      ++taken;
      continue;
    }
    auto const& old = heard[below(heard.size())];
    auto const& other = heard[below(heard.size())];
    ASSERT_EQ(server.who(question, old.answer), std::nullopt);
    if (&old != &other) {
      ASSERT_EQ(member(old.to, of_jobs[old.rendezvous]).who(old.question, other.answer),
                std::nullopt);
      ASSERT_FALSE(member(old.from, of_jobs[old.rendezvous])
                       .proves(other.proof, old.question, old.answer, old.to));
    }
    ++refused;
  }
  EXPECT_GT(taken, 10'000);
  EXPECT_GT(refused, 80'000);
}

}  // namespace
