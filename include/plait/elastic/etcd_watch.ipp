// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/elastic/etcd_watch.hpp"

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>

#include "plait/core/error.hpp"

namespace plait::detail {

PLAIT_DECL etcd_watch::etcd_watch(std::shared_ptr<etcd_access> access, std::string const& prefix,
                                  std::function<void()> changed, milliseconds longest_silence)
    : access_(std::move(access)),
      body_(nlohmann::json{{"create_request", etcd_range(prefix)}}.dump()),
      changed_(std::move(changed)),
      longest_silence_(longest_silence),
      multi_(curl_multi_init()) {
  // The wake-up fails if no file descriptor is left. The destructor could then not wake the thread.
  if (!multi_ || curl_multi_wakeup(multi_.get()) != CURLM_OK)
    throw etcd_error("etcd: a watch cannot be started; are too many files open?");
  thread_ = std::thread([this] { run(); });
}

PLAIT_DECL etcd_watch::~etcd_watch() {
  stopping_ = true;
  curl_multi_wakeup(multi_.get());  // also ends a wait that the thread begins later
  thread_.join();
}

PLAIT_DECL void etcd_watch::run() {
  auto pause = shortest_pause;
  auto const& servers = access_->servers();
  for (std::size_t i = 0; !stopping_; i = (i + 1) % servers.size()) {
    if (watch(servers[i])) pause = shortest_pause;
    for (auto const end = clock::now() + pause; !stopping_ && clock::now() < end;) wait(end);
    pause = std::min(2 * pause, milliseconds(2000));
  }
}

PLAIT_DECL bool etcd_watch::watch(etcd_server const& server) {
  if (!sign_in(server)) return false;
  auto const token = access_->token();
  http_.begin(server, "watch", body_, {.connect = milliseconds(2000), .keeps = false}, token);
  if (curl_multi_add_handle(multi_.get(), http_.handle()) != CURLM_OK) return false;
  bool reached = false;
  auto silent_since = clock::now();
  for (std::size_t unfinished = 0; !stopping_;) {
    int running = 0;
    if (curl_multi_perform(multi_.get(), &running) != CURLM_OK) break;
    auto& text = http_.text();
    if (text.size() != unfinished) silent_since = clock::now();
    if (http_.status() > 200) break;
    if (http_.status() == 200) {
      auto const end = text.rfind('\n') + 1;
      auto const lines = std::string_view(text).substr(0, end);
      bool const is_watched = heard(lines, reached);
      if (!is_watched && etcd_access::is_of_old_token(lines)) access_->forget(token);
      if (!is_watched) break;
      text.erase(0, end);
    }
    unfinished = text.size();
    if (running == 0 || clock::now() >= silent_since + longest_silence_) break;
    wait(silent_since + longest_silence_);
  }
  curl_multi_remove_handle(multi_.get(), http_.handle());
  return reached;
}

PLAIT_DECL bool etcd_watch::sign_in(etcd_server const& server) {
  if (!access_->has_user() || !access_->token().empty()) return true;
  constexpr milliseconds longest{2000};
  std::string question;
  try {
    question = access_->question();
  } catch (input_error const&) {
    return false;
  }
  http_.begin(server, "auth/authenticate", question, {.connect = longest, .total = longest});
  if (curl_multi_add_handle(multi_.get(), http_.handle()) != CURLM_OK) return false;
  for (int running = 1; !stopping_;) {
    if (curl_multi_perform(multi_.get(), &running) != CURLM_OK || running == 0) break;
    wait(clock::now() + longest);
  }
  curl_multi_remove_handle(multi_.get(), http_.handle());
  return http_.status() == 200 && access_->take_token(http_.text());
}

PLAIT_DECL bool etcd_watch::heard(std::string_view lines, bool& reached) {
  while (!lines.empty() && !stopping_) {
    auto const end = lines.find('\n');
    auto const said = nlohmann::json::parse(lines.substr(0, end), nullptr, false);
    lines.remove_prefix(end + 1);
    auto const result = said.is_object() ? said.find("result") : said.end();
    if (result == said.end() || !result->is_object() || result->contains("canceled")) return false;
    reached = true;
    if (result->contains("created") || result->contains("events")) [&]() noexcept { changed_(); }();
  }
  return true;
}

PLAIT_DECL void etcd_watch::wait(clock::time_point end) {
  auto const left = std::chrono::ceil<milliseconds>(end - clock::now()).count();
  curl_multi_poll(multi_.get(), nullptr, 0, static_cast<int>(std::clamp<long>(left, 0, 60'000)),
                  nullptr);
}

}  // namespace plait::detail
