// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/gloo/gloo_redis.hpp"

#include <sys/time.h>

#include <algorithm>

#include "plait/core/password_file.hpp"
#include "plait/core/quote.hpp"

namespace plait::detail {

PLAIT_DECL gloo_redis::gloo_redis(std::string const& address, std::string_view job,
                                  std::chrono::milliseconds timeout)
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

PLAIT_DECL std::string gloo_redis::name() const {
  return concat({"Redis server ", in_quotes(address_)});
}

PLAIT_DECL bool gloo_redis::put(std::string const& key, std::string_view value) {
  auto const done = ask({"SET", prefix_ + key, std::string(value), "NX", "PX", stays_});
  return done->type == REDIS_REPLY_STATUS;
}

PLAIT_DECL std::optional<std::string> gloo_redis::get(std::string const& key) {
  auto const found = ask({"GET", prefix_ + key});
  if (found->type != REDIS_REPLY_STRING) return std::nullopt;
  return std::string(found->str, static_cast<std::size_t>(found->len));
}

PLAIT_DECL void gloo_redis::remove(std::string const& key) noexcept {
  try {
    ask({"DEL", prefix_ + key});
  } catch (error const&) {  // it goes when its time is over
  }
}

PLAIT_DECL void gloo_redis::clear(bool) noexcept {
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

PLAIT_DECL redis_reply gloo_redis::ask(std::vector<std::string> const& words) {
  auto reply = send(words);
  if (reply->type == REDIS_REPLY_ERROR) {
    std::string_view const said(reply->str, static_cast<std::size_t>(reply->len));
    bool const asks = said.starts_with("NOAUTH");
    refuse(std::string(said) +
           (asks ? " Name the password's file by PLAIT_REDIS_PASSWORD_FILE" : ""));
  }
  return reply;
}

PLAIT_DECL void gloo_redis::show_password(gloo_redis_address const& to) {
  std::vector<std::string> words{"AUTH", read_password(to.password_file)};
  if (!to.user.empty()) words.insert(words.begin() + 1, to.user);
  auto const reply = send(words);
  if (reply->type != REDIS_REPLY_ERROR) return;
  std::string_view const said(reply->str, static_cast<std::size_t>(reply->len));
  auto const who =
      to.user.empty() ? std::string("the default user") : concat({"user ", in_quotes(to.user)});
  if (said.find("without any password configured") != said.npos)
    refuse("a password is given, but it asks for none; anybody who reaches it can end the job");
  refuse(concat({who, " is not known to it, or the password in ", path_in_quotes(to.password_file),
                 " is not this user's"}));
}

PLAIT_DECL redis_reply gloo_redis::send(std::vector<std::string> const& words) try {
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

PLAIT_DECL void gloo_redis::refuse(std::string_view what) const {
  throw input_error({name(), " cannot be used: ", escaped(what)});
}

PLAIT_DECL void gloo_redis::fail(std::string_view what) const {
  refuse(concat({what, "; is it running, and is .redis its host and port?"}));
}

}  // namespace plait::detail
