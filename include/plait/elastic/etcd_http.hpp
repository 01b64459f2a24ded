// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <curl/curl.h>
#include <sys/socket.h>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

#include "plait/backend/process/process_engine.hpp"
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

/// Makes libcurl ready, once for the process.
///
/// Errors:  etcd_error if the libcurl that was found cannot do what is asked of it here.
/// Threads: any.
inline void begin_libcurl() {
  static std::string const problem = []() -> std::string {
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) return "etcd: libcurl does not start";
    auto const& found = *curl_version_info(CURLVERSION_NOW);
    // Without the first, a look-up of a name ends when it likes.
    constexpr int needed = CURL_VERSION_ASYNCHDNS | CURL_VERSION_THREADSAFE;
    if (found.version_num >= 0x075800 && (found.features & needed) == needed) return "";
    return std::string("etcd: libcurl ") + found.version +
           " was found; 7.88 or a later one is needed, with AsynchDNS and threadsafe";
  }();
  if (!problem.empty()) throw etcd_error(problem);
}

/// Requests to servers of etcd, one after the other: a POST each, with an answer of 64 MiB at most.
/// Neither proxies nor redirections are followed. No signals are raised: libcurl sends with
/// MSG_NOSIGNAL.
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

  etcd_http() : easy_((begin_libcurl(), curl_easy_init())) {
    if (!easy_) throw std::bad_alloc();
    // Empty: libcurl's own are not sent. It would wait for an answer to "Expect".
    for (auto const* const line : {"Content-Type: application/json", "Accept:", "Expect:"}) {
      auto* const longer = curl_slist_append(headers_.get(), line);
      if (longer == nullptr) throw std::bad_alloc();
      static_cast<void>(headers_.release());  // it is the beginning of the longer one
      headers_.reset(longer);
    }
    set(CURLOPT_HTTPHEADER, headers_.get());
    set(CURLOPT_HTTP_VERSION, long{CURL_HTTP_VERSION_1_1});
    set(CURLOPT_PROTOCOLS_STR, "http");
    set(CURLOPT_NOPROXY, "*");
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_QUICK_EXIT, 1L);  // a look-up of a name is not waited for when the time is over
    set(CURLOPT_TCP_NODELAY, 1L);
    set(CURLOPT_POST, 1L);
    set(CURLOPT_WRITEFUNCTION, &receive);
    set(CURLOPT_PREREQFUNCTION, &connected);
    set(CURLOPT_OPENSOCKETFUNCTION, &open);
  }

  /// Makes the next request ready; `body` has to live until it has ended.
  void begin(etcd_server const& server, std::string const& call, std::string const& body,
             terms const& with) {
    text_.clear();
    too_long_ = false;
    times_sent_ = 0;
    again_ = with.again;
    set(CURLOPT_URL, ("http://" + server.name + "/v3/" + call).c_str());
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
    set(CURLOPT_POSTFIELDS, body.data());
    set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(with.connect.count()));
    set(CURLOPT_TIMEOUT_MS, static_cast<long>(with.total.count()));
    set(CURLOPT_FORBID_REUSE, with.keeps ? 0L : 1L);
    set(CURLOPT_WRITEDATA, this);
    set(CURLOPT_PREREQDATA, this);
  }
  /// Sends it and waits until it has ended; says what went wrong, or nothing.
  std::string end() {
    auto const problem = curl_easy_perform(easy_.get());
    if (problem == CURLE_OK) return "";
    if (too_long_) return "its answer is too long";
    if (problem == CURLE_OPERATION_TIMEDOUT) return "no answer in time";
    if (problem == CURLE_ABORTED_BY_CALLBACK) return "the connection broke";
    return curl_easy_strerror(problem);
  }
  /// For a multi handle, which sends it instead of end().
  [[nodiscard]] CURL* handle() const { return easy_.get(); }

  /// Whether the server may have got it.
  [[nodiscard]] bool sent() const { return times_sent_ > 0; }
  /// 0 before it is known.
  [[nodiscard]] int status() const {
    long out = 0;
    curl_easy_getinfo(easy_.get(), CURLINFO_RESPONSE_CODE, &out);
    return static_cast<int>(out);
  }
  /// What has come of the answer; what is taken out of it does not count as length.
  [[nodiscard]] std::string& text() { return text_; }

 private:
  static std::size_t receive(char* data, std::size_t, std::size_t size, void* to) noexcept try {
    auto& self = *static_cast<etcd_http*>(to);
    self.too_long_ = self.text_.size() + size > most_bytes;
    if (self.too_long_) return 0;
    self.text_.append(data, size);
    return size;
  } catch (std::bad_alloc const&) {
    return 0;
  }
  // libcurl sends anew what it has sent on a kept connection that breaks before an answer.
  static int connected(void* to, char*, char*, int, int) noexcept {
    auto& self = *static_cast<etcd_http*>(to);
    if (self.sent() && !self.again_) return CURL_PREREQFUNC_ABORT;
    ++self.times_sent_;
    return CURL_PREREQFUNC_OK;
  }
  static curl_socket_t open(void*, curlsocktype, curl_sockaddr* at) noexcept {
    return ::socket(at->family, at->socktype | SOCK_CLOEXEC, at->protocol);
  }
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

  std::unique_ptr<curl_slist, ends> headers_{};
  std::unique_ptr<CURL, ends> easy_;
  std::string text_{};
  bool too_long_ = false, again_ = true;
  int times_sent_ = 0;
};

}  // namespace plait::detail
