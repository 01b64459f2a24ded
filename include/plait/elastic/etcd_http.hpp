// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <curl/curl.h>
#include <sys/socket.h>

#include <array>
#include <concepts>
#include <cstddef>
#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

#include "plait/backend/process/process_engine.hpp"
#include "plait/core/clock.hpp"
#include "plait/core/header_only.hpp"
#include "plait/elastic/etcd_access.hpp"
#include "plait/elastic/etcd_text.hpp"

static_assert(LIBCURL_VERSION_NUM >= 0x075800,
              "etcd: these headers of libcurl are too old; install those of 7.88 or a later one");

namespace plait::detail {

/// etcd cannot be reached, or its answer is an error or none of etcd's.
struct etcd_error : engine_error {
  explicit etcd_error(std::string const& text, std::string said = {})
      : engine_error(text), words(std::move(said)) {}

  std::string words;  ///< its own, "" if it has said nothing
};
/// Not for this process: who it is, or who etcd says that it is, is not what was agreed on.
struct etcd_refusal : etcd_error {
  using etcd_error::etcd_error;
};

/// Requests to servers of etcd, one after the other: a POST each, with an answer of 64 MiB at most.
/// Where they are encrypted, by TLS 1.2 or later, the server's certificate and the name in it are
/// verified before anything is sent. Neither proxies nor redirections are followed. No signals are
/// raised: libcurl sends with MSG_NOSIGNAL.
///
/// Cost:    connections are kept, a request on such a one is one packet.
/// Errors:  etcd_error if libcurl refuses an option; what goes wrong in a request is told after it.
/// Threads: used by one thread.
class etcd_http {
 public:
  using milliseconds = std::chrono::milliseconds;

  struct terms {
    milliseconds connect;   ///< for looking up the name and connecting
    milliseconds total{0};  ///< from begin to end; 0: for ever
    bool again = true;      ///< it may be sent anew if the connection breaks
    bool keeps = true;      ///< the connection is for the next request too
  };

  explicit etcd_http(std::shared_ptr<etcd_access const> access);

  /// Makes the next request ready; `body` has to live until it has ended. `token`: what etcd knows
  /// this process by, if that is not empty.
  void begin(etcd_server const& server, std::string const& call, std::string const& body,
             terms const& with, std::string const& token = "");
  /// Sends it and waits until it has ended; says what went wrong, or nothing.
  std::string end();
  /// Whether end() has failed since one of the two does not take the other's certificate.
  [[nodiscard]] bool refused() const { return refused_; }
  /// For a multi handle, which sends it instead of end().
  [[nodiscard]] CURL* handle() const { return easy_.get(); }

  /// Whether the server may have got it.
  [[nodiscard]] bool sent() const { return times_sent_ > 0; }
  /// 0 before it is known.
  [[nodiscard]] int status() const;
  /// What has come of the answer; what is taken out of it does not count as length.
  [[nodiscard]] std::string& text() { return text_; }

 private:
  static std::size_t receive(char* data, std::size_t, std::size_t size, void* to) noexcept;
  // libcurl sends anew what it has sent on a kept connection that breaks before an answer.
  static int connected(void* to, char*, char*, int, int) noexcept;
  static curl_socket_t open(void*, curlsocktype, curl_sockaddr* at) noexcept {
    return ::socket(at->family, at->socktype | SOCK_CLOEXEC, at->protocol);
  }
  [[nodiscard]] bool is_refusal(CURLcode problem) const;
  /// With TLS 1.3 a server refuses a certificate, or that there is none, when the connection is
  /// already there. What it says of that is lost where it closes while something is sent.
  [[nodiscard]] bool broke_at_once() const;
  [[nodiscard]] std::string words_of_refusal(CURLcode problem) const;
  void set_headers(std::string const& token);
  void set_security();
  // libcurl reads it as the type it expects, whatever it is.
  template <class Value>
    requires std::same_as<Value, long> || std::is_pointer_v<Value>
  void set(CURLoption option, Value value) {
    if (auto const problem = curl_easy_setopt(easy_.get(), option, value); problem != CURLE_OK)
      throw etcd_error(std::string("etcd: libcurl: ") + curl_easy_strerror(problem));
  }

  struct ends {
    void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
    void operator()(curl_slist* list) const { curl_slist_free_all(list); }
  };
  static constexpr std::size_t most_bytes = std::size_t{1} << 26;

  std::shared_ptr<etcd_access const> access_;
  std::unique_ptr<curl_slist, ends> headers_{};
  std::unique_ptr<CURL, ends> easy_;
  std::string text_{}, token_{};
  std::array<char, CURL_ERROR_SIZE> why_{};
  bool too_long_ = false, again_ = true, refused_ = false;
  int times_sent_ = 0;
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/elastic/etcd_http.ipp"
#endif
