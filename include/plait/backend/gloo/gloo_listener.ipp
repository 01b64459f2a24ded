// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/gloo/gloo_listener.hpp"

#include <netdb.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "plait/backend/process/process_engine.hpp"
#include "plait/core/concat.hpp"
#include "plait/mesh/ranks_text.hpp"

namespace plait::detail {

PLAIT_DECL std::string socket_text(std::string_view address) {
  sockaddr_storage at{};
  std::memcpy(&at, address.data(), std::min(address.size(), sizeof at));
  char host[NI_MAXHOST] = {}, port[NI_MAXSERV] = {};
  if (::getnameinfo(reinterpret_cast<sockaddr const*>(&at), static_cast<socklen_t>(address.size()),
                    host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "an invalid address";
  return concat(
      {(at.ss_family == AF_INET6 ? concat({"[", host, "]"}) : std::string(host)), ":", port});
}

PLAIT_DECL gloo_listener::gloo_listener(sockaddr_storage const& where, std::size_t bytes) {
  family_ = where.ss_family;
  socket_ = file_descriptor(::socket(family_, kind, 0));
  auto size = static_cast<socklen_t>(bytes);
  auto const* const to = reinterpret_cast<sockaddr const*>(&where);
  sockaddr_storage found{};
  socklen_t found_size = sizeof found;
  if (socket_.get() < 0 || ::bind(socket_.get(), to, size) != 0 ||
      ::listen(socket_.get(), SOMAXCONN) != 0 ||
      ::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&found), &found_size) != 0)
    throw engine_error(concat({"cannot open a port for connections of Gloo: ", words(errno)}));
  address_.assign(reinterpret_cast<char const*>(&found), found_size);
}

PLAIT_DECL std::string gloo_listener::progress::text(std::string_view address) const {
  auto const out = concat({ranks_text(missing), (missing.size() == 1 ? " is" : " are"),
                           " not connected with ", socket_text(address)});
  if (dropped == 0) return out;
  return concat({out, " (", dropped, (dropped == 1 ? " other has" : " others have"),
                 " connected without the secret of this job)"});
}

PLAIT_DECL std::vector<file_descriptor> gloo_listener::connect(
    gloo_challenge const& challenge, std::function<void(progress const&)> const& look) {
  auto const members = challenge.addresses().size();
  done_ = std::vector<file_descriptor>(members);
  tries_ = std::vector<tries>(members);
  for (std::size_t member = 0; member < members; ++member)
    if (static_cast<int>(member) != challenge.rank())
      now_.missing.push_back(static_cast<int>(member));
  struct close_all {
    std::list<link>& links;
    ~close_all() { links.clear(); }
  } const at_end{links_};
  auto next_look = clock::now() + between_looks;
  while (!now_.missing.empty()) {
    for (int member = 0; member < challenge.rank(); ++member) begin(challenge, member);
    wait(challenge);
    if (clock::now() < next_look) continue;
    look(now_);
    next_look = clock::now() + between_looks;
  }
  socket_ = file_descriptor();
  return std::move(done_);
}

PLAIT_DECL std::size_t gloo_listener::link::wanted() const {
  if (member < 0) return gloo_challenge::answer_bytes;
  return answer.empty() ? gloo_challenge::question_bytes : gloo_challenge::proof_bytes;
}

PLAIT_DECL void gloo_listener::is_done(int member, link& by) {
  done_[static_cast<std::size_t>(member)] = std::move(by.socket);
  std::erase(now_.missing, member);
}

PLAIT_DECL void gloo_listener::begin(gloo_challenge const& challenge, int member) {
  auto& of = tries_[static_cast<std::size_t>(member)];
  if (of.runs || !is_missing(member) || clock::now() < of.next) return;
  auto const& address = challenge.addresses()[static_cast<std::size_t>(member)];
  sockaddr_storage at{};
  std::memcpy(&at, address.data(), std::min(address.size(), sizeof at));
  if (at.ss_family != family_ || address.size() != address_.size())
    return refused(challenge, member, EAFNOSUPPORT);
  link out{.socket = file_descriptor(::socket(family_, kind, 0)), .member = member};
  auto const* const to = reinterpret_cast<sockaddr const*>(&at);
  if (out.socket.get() < 0 ||
      (::connect(out.socket.get(), to, static_cast<socklen_t>(address.size())) != 0 &&
       errno != EINPROGRESS))
    return refused(challenge, member, errno);
  of.runs = true;
  links_.push_back(std::move(out));
}

PLAIT_DECL void gloo_listener::again(int member) {
  auto& of = tries_[static_cast<std::size_t>(member)];
  of.runs = false;
  of.next = clock::now() + pause;
}

PLAIT_DECL void gloo_listener::refused(gloo_challenge const& challenge, int member, int code) {
  auto& of = tries_[static_cast<std::size_t>(member)];
  if (++of.refused < most_failures) return again(member);
  throw engine_error(
      concat({place(challenge, member), ": ", words(code),
              "; do the interfaces of their hosts reach each other (PLAIT_INTERFACE)?"}),
      member);
}

PLAIT_DECL void gloo_listener::wrong(gloo_challenge const& challenge, int member) {
  auto& of = tries_[static_cast<std::size_t>(member)];
  if (++of.wrong < most_failures) return again(member);
  throw engine_error(concat({"another program has answered at ", place(challenge, member), ", ",
                             most_failures, " times, without the secret of this job"}),
                     member);
}

PLAIT_DECL void gloo_listener::wait(gloo_challenge const& challenge) {
  std::vector<pollfd> events{{socket_.get(), POLLIN, 0}};
  for (auto const& one : links_) events.push_back({one.socket.get(), one.events(), 0});
  auto const limit = static_cast<int>(between_looks.count());
  if (::poll(events.data(), static_cast<nfds_t>(events.size()), limit) <= 0) return;
  auto at = links_.begin();
  for (std::size_t i = 1; i < events.size(); ++i) {
    auto const one = at++;
    if (events[i].revents != 0 && !go_on(challenge, *one)) links_.erase(one);
  }
  if (events[0].revents != 0) accept();
}

PLAIT_DECL bool gloo_listener::go_on(gloo_challenge const& challenge, link& one) {
  if (!one.is_open) {
    int code = 0;
    socklen_t size = sizeof code;
    if (::getsockopt(one.socket.get(), SOL_SOCKET, SO_ERROR, &code, &size) != 0) code = errno;
    one.is_open = code == 0;
    if (!one.is_open) refused(challenge, one.member, code);
    return one.is_open;
  }
  auto const found = read(challenge, one);
  if (found == outcome::waits) return true;
  if (found == outcome::done) return false;
  if (one.member < 0) ++now_.dropped;
  else if (found == outcome::wrong) wrong(challenge, one.member);
  else again(one.member);
  return false;
}

PLAIT_DECL gloo_listener::outcome gloo_listener::read(gloo_challenge const& challenge, link& one) {
  auto const begun = one.read.size();
  one.read.resize(one.wanted());
  auto const got = ::recv(one.socket.get(), one.read.data() + begun, one.read.size() - begun, 0);
  auto const is_early = got < 0 && (errno == EAGAIN || errno == EINTR);
  one.read.resize(begun + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  if (got <= 0) return is_early ? outcome::waits : outcome::closed;
  if (one.read.size() < one.wanted()) return outcome::waits;
  return take(challenge, one);
}

PLAIT_DECL gloo_listener::outcome gloo_listener::take(gloo_challenge const& challenge, link& one) {
  if (one.member < 0) {
    auto const member = challenge.who(one.question, one.read);
    if (!member || !is_missing(*member)) return outcome::wrong;
    if (!send(one, challenge.proof(one.question, one.read, *member))) return outcome::closed;
    is_done(*member, one);
    return outcome::done;
  }
  if (one.answer.empty()) {
    auto answer = challenge.answer(one.read, one.member);
    if (!answer) return outcome::wrong;
    one.question = std::exchange(one.read, {});
    one.answer = std::move(*answer);
    return send(one, one.answer) ? outcome::waits : outcome::closed;
  }
  if (!challenge.proves(one.read, one.question, one.answer, one.member)) return outcome::wrong;
  is_done(one.member, one);
  return outcome::done;
}

PLAIT_DECL bool gloo_listener::send(link const& one, std::string_view message) {
  return ::send(one.socket.get(), message.data(), message.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(message.size());
}

PLAIT_DECL void gloo_listener::accept() {
  auto const is_strange = [](link const& of) { return of.member < 0; };
  auto const drop_oldest = [&] {
    auto const oldest = std::ranges::find_if(links_, is_strange);
    if (oldest == links_.end()) return;
    links_.erase(oldest);
    ++now_.dropped;
  };
  auto const most = most_strangers + now_.missing.size();
  for (std::size_t i = 0; i < most; ++i) {
    file_descriptor socket(
        ::accept4(socket_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket.get() < 0) {
      if (errno == EMFILE || errno == ENFILE) drop_oldest();
      return;
    }
    link one{.socket = std::move(socket), .is_open = true, .question = gloo_challenge::question()};
    if (!send(one, one.question)) {
      ++now_.dropped;
      continue;
    }
    links_.push_back(std::move(one));
    if (static_cast<std::size_t>(std::ranges::count_if(links_, is_strange)) > most) drop_oldest();
  }
}

}  // namespace plait::detail
