// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hiredis/hiredis.h>
#include <sys/time.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "plait/backend/gloo/gloo_redis_address.hpp"
#include "plait/backend/gloo/gloo_redis_tls.hpp"
#include "plait/backend/process/rendezvous_store.hpp"
#include "plait/core/clock.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/password_file.hpp"
#include "plait/core/quote.hpp"

namespace plait::detail {

/// Notes in a Redis server, under a prefix of the job. They vanish by themselves if the job is
/// killed before rank 0 can remove them.
class gloo_redis final : public rendezvous_store {
 public:
  /// `address`: as gloo_redis_address says. No answer takes longer than `timeout`, nor than ten
  /// seconds, and notes stay for two of `timeout`.
  gloo_redis(std::string const& address, std::string_view job, std::chrono::milliseconds timeout)
      : address_(address),
        prefix_(concat({"plait:", escaped(job), ":"})),
        stays_(std::to_string(2 * timeout.count() + 10'000)),
        longest_(std::min<std::chrono::milliseconds>(timeout, std::chrono::seconds{10})) {
    gloo_redis_address const to(address);
    auto const milliseconds = longest_.count();
    timeval const most{.tv_sec = milliseconds / 1000, .tv_usec = milliseconds % 1000 * 1000};
    server_.reset(::redisConnectWithTimeout(to.host.c_str(), to.port, most));
    if (server_ == nullptr) fail("no memory");
    if (server_->err != 0) fail(server_->errstr);
    ::redisSetTimeout(server_.get(), most);
    try {
      if (to.is_encrypted) tls_ = std::make_unique<gloo_redis_tls>(server_->fd, to, longest_);
    } catch (std::runtime_error const& problem) {
      refuse(problem.what());
    }
    if (to.has_password()) show_password(to);
  }

  [[nodiscard]] std::string name() const override {
    return concat({"Redis server ", in_quotes(address_)});
  }
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
        auto const page = ask({"SCAN", cursor, "MATCH", concat({pattern, "*"}), "COUNT", "1000"});
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
  redis_reply ask(std::vector<std::string> const& words) {
    auto reply = send(words);
    if (reply->type == REDIS_REPLY_ERROR) {
      std::string_view const said(reply->str, static_cast<std::size_t>(reply->len));
      bool const asks = said.starts_with("NOAUTH");
      refuse(std::string(said) +
             (asks ? " Name the password's file by PLAIT_REDIS_PASSWORD_FILE" : ""));
    }
    return reply;
  }
  /// What the server says to it is not repeated, as that could have the password in it.
  void show_password(gloo_redis_address const& to) {
    std::vector<std::string> words{"AUTH", read_password(to.password_file)};
    if (!to.user.empty()) words.insert(words.begin() + 1, to.user);
    auto const reply = send(words);
    if (reply->type != REDIS_REPLY_ERROR) return;
    std::string_view const said(reply->str, static_cast<std::size_t>(reply->len));
    auto const who =
        to.user.empty() ? std::string("the default user") : concat({"user ", in_quotes(to.user)});
    if (said.find("without any password configured") != said.npos)
      refuse("a password is given, but it asks for none; anybody who reaches it can end the job");
    refuse(concat({who, " is not known to it, or the password in ",
                   path_in_quotes(to.password_file), " is not this user's"}));
  }
  redis_reply send(std::vector<std::string> const& words) try {
    std::vector<char const*> texts;
    std::vector<std::size_t> sizes;
    for (auto const& word : words) {
      texts.push_back(word.data());
      sizes.push_back(word.size());
    }
    if (tls_ != nullptr) return tls_->ask(texts, sizes);
    auto const begin = std::chrono::steady_clock::now();
    redis_reply reply(static_cast<::redisReply*>(::redisCommandArgv(
        server_.get(), static_cast<int>(words.size()), texts.data(), sizes.data())));
    if (reply == nullptr && std::chrono::steady_clock::now() - begin >= longest_)
      fail(concat({"it has not answered for ", longest_.count(), " ms"}));
    if (reply == nullptr) fail(server_->errstr);
    return reply;
  } catch (error const&) {
    throw;
  } catch (std::runtime_error const& problem) {  // of TLS
    refuse(problem.what());
  }
  [[noreturn]] void refuse(std::string_view what) const {
    throw input_error({name(), " cannot be used: ", escaped(what)});
  }
  [[noreturn]] void fail(std::string_view what) const {
    refuse(concat({what, "; is it running, and is .redis its host and port?"}));
  }

  std::string address_, prefix_, stays_;
  std::chrono::milliseconds longest_;
  std::unique_ptr<::redisContext, disconnect> server_;
  std::unique_ptr<gloo_redis_tls> tls_{};
};

}  // namespace plait::detail
