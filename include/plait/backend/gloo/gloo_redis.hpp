// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hiredis/hiredis.h>
#include <sys/time.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "plait/backend/process/meeting_store.hpp"
#include "plait/core/error.hpp"
#include "plait/core/quote.hpp"

namespace plait::detail {

/// Notes in a Redis server, under a prefix of the job. They vanish by themselves if the job is
/// killed before rank 0 can remove them. A server without a password only.
class gloo_redis final : public meeting_store {
 public:
  /// `address`: "host:port". No answer takes longer than `timeout`, nor than ten seconds, and notes
  /// stay for two of `timeout`.
  gloo_redis(std::string const& address, std::string_view job, std::chrono::milliseconds timeout)
      : address_(address),
        prefix_("plait:" + escaped(job) + ":"),
        stays_(std::to_string(2 * timeout.count() + 10'000)),
        longest_(std::min<std::chrono::milliseconds>(timeout, std::chrono::seconds{10})) {
    auto const colon = address.rfind(':');
    int port = 0;
    auto host = address.substr(0, colon);
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    if (colon != std::string::npos)
      std::from_chars(address.data() + colon + 1, address.data() + address.size(), port);
    if (host.empty() || port < 1 || port > 65535)
      throw input_error("gloo: .redis " + in_quotes(address) + " is not of the form host:port");
    auto const milliseconds = longest_.count();
    timeval const most{.tv_sec = milliseconds / 1000, .tv_usec = milliseconds % 1000 * 1000};
    server_.reset(::redisConnectWithTimeout(host.c_str(), port, most));
    if (server_ == nullptr) fail("no memory");
    if (server_->err != 0) fail(server_->errstr);
    ::redisSetTimeout(server_.get(), most);
  }

  [[nodiscard]] std::string name() const override { return "Redis server " + in_quotes(address_); }
  [[nodiscard]] std::string what_to_check() const override {
    return "were all ranks given this server, and the same job name by their launcher?";
  }

  void make() override {}
  [[nodiscard]] bool put(std::string const& key, std::string_view value) override {
    auto const done = ask({"SET", prefix_ + key, std::string(value), "NX", "PX", stays_});
    return done->type == REDIS_REPLY_STATUS;
  }
  [[nodiscard]] std::optional<std::string> get(std::string const& key) override {
    auto const found = ask({"GET", prefix_ + key});
    if (found->type != REDIS_REPLY_STRING) return std::nullopt;
    return std::string(found->str, static_cast<std::size_t>(found->len));
  }
  void remove(std::string const& key) noexcept override {
    try {
      ask({"DEL", prefix_ + key});
    } catch (error const&) {  // it goes when its time is over
    }
  }
  /// The other ranks' keys are found by their prefix.
  void clear(bool) noexcept override {
    try {
      std::string cursor = "0", pattern;
      for (char const c : prefix_) (pattern += '\\') += c;
      do {
        auto const page = ask({"SCAN", cursor, "MATCH", pattern + "*", "COUNT", "1000"});
        if (page->type != REDIS_REPLY_ARRAY || page->elements != 2) return;
        cursor.assign(page->element[0]->str, static_cast<std::size_t>(page->element[0]->len));
        for (std::size_t i = 0; i < page->element[1]->elements; ++i) {
          auto const* const key = page->element[1]->element[i];
          ask({"DEL", {key->str, static_cast<std::size_t>(key->len)}});
        }
      } while (cursor != "0");
    } catch (error const&) {  // they go when their time is over
    }
  }

 private:
  struct disconnect {
    void operator()(::redisContext* server) const { ::redisFree(server); }
  };
  struct free_reply {
    void operator()(::redisReply* reply) const { ::freeReplyObject(reply); }
  };

  std::unique_ptr<::redisReply, free_reply> ask(std::vector<std::string> const& words) {
    std::vector<char const*> texts;
    std::vector<std::size_t> sizes;
    for (auto const& word : words) {
      texts.push_back(word.data());
      sizes.push_back(word.size());
    }
    auto const begin = std::chrono::steady_clock::now();
    std::unique_ptr<::redisReply, free_reply> reply(static_cast<::redisReply*>(::redisCommandArgv(
        server_.get(), static_cast<int>(words.size()), texts.data(), sizes.data())));
    if (reply == nullptr && std::chrono::steady_clock::now() - begin >= longest_)
      fail("it has not answered for " + std::to_string(longest_.count()) + " ms");
    if (reply == nullptr) fail(server_->errstr);
    if (reply->type == REDIS_REPLY_ERROR) fail(reply->str);
    return reply;
  }
  [[noreturn]] void fail(std::string_view what) const {
    throw input_error(name() + " cannot be used: " + escaped(what) +
                      "; is it running, and is .redis its host and port?");
  }

  std::string address_, prefix_, stays_;
  std::chrono::milliseconds longest_;
  std::unique_ptr<::redisContext, disconnect> server_;
};

}  // namespace plait::detail
