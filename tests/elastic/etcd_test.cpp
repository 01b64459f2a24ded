// SPDX-License-Identifier: Apache-2.0
// test: libs=elastic timeout=90 seconds=16
#include "plait/elastic/etcd.hpp"

#include "plait/elastic/etcd_watch.hpp"

#include "elastic/own_etcd.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

// Replaces the function of the C library: libcurl calls it to resolve names, and the server of this
// name is slow.
extern "C" int getaddrinfo(char const* name, char const*, addrinfo const*, addrinfo**) {
  if (name != nullptr && std::string_view(name) == "slow.test")
    std::this_thread::sleep_for(std::chrono::seconds(3));
  return EAI_NONAME;
}

namespace {

using namespace std::chrono_literals;
using plait::detail::etcd;
using plait::detail::etcd_condition;
using plait::detail::etcd_error;
using plait::detail::etcd_watch;
using plait_test::own_etcd;
using clock_type = std::chrono::steady_clock;
using of = etcd_condition::of;

std::chrono::milliseconds since(clock_type::time_point begin) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(clock_type::now() - begin);
}

/// A socket that listens on a free port of 127.0.0.1.
class listener {
 public:
  explicit listener(int backlog = 16) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(at);
    auto* const address = reinterpret_cast<sockaddr*>(&at);
    if (::bind(socket_, address, size) != 0 || ::listen(socket_, backlog) != 0 ||
        ::getsockname(socket_, address, &size) != 0)
      throw std::runtime_error("no port is free");
    port_ = ntohs(at.sin_port);
    at_ = at;
  }
  listener(listener const&) = delete;
  listener& operator=(listener const&) = delete;
  ~listener() { ::close(socket_); }

  [[nodiscard]] int socket() const { return socket_; }
  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] std::string name() const { return "127.0.0.1:" + std::to_string(port_); }
  [[nodiscard]] sockaddr_in const& at() const { return at_; }

 private:
  int socket_;
  int port_ = 0;
  sockaddr_in at_{};
};
std::string dead_server() { return listener().name(); }

/// A listener whose queue is full, so that connections are not even refused.
class black_hole : public listener {
 public:
  black_hole() : listener(0) {
    for (int i = 0; i < 4; ++i) {
      others_.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      ::connect(others_.back(), reinterpret_cast<sockaddr const*>(&at()), sizeof(sockaddr_in));
    }
    std::this_thread::sleep_for(20ms);
  }
  ~black_hole() {
    for (int const other : others_) ::close(other);
  }

 private:
  std::vector<int> others_{};
};

/// Returns true if a request arrives; its body is one object.
bool hear(int caller) {
  std::string heard;
  char buffer[4096];
  while (heard.find("}") == heard.npos) {
    auto const size = ::recv(caller, buffer, sizeof(buffer), 0);
    if (size <= 0) return false;
    heard.append(buffer, static_cast<std::size_t>(size));
  }
  return true;
}

/// Sends the same answer to every caller, then closes the connection.
class rude_server : public listener {
 public:
  /// `pause`: the pause after each byte.
  explicit rude_server(std::string answer, bool hears = true, std::chrono::milliseconds pause = 0ms)
      : answer_(std::move(answer)), hears_(hears), pause_(pause), thread_([this] { serve(); }) {}
  ~rude_server() {
    stopping_ = true;
    thread_.join();
  }
  [[nodiscard]] int calls() const { return calls_; }

 private:
  void serve() {
    while (!stopping_) {
      pollfd ready{.fd = socket(), .events = POLLIN, .revents = 0};
      if (::poll(&ready, 1, 10) <= 0) continue;
      int const caller = ::accept4(socket(), nullptr, nullptr, SOCK_CLOEXEC);
      ++calls_;
      std::string heard;
      if (hears_) hear(caller);
      if (pause_ == 0ms) ::send(caller, answer_.data(), answer_.size(), MSG_NOSIGNAL);
      else trickle(caller);
      linger const reset{.l_onoff = hears_ ? 0 : 1, .l_linger = 0};
      ::setsockopt(caller, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
      ::close(caller);
    }
  }

  void trickle(int caller) const {
    for (char const c : answer_) {
      if (stopping_ || ::send(caller, &c, 1, MSG_NOSIGNAL) != 1) return;
      std::this_thread::sleep_for(pause_);
    }
  }

  std::string answer_;
  bool hears_;
  std::chrono::milliseconds pause_;
  std::atomic<bool> stopping_ = false;
  std::atomic<int> calls_ = 0;
  std::thread thread_;
};
std::string http(std::string const& body, std::string const& status = "200 OK") {
  return "HTTP/1.1 " + status + "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
         body;
}

class Etcd : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (plait_test::path_of_program("etcd").empty()) return;
    server_ = std::make_unique<own_etcd>();
    server_->start();
  }
  static void TearDownTestSuite() { server_.reset(); }
  void SetUp() override {
    if (!server_) GTEST_SKIP() << "there is no etcd in PATH";
    prefix_ = std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) + "/";
  }
  static own_etcd& server() { return *server_; }
  static etcd client() { return etcd(server().at(), 30s); }
  [[nodiscard]] std::string key(std::string const& name) const { return prefix_ + name; }
  [[nodiscard]] std::string const& prefix() const { return prefix_; }

 private:
  static inline std::unique_ptr<own_etcd> server_;
  std::string prefix_{};
};

std::ptrdiff_t threads() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

/// Counts the calls of a watch.
class counter {
 public:
  std::function<void()> one() {
    return [this] { ++count_; };
  }
  [[nodiscard]] int now() const { return count_; }
  /// Returns true if the count exceeds `than` in this time.
  bool grows(int than, std::chrono::milliseconds time) const {
    auto const begin = clock_type::now();
    while (count_ <= than && since(begin) < time) std::this_thread::sleep_for(1ms);
    return count_ > than;
  }

 private:
  std::atomic<int> count_ = 0;
};

/// Returns the error that `call` throws.
template <class Error = etcd_error, class Call>
std::string refusal(Call&& call) {
  try {
    call();
    return "";
  } catch (Error const& problem) {
    return problem.what();
  }
}
void expect_words(std::string const& text, std::string const& words) {
  EXPECT_NE(text.find(words), std::string::npos) << "'" << words << "' is not in: " << text;
}

TEST_F(Etcd, ReadsAndDeletesByPrefix) {
  auto one = client();
  auto const put = one.change({}, {{.key = key("b"), .value = "2"},
                                   {.key = key("a"), .value = ""},
                                   {.key = "ReadsAndDeletesByPrefix0", .value = "behind"}});
  EXPECT_TRUE(put.done);
  auto const view = one.read(prefix());
  EXPECT_EQ(view.revision, put.revision);
  EXPECT_NE(view.cluster, 0u);
  ASSERT_EQ(view.entries.size(), 2u);
  EXPECT_EQ(view.entries[0].key, key("a"));
  EXPECT_EQ(view.entries[0].value, "");
  EXPECT_EQ(view.entries[0].lease, 0);
  EXPECT_EQ(view.entries[1].value, "2");
  EXPECT_EQ(view.entries[1].created, put.revision);
  EXPECT_EQ(view.entries[1].modified, put.revision);

  auto const again = one.change({}, {{.key = key("b"), .value = "3"}});
  auto const later = one.read(key("b"));
  ASSERT_EQ(later.entries.size(), 1u);
  EXPECT_EQ(later.entries[0].created, put.revision);
  EXPECT_EQ(later.entries[0].modified, again.revision);
  EXPECT_GE(one.read("").entries.size(), 3u);

  EXPECT_TRUE(one.change({}, {{.key = key("a")}}).done);
  EXPECT_EQ(one.read(prefix()).entries.size(), 1u);
  EXPECT_TRUE(one.change({}, {{.key = prefix(), .is_prefix = true}}).done);
  EXPECT_TRUE(one.read(prefix()).entries.empty());
  EXPECT_EQ(one.read("ReadsAndDeletesByPrefix0").entries.size(), 1u);
}

TEST_F(Etcd, KeepsBytes) {
  auto one = client();
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  for (std::size_t size : {0u, 1u, 2u, 3u, 4u, 255u, 256u}) {
    auto const value = all.substr(256 - size);
    auto const name = prefix() + std::string("\xff\xff\0\n", 4) + std::to_string(size);
    one.change({}, {{.key = name, .value = value}});
    auto const view = one.read(name);
    ASSERT_EQ(view.entries.size(), 1u);
    EXPECT_EQ(view.entries[0].key, name);
    EXPECT_EQ(view.entries[0].value, value);
  }
  EXPECT_EQ(one.read(prefix() + "\xff\xff").entries.size(), 7u);
  one.change({}, {{.key = "\xff\xff", .value = "last"}});
  EXPECT_EQ(one.read("\xff\xff").entries.size(), 1u);
  std::string const large(1'000'000, '\x80');
  one.change({}, {{.key = key("large"), .value = large}});
  EXPECT_EQ(one.read(key("large")).entries.at(0).value, large);
  expect_words(refusal([&] { one.change({}, {{.key = key("l"), .value = large + large}}); }),
               "too large");
}

TEST_F(Etcd, OneOfTwoMakesAKey) {
  for (int round = 0; round < 20; ++round) {
    auto const name = key(std::to_string(round));
    std::atomic<int> made = 0, ready = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i)
      threads.emplace_back([&, i] {
        auto one = client();
        one.read("none");
        for (++ready; ready < 2;) std::this_thread::yield();
        made +=
            one.change({{name, of::created, 0}}, {{.key = name, .value = std::to_string(i)}}).done;
      });
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(made, 1);
  }
}

TEST_F(Etcd, ComparesNumbers) {
  auto one = client();
  auto const lease = one.grant(60s);
  auto const first = one.change({}, {{.key = key("a"), .value = "1", .lease = lease}}).revision;
  EXPECT_FALSE(
      one.change({{key("a"), of::modified, first - 1}}, {{.key = key("a"), .value = "2"}}).done);
  EXPECT_FALSE(one.change({{key("a"), of::created, 0}}, {{.key = key("a"), .value = "2"}}).done);
  EXPECT_FALSE(
      one.change({{key("a"), of::lease, lease + 1}}, {{.key = key("a"), .value = "2"}}).done);
  EXPECT_FALSE(one.change({{key("a"), of::modified, first}, {key("b"), of::modified, 1}},
                          {{.key = key("a"), .value = "2"}})
                   .done);
  EXPECT_EQ(one.read(key("a")).entries.at(0).value, "1");
  EXPECT_EQ(one.read(key("a")).entries.at(0).lease, lease);
  auto const second = one.change({{key("a"), of::modified, first},
                                  {key("a"), of::lease, lease},
                                  {key("a"), of::created, first}},
                                 {{.key = key("a"), .value = "2"}});
  EXPECT_TRUE(second.done);
  EXPECT_GT(second.revision, first);
  EXPECT_TRUE(one.change({{key("a"), of::modified, second.revision}}, {}).done);
}

TEST_F(Etcd, LeasesEnd) {
  auto one = client();
  auto const ends = one.grant(2s), stays = one.grant(2s), revoked = one.grant(60s);
  one.change({}, {{.key = key("ends"), .value = "", .lease = ends},
                  {.key = key("stays"), .value = "", .lease = stays},
                  {.key = key("revoked"), .value = "", .lease = revoked}});
  EXPECT_EQ(one.read(prefix()).entries.size(), 3u);
  EXPECT_GT(one.keep_alive(revoked), 50s);
  one.revoke(revoked);
  EXPECT_EQ(one.read(prefix()).entries.size(), 2u);
  auto const begin = clock_type::now();
  while (since(begin) < 4200ms) {
    EXPECT_GT(one.keep_alive(stays), 0s);
    if (since(begin) < 1000ms) {
      EXPECT_EQ(one.read(prefix()).entries.size(), 2u);
    }
    std::this_thread::sleep_for(300ms);
  }
  auto const left = one.read(prefix()).entries;
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].key, key("stays"));
  EXPECT_EQ(one.keep_alive(ends), 0s);
  EXPECT_EQ(one.keep_alive(revoked), 0s);
  one.revoke(ends);
  one.revoke(12345);
  one.revoke(stays);
  expect_words(refusal([&] { one.change({}, {{.key = key("a"), .value = "", .lease = ends}}); }),
               "requested lease not found");
}

TEST_F(Etcd, CallsAreFast) {
  auto one = client();
  auto const lease = one.grant(60s);
  auto const measure = [](char const* what, auto call) {
    std::vector<double> times;
    for (int i = 0; i < 30; ++i) call();  // systems acknowledge the first packets immediately
    for (int i = 0; i < 200; ++i) {
      auto const begin = clock_type::now();
      call();
      times.push_back(std::chrono::duration<double, std::milli>(clock_type::now() - begin).count());
    }
    std::sort(times.begin(), times.end());
    std::cout << what << ": " << times[100] << " ms (median), " << times[198]
              << " ms (99 of 100)\n";
    EXPECT_LT(times[10], 20);  // each takes 40 with Nagle's algorithm
  };
  measure("read", [&] { one.read(prefix()); });
  measure("change", [&] { one.change({}, {{.key = key("a"), .value = "1"}}); });
  measure("keep_alive", [&] { one.keep_alive(lease); });
}

TEST_F(Etcd, ContinuesWithAnotherServer) {
  black_hole const hole;
  rude_server broken("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"header\"");
  rude_server ill(http("{\"error\":\"etcdserver: no leader\"}", "503 Service Unavailable"));
  etcd one("etcd://" + dead_server() + "," + hole.name() + "," + broken.name() + "," + ill.name() +
               "," + server().name(),
           4s);
  auto const begin = clock_type::now();
  one.read(prefix());
  EXPECT_LT(since(begin), 40s);
  for (int i = 0; i < 10; ++i) one.read(prefix());
  EXPECT_EQ(broken.calls(), 1);  // the client stays with the server that answers

  etcd two("etcd://" + dead_server() + "," + server().name(), 20s);
  EXPECT_TRUE(two.change({}, {{.key = key("a"), .value = "1"}}).done);
}

TEST_F(Etcd, LeavesAServerThatStops) {
  rude_server const other(http("{\"header\":{\"revision\":\"500000\"}}"));
  etcd one("etcd://" + server().name() + "," + other.name(), 2s);
  EXPECT_LT(one.read(prefix()).revision, 500000);
  server().pause(true);
  auto const begin = clock_type::now();
  EXPECT_EQ(one.read(prefix()).revision, 500000);
  EXPECT_LT(since(begin), 20s);
  server().pause(false);
}

TEST_F(Etcd, SendsNoChangeTwice) {
  rude_server broken("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"header\"");
  etcd one("etcd://" + broken.name() + "," + server().name(), 20s);
  expect_words(refusal([&] { one.change({}, {{.key = key("a"), .value = "1"}}); }),
               "the change may have been made");
  EXPECT_EQ(broken.calls(), 1);
  EXPECT_TRUE(one.read(prefix()).entries.empty());
}

TEST_F(Etcd, AsksNoProxy) {
  auto const before = std::getenv("http_proxy");
  std::string const kept = before == nullptr ? "" : before;
  ::setenv("http_proxy", ("http://" + dead_server()).c_str(), 1);
  auto one = client();
  one.read(prefix());
  counter calls;
  etcd_watch const watch(server().at(), prefix(), calls.one());
  EXPECT_TRUE(calls.grows(0, 20s));
  if (before == nullptr) ::unsetenv("http_proxy");
  else ::setenv("http_proxy", kept.c_str(), 1);
}

TEST_F(Etcd, WatchTellsAtOnce) {
  auto one = client();
  counter calls;
  etcd_watch const watch(server().at(), prefix(), calls.one());
  ASSERT_TRUE(calls.grows(0, 20s));  // the watch is established
  for (int i = 0; i < 5; ++i) {
    auto const before = calls.now();
    one.change({}, {{.key = key("a"), .value = std::to_string(i)}});
    EXPECT_TRUE(calls.grows(before, 10s));
  }
  std::this_thread::sleep_for(50ms);
  auto const before = calls.now();
  one.change({}, {{.key = "elsewhere", .value = "1"}});
  EXPECT_FALSE(calls.grows(before, 100ms));
  one.change({}, {{.key = prefix(), .is_prefix = true}});
  EXPECT_TRUE(calls.grows(before, 10s));
}

TEST_F(Etcd, WatchesOnAfterARestart) {
  counter calls;
  etcd_watch const watch("etcd://" + dead_server() + "," + server().name(), prefix(), calls.one());
  auto one = client();
  ASSERT_TRUE(calls.grows(0, 20s));
  one.change({}, {{.key = key("a"), .value = "1"}});
  ASSERT_TRUE(calls.grows(1, 20s));
  server().kill();
  expect_words(refusal([&] { one.read(prefix()); }), server().name());
  auto const before = calls.now();
  server().start();
  EXPECT_TRUE(calls.grows(before, 50s));
  EXPECT_EQ(one.read(prefix()).entries.size(), 1u);
  auto const after = calls.now();
  one.change({}, {{.key = key("a"), .value = "2"}});
  EXPECT_TRUE(calls.grows(after, 10s));
}

TEST_F(Etcd, WatchLeavesASilentConnection) {
  counter calls, others;
  etcd_watch const watch(server().at(), prefix(), calls.one(), 100ms);
  EXPECT_TRUE(calls.grows(2, 20s));  // the watch is restarted repeatedly
  listener const silent;
  etcd_watch const other("etcd://" + silent.name() + "," + server().name(), prefix(), others.one(),
                         100ms);
  EXPECT_TRUE(others.grows(0, 20s));
}

TEST_F(Etcd, WatchEndsAtOnce) {
  black_hole const hole;
  listener const silent;  // accepts connections, but never answers
  rude_server const garbage(http("<html>"));
  rude_server const slow(http(std::string(10'000, ' ')), true, 5ms);
  auto const before = threads();
  for (auto const& name :
       {server().name(), dead_server(), hole.name(), silent.name(), garbage.name(), slow.name()})
    for (auto const wait : {0ms, 1ms, 5ms, 50ms, 300ms}) {
      counter calls;
      auto watch = std::make_unique<etcd_watch>("etcd://" + name, prefix(), calls.one());
      std::this_thread::sleep_for(wait);
      auto const begin = clock_type::now();
      watch.reset();
      EXPECT_LT(since(begin), 5s) << name << " after " << wait.count();
      EXPECT_EQ(threads(), before) << name << " after " << wait.count();
    }
  auto watch = std::make_unique<etcd_watch>(server().at(), prefix(), [] {});
  std::this_thread::sleep_for(100ms);
  server().pause(true);
  auto const begin = clock_type::now();
  watch.reset();
  EXPECT_LT(since(begin), 5s);
  auto one = client();
  server().pause(false);
  one.read(prefix());
}

TEST_F(Etcd, WatchIsNotFooled) {
  for (auto const& said :
       {std::string("hello\n"), http("[]\n"), http("{\"result\":[]}\n"), http("{}\n"),
        http("", "500 No"), http("{\"result\":{\"created\":true}}\n", "404 Not Found"),
        http("{\"result\":{\"created\":true}}\n", std::string(1'000'000, '2')),
        http(std::string(100'000, 'x'))}) {
    rude_server rude(said);
    counter calls;
    etcd_watch const watch("etcd://" + rude.name(), prefix(), calls.one());
    auto const begin = clock_type::now();
    while (rude.calls() == 0 && since(begin) < 20s) std::this_thread::sleep_for(1ms);
    EXPECT_GE(rude.calls(), 1);
    EXPECT_FALSE(calls.grows(0, 50ms)) << said.substr(0, 100);
  }
}

TEST(EtcdCall, TakesItsTimeAtMost) {
  black_hole const hole;
  listener const silent;
  for (auto const& name : {hole.name(), silent.name(), hole.name() + "," + silent.name()}) {
    etcd one("etcd://" + name, 300ms);
    auto const begin = clock_type::now();
    auto const text = refusal([&] { one.read("a"); });
    EXPECT_LT(since(begin), 3s) << name;
    expect_words(text, name.substr(0, name.find(',')) + ": ");
    expect_words(text, name.substr(name.rfind(',') + 1) + ": ");
    std::cout << text << "\n";
  }
}

TEST(EtcdCall, Garbage) {
  std::string const header = "{\"header\":{\"revision\":\"5\"}";
  auto const key = [&](std::string const& fields) {
    return http(header + ",\"kvs\":[" + fields + "]}");
  };
  for (auto const& [said, words] : std::vector<std::pair<std::string, std::string>>{
           {"", "127.0.0.1"},
           {"hello\n", "127.0.0.1"},
           {std::string(100'000, '\0'), "127.0.0.1"},
           {"SSH-2.0-OpenSSH_9.2\r\n", "127.0.0.1"},
           {"HTTP/1.1 200 OK\r\n", "127.0.0.1"},
           {http("{}", "200 " + std::string(50'000, 'x')), "header"},
           {http("{}", "200 " + std::string(1'000'000, 'x')), "127.0.0.1"},
           {http("{}", "200 OK\r\nA: " + std::string(1'000'000, 'x')), "127.0.0.1"},
           {"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{\"header\":{", "127.0.0.1"},
           {"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n{}", "127.0.0.1"},
           {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}", "127.0.0.1"},
           {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n{}", "127.0.0.1"},
           {"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nxx", "JSON"},
           {"HTTP/1.1 200 OK\r\n\r\n{\"header\":{", "JSON"},
           {http("", "500 Internal Server Error"), "status 500"},
           {http("<html>\x1b[2J</html>", "404 Not Found"), "status 404, '<html>\\x1b[2J</html>'"},
           {http("", "302 Found\r\nLocation: http://127.0.0.1:1/"), "status 302"},
           {http("<html></html>"), "not a JSON object"},
           {http(""), "not a JSON object"},
           {http("[]"), "not a JSON object"},
           {http("null"), "not a JSON object"},
           {http(std::string(100'000, '[')), "not a JSON object"},
           {http("{\"error\":{\"message\":\"no\"}}"), "no"},
           {http("{}"), "header"},
           {http("{\"header\":5}"), "header"},
           {http("{\"header\":{\"revision\":5}}"), "'revision' is not a string"},
           {http("{\"header\":{\"revision\":\"5x\"}}"), "'revision' is not a number: '5x'"},
           {http("{\"header\":{\"revision\":\"\"}}"), "'revision' is not a number"},
           {http("{\"header\":{\"revision\":\"99999999999999999999\"}}"),
            "'revision' is not a number"},
           {http("{\"header\":{\"cluster_id\":\"-1\"}}"), "'cluster_id' is not a number"},
           {http(header + ",\"kvs\":{}}"), "'kvs' is not a list"},
           {key("5"), "an entry is not an object"},
           {key("{\"key\":5}"), "'key' is not a string"},
           {key("{\"key\":\"a\"}"), "'key' is not base64"},
           {key("{\"key\":\"YQ==\",\"value\":\"Y===\"}"), "'value' is not base64"},
           {key("{\"key\":\"YQ==\",\"value\":\"====\"}"), "'value' is not base64"},
           {key("{\"key\":\"YQ==\",\"value\":\"Y\xc3\xa4=\"}"), "'value' is not base64"},
           {key("{\"key\":\"YQ==\",\"lease\":[]}"), "'lease' is not a string"}}) {
    rude_server const rude(said);
    etcd one("etcd://" + rude.name(), 1s);
    auto const text = refusal([&] { one.read("a"); });
    expect_words(text, words);
    EXPECT_LT(text.size(), 400u);
  }
  rude_server const odd(http(header + ",\"succeeded\":1,\"ID\":7,\"result\":[]}"));
  etcd one("etcd://" + odd.name(), 1s);
  expect_words(refusal([&] { one.change({}, {}); }), "neither true nor false");
  expect_words(refusal([&] { one.grant(5s); }), "'ID' is not a string");
  expect_words(refusal([&] { one.keep_alive(5); }), "'result'");
}

TEST(EtcdCall, ResetConnectionsEndNoProcess) {
  rude_server const deaf("", false);
  etcd one("etcd://" + deaf.name(), 1s);
  for (int i = 0; i < 50; ++i) {
    auto const text =
        refusal([&] { one.change({}, {{.key = "a", .value = std::string(300'000, 'a')}}); });
    expect_words(text, deaf.name());
  }
}

// A reused connection may break when the change was made but not yet answered.
TEST(EtcdCall, SendsNoChangeAgainOnANewConnection) {
  listener const server;
  std::atomic<int> heard = 0;
  std::atomic<bool> ends = false;
  std::thread serves([&] {
    auto const answer = http("{\"header\":{\"revision\":\"5\"},\"ID\":\"7\"}");
    for (;;) {
      pollfd ready{.fd = server.socket(), .events = POLLIN, .revents = 0};
      if (::poll(&ready, 1, 50) <= 0) {
        if (ends) return;
        continue;
      }
      int const caller = ::accept4(server.socket(), nullptr, nullptr, SOCK_CLOEXEC);
      heard += hear(caller);
      ::send(caller, answer.data(), answer.size(), MSG_NOSIGNAL);
      heard += hear(caller);  // the server does not answer
      ::close(caller);
    }
  });
  etcd one("etcd://" + server.name(), 1s);
  EXPECT_EQ(one.grant(5s), 7);
  auto const text = refusal([&] { one.change({}, {{.key = "a", .value = "1"}}); });
  expect_words(text, "the change may have been made");
  std::cout << text << "\n";
  EXPECT_EQ(heard, 2);
  EXPECT_EQ(one.grant(5s), 7);
  // This request may be repeated, and its second connection answers it.
  EXPECT_EQ(one.grant(5s), 7);
  one = etcd("etcd://" + dead_server(), 1s);
  ends = true;
  serves.join();
  EXPECT_EQ(heard, 5);
}

TEST(EtcdCall, TakesItsTimeAtMostByteByByte) {
  for (auto const& said : {http(std::string(1000, ' ')), "HTTP/1.1 200 " + std::string(1000, 'x'),
                           http("", "404 Not Found\r\n" + std::string(1000, 'x'))}) {
    rude_server const slow(said, true, 10ms);
    etcd one("etcd://" + slow.name(), 300ms);
    auto const begin = clock_type::now();
    refusal([&] { one.read("a"); });
    EXPECT_GE(since(begin), 290ms);
    EXPECT_LT(since(begin), 3s);
  }
}

// getaddrinfo waits, as no caller can end it.
TEST(EtcdCall, DoesNotWaitForNames) {
  auto const before = threads();
  auto begin = clock_type::now();
  etcd one("etcd://slow.test:2379", 200ms);
  expect_words(refusal([&] { one.read("a"); }), "slow.test:2379: no answer in time");
  EXPECT_LT(since(begin), 2s);
  for (auto const wait : {0ms, 1ms, 50ms}) {
    auto watch = std::make_unique<etcd_watch>("etcd://slow.test:2379", "a", [] {});
    std::this_thread::sleep_for(wait);
    begin = clock_type::now();
    watch.reset();
    EXPECT_LT(since(begin), 2s) << wait.count();
  }
  while (threads() > before && since(begin) < 50s) std::this_thread::sleep_for(10ms);
  EXPECT_EQ(threads(), before);
}

TEST(EtcdCall, Addresses) {
  for (auto const* const at : {"",
                               "127.0.0.1:2379",
                               "http://a:1",
                               "etcd:/a:1",
                               "etcd://",
                               "etcd://a",
                               "etcd://a:",
                               "etcd://:1",
                               "etcd://a:0",
                               "etcd://a:65536",
                               "etcd://a:-1",
                               "etcd://a:+1",
                               "etcd://a:1x",
                               "etcd://a:1/",
                               "etcd://a: 1",
                               "etcd://a b:1",
                               "etcd:// a:1",
                               "etcd://a:1,",
                               "etcd://,a:1",
                               "etcd://a:1,,b:1",
                               "etcd://a:1, b:1",
                               "etcd://::1:5",
                               "etcd://[::1]",
                               "etcd://[]:1",
                               "etcd://[a:1",
                               "etcd://[::1]x:1",
                               "etcd://[::g]:1",
                               "etcd://a:99999999999999999999",
                               "ETCD://a:1",
                               "etcd://u@a:1",
                               "etcds://a",
                               "etcds://u:p@a:1",
                               "etcd+unix://",
                               "etcd+unix://a:1",
                               "etcd+tcp://a:1"}) {
    std::string const words =
        std::string_view(at).starts_with("etcd+unix:") ? "etcd+unix:///path" : "etcd://host:port";
    expect_words(refusal<plait::input_error>([&] { etcd(at, 1s); }), words);
    expect_words(refusal<plait::input_error>([&] { etcd_watch(at, "a", [] {}); }), words);
  }
  auto const servers =
      plait::detail::etcd_servers("etcd://a-b.c_d:1,[fe80::1]:65535,127.0.0.1:2379");
  ASSERT_EQ(servers.size(), 3u);
  EXPECT_EQ(servers[0].host, "a-b.c_d");
  EXPECT_EQ(servers[1].host, "fe80::1");
  EXPECT_EQ(servers[1].name, "[fe80::1]:65535");
  EXPECT_EQ(servers[1].port, 65535);
  EXPECT_EQ(servers[2].host, "127.0.0.1");
}

TEST(EtcdText, Base64) {
  // RFC 4648, section 10
  for (auto const& [bytes, text] :
       std::vector<std::pair<std::string, std::string>>{{"", ""},
                                                        {"f", "Zg=="},
                                                        {"fo", "Zm8="},
                                                        {"foo", "Zm9v"},
                                                        {"foob", "Zm9vYg=="},
                                                        {"fooba", "Zm9vYmE="},
                                                        {"foobar", "Zm9vYmFy"}}) {
    EXPECT_EQ(plait::detail::to_base64(bytes), text);
    EXPECT_EQ(plait::detail::from_base64(text), bytes);
  }
}

}  // namespace
