// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "plait/elastic/etcd.hpp"
#include "plait/elastic/etcd_access.hpp"
#include "plait/elastic/etcd_http.hpp"

namespace plait_test {

inline std::string path_of_program(std::string const& name) {
  std::istringstream path(std::getenv("PATH") == nullptr ? "" : std::getenv("PATH"));
  for (std::string folder; std::getline(path, folder, ':');)
    if (::access((folder + "/" + name).c_str(), X_OK) == 0) return folder + "/" + name;
  return "";
}

inline std::string free_address() {
  int const one = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(at);
  auto* const address = reinterpret_cast<sockaddr*>(&at);
  bool const is_bound = ::bind(one, address, size) == 0 && ::getsockname(one, address, &size) == 0;
  ::close(one);
  if (!is_bound) throw std::runtime_error("no port is free");
  return "127.0.0.1:" + std::to_string(ntohs(at.sin_port));
}

/// An etcd of one server in a temporary folder, which can be killed and restarted.
class own_etcd {
 public:
  /// `scheme`: "etcd" or "etcds"; `options`: further options of etcd.
  explicit own_etcd(std::string scheme = "etcd", std::vector<std::string> options = {})
      : scheme_(std::move(scheme)),
        options_(std::move(options)),
        name_(free_address()),
        peer_(free_address()) {
    std::string name = std::filesystem::temp_directory_path() / "plait-etcd-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    folder_ = name;
  }
  own_etcd(own_etcd const&) = delete;
  own_etcd& operator=(own_etcd const&) = delete;
  ~own_etcd() {
    kill();
    std::filesystem::remove_all(folder_);
  }
  [[nodiscard]] std::string const& name() const { return name_; }
  [[nodiscard]] std::string at() const { return scheme_ + "://" + name_; }

  void start() { start(std::make_shared<plait::detail::etcd_access>(at())); }
  /// `with`: the access that a client needs.
  void start(std::shared_ptr<plait::detail::etcd_access> const& with) {
    auto const client = (scheme_ == "etcds" ? "https://" : "http://") + name_;
    std::vector<std::string> words{path_of_program("etcd"),
                                   "--data-dir",
                                   folder_ / "data",
                                   "--listen-client-urls",
                                   client,
                                   "--advertise-client-urls",
                                   client,
                                   "--listen-peer-urls",
                                   "http://" + peer_,
                                   "--initial-advertise-peer-urls",
                                   "http://" + peer_,
                                   "--initial-cluster",
                                   "default=http://" + peer_,
                                   "--heartbeat-interval",
                                   "20",
                                   "--election-timeout",
                                   "200"};
    words.insert(words.end(), options_.begin(), options_.end());
    std::vector<char*> raw;
    for (auto& word : words) raw.push_back(word.data());
    raw.push_back(nullptr);
    auto const log = folder_ / "log";
    auto const parent = ::getpid();
    process_ = ::fork();
    if (process_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      int const out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
      ::dup2(out, 1);
      ::dup2(out, 2);
      if (::getppid() == parent) ::execv(raw[0], raw.data());
      ::_exit(127);
    }
    using clock = std::chrono::steady_clock;
    auto const end = clock::now() + std::chrono::seconds(20);
    for (plait::detail::etcd client_of(with, std::chrono::milliseconds(500)); clock::now() < end;
         std::this_thread::sleep_for(std::chrono::milliseconds(20)))
      try {
        client_of.read("/plait/none");
        return;
      } catch (plait::detail::etcd_error const&) {
      }
    throw std::runtime_error("etcd does not start");
  }
  void kill() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    process_ = 0;
  }
  void pause(bool on) const {
    ::kill(process_, on ? SIGSTOP : SIGCONT);
    if (on) ::waitpid(process_, nullptr, WUNTRACED);  // returns when all its threads have stopped
  }

 private:
  std::string scheme_;
  std::vector<std::string> options_;
  std::filesystem::path folder_;
  std::string name_, peer_;
  pid_t process_ = 0;
};

}  // namespace plait_test
