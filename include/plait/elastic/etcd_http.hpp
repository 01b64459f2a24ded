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
              "etcd: these headers of libcurl are too old; install the headers of 7.88 or later");

namespace plait::detail {

/// Thrown if etcd cannot be reached, if its answer is an error, or if the answer does not come from
/// an etcd.
struct etcd_error : engine_error {
  explicit etcd_error(std::string const& text, std::string said = {})
      : engine_error(text), words(std::move(said)) {}

  std::string words;  ///< the error text in etcd's answer, or ""
};
/// Thrown if etcd refuses the identity of this process, or if this process refuses the identity of
/// the server.
struct etcd_refusal : etcd_error {
  using etcd_error::etcd_error;
};

/// Sends HTTP requests to servers of etcd, one after the other. Each request is a POST, whose
/// answer has at most 64 MiB. If the connection is encrypted, by TLS 1.2 or later, the server's
/// certificate and its name are verified before anything is sent. Proxies and redirections are not
/// followed. No signals are raised: libcurl sends with MSG_NOSIGNAL.
///
/// Cost:    connections are kept open; a request on an open connection is one packet.
/// Errors:  etcd_error if libcurl refuses an option; end() returns the error of a request.
/// Threads: used by one thread.
class etcd_http {
 public:
  using milliseconds = std::chrono::milliseconds;

  struct terms {
    milliseconds connect;   ///< longest time to look up the name and to connect
    milliseconds total{0};  ///< longest time of the whole request; 0: no limit
    /// True if the request may be sent a second time when the connection breaks.
    bool again = true;
    bool keeps = true;  ///< true if the connection is kept open for the next request
  };

  explicit etcd_http(std::shared_ptr<etcd_access const> access);

  /// Prepares the next request. `body` must exist until the request has ended. `token`: the token
  /// that etcd has issued to this process, or "".
  void begin(etcd_server const& server, std::string const& call, std::string const& body,
             terms const& with, std::string const& token = "");
  /// Sends the request and waits for its end; returns the error, or "".
  std::string end();
  /// True if end() has failed because client or server has refused the other's certificate.
  [[nodiscard]] bool refused() const { return refused_; }
  /// The libcurl handle of the request. A caller that adds it to a multi handle does not call
  /// end().
  [[nodiscard]] CURL* handle() const { return easy_.get(); }

  /// True if the server may have received the request.
  [[nodiscard]] bool sent() const { return times_sent_ > 0; }
  /// The HTTP status; 0 until the answer has begun.
  [[nodiscard]] int status() const;
  /// The answer that has been received so far. The caller may remove text that it has read, which
  /// then no longer counts towards the limit.
  [[nodiscard]] std::string& text() { return text_; }

 private:
  static std::size_t receive(char* data, std::size_t, std::size_t size, void* to) noexcept;
  // Called by libcurl for each connection: counts how often the request was sent, since libcurl
  // sends it a second time if an open connection breaks before an answer.
  static int connected(void* to, char*, char*, int, int) noexcept;
  static curl_socket_t open(void*, curlsocktype, curl_sockaddr* at) noexcept {
    return ::socket(at->family, at->socktype | SOCK_CLOEXEC, at->protocol);
  }
  [[nodiscard]] bool is_refusal(CURLcode problem) const;
  /// True if the connection broke right after the handshake. With TLS 1.3 a server can refuse a
  /// client's certificate, or its absence, only after the handshake, and its alert is lost if it
  /// closes the connection while the request is being sent.
  [[nodiscard]] bool broke_at_once() const;
  [[nodiscard]] std::string words_of_refusal(CURLcode problem) const;
  void set_headers(std::string const& token);
  void set_security();
  // Sets an option of libcurl. libcurl reads the value as the type that the option expects, so only
  // the two types of the options used here compile.
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
