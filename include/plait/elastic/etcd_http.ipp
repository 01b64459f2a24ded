// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/elastic/etcd_http.hpp"

#include <string_view>

#include "plait/core/concat.hpp"
#include "plait/core/quote.hpp"

namespace plait::detail {

// Initialises libcurl, once in each process.
//
// Errors:  etcd_error if the installed libcurl lacks a needed feature.
// Threads: any.
PLAIT_DECL void begin_libcurl() {
  static std::string const problem = []() -> std::string {
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
      return "etcd: libcurl cannot be initialised";
    auto const& found = *curl_version_info(CURLVERSION_NOW);
    // Without ASYNCHDNS, libcurl's time-out does not limit the look-up of a name.
    constexpr int needed = CURL_VERSION_ASYNCHDNS | CURL_VERSION_THREADSAFE;
    if (found.version_num >= 0x075800 && (found.features & needed) == needed) return "";
    return concat(
        {"etcd: libcurl ", found.version,
         " is installed; 7.88 or a later version is needed, with AsynchDNS and threadsafe"});
  }();
  if (!problem.empty()) throw etcd_error(problem);
}

PLAIT_DECL etcd_http::etcd_http(std::shared_ptr<etcd_access const> access)
    : access_(std::move(access)), easy_((begin_libcurl(), curl_easy_init())) {
  if (!easy_) throw std::bad_alloc();
  set_headers("");
  set_security();
  set(CURLOPT_HTTP_VERSION, long{CURL_HTTP_VERSION_1_1});
  set(CURLOPT_NOPROXY, "*");
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_QUICK_EXIT, 1L);  // at the time-out, libcurl does not wait for the look-up of a name
  set(CURLOPT_TCP_NODELAY, 1L);
  set(CURLOPT_POST, 1L);
  set(CURLOPT_WRITEFUNCTION, &receive);
  set(CURLOPT_PREREQFUNCTION, &connected);
  set(CURLOPT_OPENSOCKETFUNCTION, &open);
}

PLAIT_DECL void etcd_http::begin(etcd_server const& server, std::string const& call,
                                 std::string const& body, terms const& with,
                                 std::string const& token) {
  text_.clear();
  why_[0] = '\0';
  if (token != token_) set_headers(token);
  too_long_ = false;
  times_sent_ = 0;
  again_ = with.again;
  auto const& name = server.socket.empty() ? server.name : "etcd";
  set(CURLOPT_URL,
      concat({(access_->is_encrypted() ? "https://" : "http://"), name, "/v3/", call}).c_str());
  set(CURLOPT_UNIX_SOCKET_PATH, server.socket.empty() ? nullptr : server.socket.c_str());
  set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  set(CURLOPT_POSTFIELDS, body.data());
  set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(with.connect.count()));
  set(CURLOPT_TIMEOUT_MS, static_cast<long>(with.total.count()));
  set(CURLOPT_FORBID_REUSE, with.keeps ? 0L : 1L);
  set(CURLOPT_WRITEDATA, this);
  set(CURLOPT_PREREQDATA, this);
  set(CURLOPT_ERRORBUFFER, why_.data());
}

PLAIT_DECL std::string etcd_http::end() {
  auto const problem = curl_easy_perform(easy_.get());
  refused_ = is_refusal(problem);
  // The buffer moves with this object, so libcurl must not write to it after the call.
  set<char*>(CURLOPT_ERRORBUFFER, nullptr);
  if (problem == CURLE_OK) return "";
  if (too_long_) return "its answer is too long";
  if (problem == CURLE_OPERATION_TIMEDOUT) return "no answer in time";
  if (problem == CURLE_ABORTED_BY_CALLBACK) return "the connection broke";
  if (refused_ || problem == CURLE_SSL_CONNECT_ERROR) return words_of_refusal(problem);
  return curl_easy_strerror(problem) +
         std::string(problem == CURLE_GOT_NOTHING ? "; does it want TLS (etcds://)?" : "");
}

PLAIT_DECL int etcd_http::status() const {
  long out = 0;
  curl_easy_getinfo(easy_.get(), CURLINFO_RESPONSE_CODE, &out);
  return static_cast<int>(out);
}

PLAIT_DECL std::size_t etcd_http::receive(char* data, std::size_t, std::size_t size,
                                          void* to) noexcept try {
  auto& self = *static_cast<etcd_http*>(to);
  self.too_long_ = self.text_.size() + size > most_bytes;
  if (self.too_long_) return 0;
  self.text_.append(data, size);
  return size;
} catch (std::bad_alloc const&) {
  return 0;
}

PLAIT_DECL int etcd_http::connected(void* to, char*, char*, int, int) noexcept {
  auto& self = *static_cast<etcd_http*>(to);
  if (self.sent() && !self.again_) return CURL_PREREQFUNC_ABORT;
  ++self.times_sent_;
  return CURL_PREREQFUNC_OK;
}

PLAIT_DECL bool etcd_http::is_refusal(CURLcode problem) const {
  switch (problem) {
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR: return true;
    // The cause may also be a broken connection; the text of libcurl is then different.
    case CURLE_SSL_CONNECT_ERROR:
      return std::string_view(why_.data()).find("error:") != std::string_view::npos;
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_GOT_NOTHING: return broke_at_once();
    default: return false;
  }
}

PLAIT_DECL bool etcd_http::broke_at_once() const {
  long connections = 0;
  curl_easy_getinfo(easy_.get(), CURLINFO_NUM_CONNECTS, &connections);
  return access_->is_encrypted() && connections > 0 && status() == 0;
}

PLAIT_DECL std::string etcd_http::words_of_refusal(CURLcode problem) const {
  auto out =
      concat({"TLS: ", escaped(why_[0] == '\0' ? curl_easy_strerror(problem) : why_.data())});
  bool const is_known =
      problem != CURLE_SEND_ERROR && problem != CURLE_RECV_ERROR && problem != CURLE_GOT_NOTHING;
  if (is_known) return out;
  auto const& own = access_->files().certificate;
  return out + (own.empty()
                    ? "; does it require a certificate (PLAIT_ELASTIC_CERT and PLAIT_ELASTIC_KEY)?"
                    : concat({"; does it accept the certificate ", path_in_quotes(own), "?"}));
}

PLAIT_DECL void etcd_http::set_headers(std::string const& token) {
  std::unique_ptr<curl_slist, ends> lines;
  auto const add = [&](char const* line) {
    auto* const longer = curl_slist_append(lines.get(), line);
    if (longer == nullptr) throw std::bad_alloc();
    static_cast<void>(lines.release());  // the longer list owns these lines now
    lines.reset(longer);
  };
  // An empty "Expect:" keeps libcurl from adding this header itself; libcurl would then wait for an
  // answer to it. The header "Accept" of libcurl is sent: without it, etcd 3.4 takes the user of a
  // process with a certificate from the certificate of etcd itself.
  for (auto const* const line : {"Content-Type: application/json", "Expect:"}) add(line);
  if (!token.empty()) add(concat({"Authorization: ", token}).c_str());
  set(CURLOPT_HTTPHEADER, lines.get());
  headers_ = std::move(lines);
  token_ = token;
}

PLAIT_DECL void etcd_http::set_security() {
  set(CURLOPT_PROTOCOLS_STR, access_->is_encrypted() ? "https" : "http");
  if (!access_->is_encrypted()) return;
  if ((curl_version_info(CURLVERSION_NOW)->features & CURL_VERSION_SSL) == 0)
    throw etcd_error("etcd: the installed libcurl has no TLS, which etcds:// needs");
  set(CURLOPT_SSL_VERIFYPEER, 1L);
  set(CURLOPT_SSL_VERIFYHOST, 2L);
  set(CURLOPT_SSLVERSION, long{CURL_SSLVERSION_TLSv1_2});
  auto const& files = access_->files();
  if (!files.ca.empty()) {
    set(CURLOPT_CAINFO, files.ca.c_str());
    // Otherwise libcurl would also trust the system's authorities.
    set<char const*>(CURLOPT_CAPATH, nullptr);
  }
  if (files.certificate.empty()) return;
  set(CURLOPT_SSLCERT, files.certificate.c_str());
  set(CURLOPT_SSLKEY, files.key.c_str());
}

}  // namespace plait::detail
