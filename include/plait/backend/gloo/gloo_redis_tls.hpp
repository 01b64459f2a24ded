// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hiredis/hiredis.h>

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "plait/backend/gloo/gloo_redis_address.hpp"
#include "plait/core/clock.hpp"
#include "plait/core/concat.hpp"

#if PLAIT_USE_REDIS_TLS
#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#endif

namespace plait::detail {

struct free_redis_reply {
  void operator()(::redisReply* reply) const { ::freeReplyObject(reply); }
};
using redis_reply = std::unique_ptr<::redisReply, free_redis_reply>;

#if PLAIT_USE_REDIS_TLS

/// Commands to Redis by TLS 1.2 or later, over a socket that is connected. hiredis 0.14 has none of
/// its own. The server's certificate, and its name in it, are verified before anything is sent.
///
/// Errors: std::runtime_error with what OpenSSL says, or that no answer has come in `longest`.
class gloo_redis_tls {
 public:
  gloo_redis_tls(int socket, gloo_redis_address const& to, std::chrono::milliseconds longest)
      : socket_(socket), longest_(longest), context_(::SSL_CTX_new(::TLS_client_method())) {
    auto* const context = context_.get();
    if (context == nullptr) fail();
    require(::SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION), "it has no TLS 1.2");
    ::SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
    // An encrypted key is none of a job's: nobody is there to be asked.
    ::SSL_CTX_set_default_passwd_cb(context, [](char*, int, int, void*) { return -1; });
    if (to.ca.empty()) require(::SSL_CTX_set_default_verify_paths(context), "no CA of the system");
    else
      require(::SSL_CTX_load_verify_file(context, to.ca.c_str()), "PLAIT_REDIS_CA cannot be used");
    if (!to.certificate.empty()) {
      require(::SSL_CTX_use_certificate_chain_file(context, to.certificate.c_str()),
              "PLAIT_REDIS_CERT cannot be used");
      require(::SSL_CTX_use_PrivateKey_file(context, to.key.c_str(), SSL_FILETYPE_PEM),
              "PLAIT_REDIS_KEY cannot be used");
    }
    tls_.reset(::SSL_new(context));
    reader_.reset(::redisReaderCreate());
    auto* const in = ::BIO_new(::BIO_s_mem());
    auto* const out = ::BIO_new(::BIO_s_mem());
    if (!tls_ || !reader_ || in == nullptr || out == nullptr) fail();
    ::SSL_set_bio(tls_.get(), in, out);  // which owns them now
    expect_name(to.host);
    run([&] { return ::SSL_connect(tls_.get()); });
  }

  [[nodiscard]] redis_reply ask(std::vector<char const*>& words, std::vector<std::size_t>& sizes) {
    char* command = nullptr;
    auto const size = ::redisFormatCommandArgv(&command, static_cast<int>(words.size()),
                                               words.data(), sizes.data());
    if (size < 0) fail();
    std::string const text(command, static_cast<std::size_t>(size));
    ::redisFreeCommand(command);
    if (text.size() > std::numeric_limits<int>::max()) throw std::runtime_error("it is too long");
    run([&] { return ::SSL_write(tls_.get(), text.data(), static_cast<int>(text.size())); });
    for (;;) {
      void* reply = nullptr;
      if (::redisReaderGetReply(reader_.get(), &reply) != REDIS_OK)
        throw std::runtime_error(reader_->errstr);
      if (reply != nullptr) return redis_reply(static_cast<::redisReply*>(reply));
      std::array<char, 16'384> piece;
      auto const got = run([&] { return ::SSL_read(tls_.get(), piece.data(), piece.size()); });
      if (::redisReaderFeed(reader_.get(), piece.data(), std::size_t(got)) != REDIS_OK)
        throw std::runtime_error(reader_->errstr);
    }
  }

 private:
  using clock = std::chrono::steady_clock;

  void expect_name(std::string const& host) {
    auto* const names = ::SSL_get0_param(tls_.get());
    unsigned char address[sizeof(in6_addr)];
    bool const is_address = ::inet_pton(AF_INET, host.c_str(), address) == 1 ||
                            ::inet_pton(AF_INET6, host.c_str(), address) == 1;
    if (is_address) {
      require(::X509_VERIFY_PARAM_set1_ip_asc(names, host.c_str()), "its address is none");
      return;
    }
    require(::X509_VERIFY_PARAM_set1_host(names, host.c_str(), host.size()), "its name is none");
    require(::SSL_set_tlsext_host_name(tls_.get(), host.c_str()), "its name is none");
  }
  /// Until it has been done; returns what `call` does then, which is above 0.
  template <class Call>
  int run(Call const& call) {
    auto const end = clock::now() + longest_;
    for (;;) {
      ::ERR_clear_error();
      int const done = call();
      int const why = ::SSL_get_error(tls_.get(), done);
      if (done > 0) {
        send(end);
        return done;
      }
      if (why == SSL_ERROR_ZERO_RETURN) throw std::runtime_error("it has ended the connection");
      if (why != SSL_ERROR_WANT_READ) {
        auto const text = words();
        try {
          send(end);  // that it is not who it should be
        } catch (std::runtime_error const&) {
        }
        throw std::runtime_error(text);
      }
      send(end);
      receive(end);
    }
  }
  void send(clock::time_point end) {
    std::array<char, 16'384> piece;
    for (;;) {
      int const size =
          ::BIO_read(::SSL_get_wbio(tls_.get()), piece.data(), static_cast<int>(piece.size()));
      if (size <= 0) return;
      for (std::size_t sent = 0; sent < std::size_t(size);) {
        wait(POLLOUT, end);
        auto const more = ::send(socket_, piece.data() + sent, std::size_t(size) - sent,
                                 MSG_NOSIGNAL | MSG_DONTWAIT);
        if (more < 0 && errno != EAGAIN && errno != EINTR)
          throw std::runtime_error("the connection broke");
        sent += static_cast<std::size_t>(std::max<ssize_t>(more, 0));
      }
    }
  }
  void receive(clock::time_point end) {
    std::array<char, 16'384> piece;
    wait(POLLIN, end);
    auto const got = ::recv(socket_, piece.data(), piece.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) throw std::runtime_error("the connection broke");
    if (::BIO_write(::SSL_get_rbio(tls_.get()), piece.data(), static_cast<int>(got)) != got) fail();
  }
  void wait(short events, clock::time_point end) const {
    for (;;) {
      auto const left = std::chrono::ceil<std::chrono::milliseconds>(end - clock::now()).count();
      if (left <= 0)
        throw std::runtime_error(concat({"it has not answered for ", longest_.count(), " ms"}));
      pollfd ready{.fd = socket_, .events = events, .revents = 0};
      if (::poll(&ready, 1, static_cast<int>(std::min<long>(left, 60'000))) > 0) return;
    }
  }
  [[nodiscard]] std::string words() const {
    auto const certificate = ::SSL_get_verify_result(tls_.get());
    if (certificate != X509_V_OK)
      return std::string("its certificate is refused: ") +
             ::X509_verify_cert_error_string(certificate);
    char const* const reason = ::ERR_reason_error_string(::ERR_peek_last_error());
    return std::string("TLS: ") + (reason == nullptr ? "the connection broke" : reason);
  }
  static void require(long done, std::string const& what) {
    if (done == 1) return;
    char const* const reason = ::ERR_reason_error_string(::ERR_peek_last_error());
    throw std::runtime_error(what + (reason == nullptr ? "" : std::string(": ") + reason));
  }
  [[noreturn]] static void fail() { throw std::runtime_error("no memory"); }

  struct frees {
    void operator()(::SSL_CTX* context) const { ::SSL_CTX_free(context); }
    void operator()(::SSL* tls) const { ::SSL_free(tls); }
    void operator()(::redisReader* reader) const { ::redisReaderFree(reader); }
  };

  int socket_;
  std::chrono::milliseconds longest_;
  std::unique_ptr<::SSL_CTX, frees> context_;
  std::unique_ptr<::SSL, frees> tls_{};
  std::unique_ptr<::redisReader, frees> reader_{};
};

#else

/// In a build without OpenSSL.
class gloo_redis_tls {
 public:
  gloo_redis_tls(int, gloo_redis_address const&, std::chrono::milliseconds) {
    throw std::runtime_error(
        "rediss:// takes OpenSSL, which this program was built without; install it (Debian: "
        "libssl-dev) and configure anew, or define PLAIT_USE_REDIS_TLS=1 and link -lssl -lcrypto");
  }
  [[nodiscard]] redis_reply ask(std::vector<char const*>&, std::vector<std::size_t>&) {
    return nullptr;
  }
};

#endif

}  // namespace plait::detail
