// SPDX-License-Identifier: Apache-2.0
// test: libs=gloo
// An exception in Gloo's own thread ends a connection and not the process.
#include "plait/backend/gloo/gloo_pair.hpp"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "plait/backend/gloo/gloo_device.hpp"
#include "plait/backend/process/process_engine.hpp"
#include "plait/backend/process/process_mark.hpp"
#include "plait/backend/process/terminate_sentence.hpp"
#include "plait/core/file.hpp"

namespace {

using plait::detail::file_descriptor;
using plait::detail::gloo_context;

/// Member 0 of two; the test sends the bytes of member 1.
struct one_end {
  one_end() {
    context = std::make_shared<gloo_context>(over.device, 0, 2);
    context->setTimeout(std::chrono::minutes{1});
    context->createPair(1);
    auto at = over.address;
    auto size = static_cast<socklen_t>(over.address_bytes);
    auto* const address = reinterpret_cast<sockaddr*>(&at);
    file_descriptor const port(::socket(at.ss_family, SOCK_STREAM, 0));
    other = file_descriptor(::socket(at.ss_family, SOCK_STREAM, 0));
    if (::bind(port.get(), address, size) != 0 || ::listen(port.get(), 1) != 0 ||
        ::getsockname(port.get(), address, &size) != 0 ||
        ::connect(other.get(), address, size) != 0)
      throw plait::ext::engine_error("no connection on the loopback");
    context->adopt(1, file_descriptor(::accept(port.get(), nullptr, nullptr)));
  }
  ~one_end() { context->getPair(1)->close(); }

  /// Returns the error of a receive that waits while `bytes` arrive, and another receive waits for
  /// slot 6.
  std::string receive(std::string const& bytes) {
    char other_place[8] = {}, place[8] = {};
    auto const other_buffer = context->createUnboundBuffer(other_place, sizeof other_place);
    other_buffer->recv(1, 6, 0, sizeof other_place);
    auto const buffer = context->createUnboundBuffer(place, sizeof place);
    buffer->recv(1, 7, 0, sizeof place);
    EXPECT_EQ(::send(other.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
    try {
      EXPECT_TRUE(buffer->waitRecv(std::chrono::minutes{1}));
      return std::string(place, sizeof place);
    } catch (std::exception const& problem) {
      return problem.what();
    }
  }

  plait::detail::gloo_interface over =
      plait::detail::gloo_device("", std::vector<plait::detail::process_mark>(1), 0);
  std::shared_ptr<gloo_context> context;
  file_descriptor other;
};

/// Returns the header of a Gloo message: bytes of the message, kind, slot, offset, length, offset
/// of the receiver.
std::string header(std::array<std::uint64_t, 6> const& fields) {
  std::string out(sizeof fields, '\0');
  std::memcpy(out.data(), fields.data(), sizeof fields);
  return out;
}

TEST(GlooPair, DeliversMessagesOfMembers) {
  one_end end;
  EXPECT_EQ(end.receive(header({48, 2, 7, 0, 8, 0}) + header({56, 1, 7, 0, 8, 0}) + "12345678"),
            "12345678");
}
TEST(GlooPair, BytesThatAreNoneOfGloosEndTheConnection) {
  std::string const words = "bytes have arrived that are not Gloo's";
  for (auto const& bytes :
       {header({56, 1, 8, 0, 8, 0}) + "12345678",      // a slot that no receive waits for
        header({72, 1, 6, 0, 24, 0}) + "too many"}) {  // more bytes than the buffer has
    one_end end;
    EXPECT_NE(end.receive(bytes).find(words), std::string::npos) << end.receive(bytes);
  }
}

/// A handler that throws when Gloo's thread calls it.
struct thrower final : ::gloo::transport::tcp::Handler {
  void handleEvents(int) override { throw std::runtime_error("\"it\" happened"); }
};
TEST(GlooPairDeathTest, AnUncatchableErrorEndsTheProcessWithAMessage) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto const end_process = [] {
    auto const sentence = plait::detail::terminate_sentence::shared(3);
    one_end end;
    (void)end.receive(header({48, 2, 7, 0, 8, 0}) + header({56, 1, 7, 0, 8, 0}) + "12345678");
    thrower mine;
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) return;
    end.over.device->registerDescriptor(ends[1], EPOLLOUT, &mine);
    ::pause();
  };
  EXPECT_EXIT(end_process(), ::testing::KilledBySignal(SIGABRT),
              "^plait: rank 3: Gloo has failed in its own thread, which ends the process: .it. "
              "happened\n$");
}
TEST(GlooPairDeathTest, ThreadsOfTheProgramEndAsBefore) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto const end_process = [] {
    std::set_terminate([] { ::_exit(77); });
    auto const sentence = plait::detail::terminate_sentence::shared(3);
    std::thread([] { throw std::runtime_error("of the program"); }).join();
  };
  EXPECT_EXIT(end_process(), ::testing::ExitedWithCode(77), "");
}

}  // namespace
