// SPDX-License-Identifier: Apache-2.0
// test: libs=gloo
// Members connect to each other while strangers do, too.
#include "plait/backend/gloo/gloo_listener.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstring>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "plait/backend/gloo/gloo_challenge.hpp"
#include "plait/backend/process/process_engine.hpp"
#include "plait/core/file.hpp"

namespace {

using plait::detail::file_descriptor;
using plait::detail::gloo_challenge;
using plait::detail::gloo_identity;
using plait::detail::gloo_listener;

sockaddr_storage loopback() {
  sockaddr_storage out{};
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::memcpy(&out, &in, sizeof in);
  return out;
}
struct too_late {};
auto a_minute() {
  return [end = std::chrono::steady_clock::now() + std::chrono::minutes{1}](auto const&) {
    if (std::chrono::steady_clock::now() > end) throw too_late();
  };
}
file_descriptor connect_to(std::string const& address) {
  file_descriptor out(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  timeval const minute{60, 0};
  ::setsockopt(out.get(), SOL_SOCKET, SO_RCVTIMEO, &minute, sizeof minute);
  EXPECT_EQ(::connect(out.get(), reinterpret_cast<sockaddr const*>(address.data()),
                      static_cast<socklen_t>(address.size())),
            0);
  return out;
}
/// Reads until `bytes` have come or the other end has closed.
std::string read(file_descriptor const& from, std::size_t bytes) {
  std::string out(bytes, '\0');
  std::size_t size = 0;
  while (size < bytes) {
    auto const got = ::recv(from.get(), out.data() + size, bytes - size, 0);
    if (got <= 0) break;
    size += static_cast<std::size_t>(got);
  }
  out.resize(size);
  return out;
}
void write(file_descriptor const& to, std::string_view text) {
  (void)!::send(to.get(), text.data(), text.size(), MSG_NOSIGNAL);
}

gloo_identity const here{std::string(32, 'k'), "job a, rendezvous 1"};

struct members {
  explicit members(int count) {
    for (int i = 0; i < count; ++i)
      addresses.push_back(listeners.emplace_back(loopback(), sizeof(sockaddr_in)).address());
  }
  std::vector<file_descriptor> connect(int rank) {
    return listeners[std::size_t(rank)].connect({here, rank, addresses}, a_minute());
  }
  std::vector<gloo_listener> listeners{};
  std::vector<std::string> addresses{};
};

TEST(GlooListener, EachTwoMembersHaveASocket) {
  members all(4);
  std::vector<std::vector<file_descriptor>> sockets(4);
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < 4; ++rank)
      threads.emplace_back([&, rank] { sockets[std::size_t(rank)] = all.connect(rank); });
  }
  for (std::size_t one = 0; one < 4; ++one)
    for (std::size_t other = 0; other < 4; ++other) {
      ASSERT_EQ(sockets[one].size(), 4u);
      EXPECT_EQ(sockets[one][other].get() < 0, one == other);
      if (one >= other) continue;
      write(sockets[one][other], std::to_string(10 * one + other) + " ");
      ::shutdown(sockets[one][other].get(), SHUT_WR);
    }
  for (std::size_t one = 0; one < 4; ++one)
    for (std::size_t other = 0; other < one; ++other) {
      int const flags = ::fcntl(sockets[one][other].get(), F_GETFL);
      ::fcntl(sockets[one][other].get(), F_SETFL, flags & ~O_NONBLOCK);
      EXPECT_EQ(read(sockets[one][other], 100), std::to_string(10 * other + one) + " ");
    }
}

TEST(GlooListener, StrangersAreAskedAndDroppedWithoutDelay) {
  members all(2);
  std::vector<file_descriptor> of_first, of_second;
  std::jthread first([&] { of_first = all.connect(0); });
  auto const& address = all.addresses[0];

  // More silent connections than may wait at a time.
  std::vector<file_descriptor> silent;
  for (int i = 0; i < 300; ++i) silent.push_back(connect_to(address));
  auto const refused = [&](std::string const& what, auto answer) {
    auto const stranger = connect_to(address);
    auto const question = read(stranger, gloo_challenge::question_bytes);
    EXPECT_EQ(question.size(), gloo_challenge::question_bytes) << what;
    write(stranger, answer(question));
    ::shutdown(stranger.get(), SHUT_WR);
    EXPECT_EQ(read(stranger, 1), "") << what;
  };
  refused("garbage", [](auto const&) { return std::string(5000, 'x'); });
  refused("half a message", [](auto const&) { return "plait 1\n1234"; });
  refused("nothing", [](auto const&) { return ""; });
  refused("the question", [](auto const& question) { return question + question + question; });
  refused("an answer of another job", [&](auto const& question) {
    return *gloo_challenge({here.key, "job b"}, 1, all.addresses).answer(question, 0);
  });
  auto const old = *gloo_challenge(here, 1, all.addresses).answer(gloo_challenge::question(), 0);
  refused("an older answer", [&](auto const&) { return old; });

  of_second = all.connect(1);
  first.join();
  EXPECT_GE(of_first[1].get(), 0);
  EXPECT_GE(of_second[0].get(), 0);
  for (auto const& one : silent) {
    auto const read_all = read(one, 1000);
    EXPECT_LE(read_all.size(), gloo_challenge::question_bytes);
    EXPECT_TRUE(std::string(gloo_challenge::mark).starts_with(read_all.substr(0, 8)));
  }
}

TEST(GlooListener, ASecondAnswerOfAMemberIsNotTaken) {
  members all(3);
  std::vector<file_descriptor> of_first;
  std::jthread first([&] { of_first = all.connect(0); });
  gloo_challenge const second(here, 1, all.addresses);
  auto const answer = [&](file_descriptor const& by) {
    auto const question = read(by, gloo_challenge::question_bytes);
    write(by, *second.answer(question, 0));
    return read(by, gloo_challenge::proof_bytes).size();
  };
  auto const one = connect_to(all.addresses[0]), other = connect_to(all.addresses[0]);
  EXPECT_EQ(answer(one), gloo_challenge::proof_bytes);
  EXPECT_EQ(answer(other), 0u);
  auto const third = connect_to(all.addresses[0]);
  auto const question = read(third, gloo_challenge::question_bytes);
  write(third, *gloo_challenge(here, 2, all.addresses).answer(question, 0));
  EXPECT_EQ(read(third, gloo_challenge::proof_bytes).size(), gloo_challenge::proof_bytes);
}

/// A pretended rank 0 of two: a function that is called with each connection and the addresses.
template <class Play>
class played_rank {
 public:
  played_rank(members& all, Play play) {
    auto at = loopback();
    socklen_t size = sizeof(sockaddr_in);
    auto* const address = reinterpret_cast<sockaddr*>(&at);
    EXPECT_EQ(::bind(port_.get(), address, size), 0);
    EXPECT_EQ(::listen(port_.get(), 10), 0);
    EXPECT_EQ(::getsockname(port_.get(), address, &size), 0);
    all.addresses[0].assign(reinterpret_cast<char const*>(&at), size);
    thread_ = std::jthread([this, play, addresses = all.addresses](std::stop_token const& stop) {
      while (!stop.stop_requested()) {
        file_descriptor one(::accept(port_.get(), nullptr, nullptr));
        if (one.get() >= 0) play(std::move(one), addresses);
        else std::this_thread::sleep_for(std::chrono::milliseconds{1});
      }
    });
  }

 private:
  file_descriptor port_{::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)};
  std::jthread thread_;
};

// Gloo's messages may come at once.
TEST(GlooListener, LeavesTheBytesAfterAMessage) {
  members all(2);
  file_descriptor held;
  played_rank const first(all, [&](file_descriptor one, auto const& addresses) {
    auto const question = gloo_challenge::question();
    write(one, question);
    auto const answer = read(one, gloo_challenge::answer_bytes);
    write(one, gloo_challenge(here, 0, addresses).proof(question, answer, 1) + "more");
    held = std::move(one);
  });
  auto const sockets = all.connect(1);
  ::fcntl(sockets[0].get(), F_SETFL, 0);
  EXPECT_EQ(read(sockets[0], 4), "more");
}

// A stranger at the address of rank 0 may send anything; rank 1 reports that it is not rank 0.
void check_impostor(auto answer, std::string const& words) {
  members all(2);
  played_rank const stranger(
      all, [&](file_descriptor const& one, auto const& addresses) { answer(one, addresses); });
  try {
    (void)all.connect(1);
    ADD_FAILURE() << "rank 1 has taken it for rank 0";
  } catch (plait::ext::engine_error const& problem) {
    EXPECT_NE(std::string(problem.what()).find(words), std::string::npos) << problem.what();
    EXPECT_EQ(problem.rank, 0);
  }
}
TEST(GlooListener, FindsAStrangerAtAnAddress) {
  std::string const words = "3 times, without the secret of this job";
  check_impostor(
      [](auto const& one, auto const&) {
        write(one, "SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n\r\n");
        (void)read(one, 1);
      },
      words);
  check_impostor(
      [](auto const& one, auto const&) {
        write(one, gloo_challenge::question());
        auto const answer = read(one, gloo_challenge::answer_bytes);
        EXPECT_EQ(answer.size(), gloo_challenge::answer_bytes);
        write(one, answer.substr(answer.size() - gloo_challenge::code_bytes));
        EXPECT_EQ(read(one, 1), "");
      },
      words);
  check_impostor(
      [](auto const& one, auto const& addresses) {
        auto const question = gloo_challenge::question();
        write(one, question);
        gloo_challenge const mine({here.key, "job b"}, 0, addresses);
        write(one, mine.proof(question, read(one, gloo_challenge::answer_bytes), 1));
        EXPECT_EQ(read(one, 1), "");
      },
      words);
}
TEST(GlooListener, ReportsAnAddressWithoutAListener) {
  members all(2);
  all.listeners.erase(all.listeners.begin());
  try {
    (void)all.listeners[0].connect({here, 1, all.addresses}, a_minute());
    ADD_FAILURE();
  } catch (plait::ext::engine_error const& problem) {
    EXPECT_NE(std::string(problem.what()).find("127.0.0.1:"), std::string::npos) << problem.what();
    EXPECT_NE(std::string(problem.what()).find("refused"), std::string::npos) << problem.what();
  }
}
TEST(GlooListener, TheWaitIsLookedAtAndSaysWhoHasNotCome) {
  members all(3);
  auto const stranger = connect_to(all.addresses[0]);
  ::shutdown(stranger.get(), SHUT_WR);
  std::string said;
  EXPECT_THROW((void)all.listeners[0].connect({here, 0, all.addresses},
                                              [&](auto const& now) {
                                                said = now.text(all.addresses[0]);
                                                if (now.dropped == 1) throw too_late();
                                              }),
               too_late);
  EXPECT_EQ(said, "ranks 1 and 2 are not connected with " +
                      plait::detail::socket_text(all.addresses[0]) +
                      " (1 other has connected without the secret of this job)");
}

}  // namespace
