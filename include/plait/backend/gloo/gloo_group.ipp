// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/gloo/gloo_group.hpp"

#include <utility>

#include "plait/backend/communicator.hpp"
#include "plait/backend/host/rank_order.hpp"
#include "plait/core/caught_signal.hpp"
#include "plait/core/error.hpp"

namespace plait::detail {

PLAIT_DECL ::gloo::AllreduceOptions::Func gloo_reduction(element_type type, reduction operation) {
  switch (type.kind) {
    case 'f':
      if (type.bytes == 4) return gloo_reduction<float>(operation);
      if (type.bytes == 8) return gloo_reduction<double>(operation);
      return nullptr;
    case 'i':
      return type.bytes == 1   ? gloo_reduction<std::int8_t>(operation)
             : type.bytes == 2 ? gloo_reduction<std::int16_t>(operation)
             : type.bytes == 4 ? gloo_reduction<std::int32_t>(operation)
                               : gloo_reduction<std::int64_t>(operation);
    case 'u':
      return type.bytes == 1   ? gloo_reduction<std::uint8_t>(operation)
             : type.bytes == 2 ? gloo_reduction<std::uint16_t>(operation)
             : type.bytes == 4 ? gloo_reduction<std::uint32_t>(operation)
                               : gloo_reduction<std::uint64_t>(operation);
    default: return nullptr;
  }
}

PLAIT_DECL gloo_group::gloo_group(std::shared_ptr<gloo_connections> with,
                                  std::vector<int> const& members, unsigned number)
    : process_group(members, place_of(with->world->rank, members)),
      with_(std::move(with)),
      members_(members),
      number_(number),
      rank_(static_cast<std::size_t>(place_of(with_->world->rank, members))) {
  auto const size = members_.size();
  in_.resize(size);
  out_.resize(size);
  sent_.resize(size);
  received_.resize(size);
}

PLAIT_DECL void gloo_group::broadcast(void* inout, std::size_t bytes, int root) {
  ask("broadcast", [&] {
    auto const slot = next_slot(kind::broadcast, bytes);
    if (is(root)) return to_all(inout, bytes, slot);
    begin_receive(std::size_t(root), inout, bytes, slot);
    wait_for_receive(std::size_t(root));
  });
}

PLAIT_DECL void gloo_group::send(void const* data, std::size_t bytes, int to) {
  ask("send", [&] {
    auto const other = static_cast<std::size_t>(to);
    to_one(other, data, bytes, slot(kind::message, sent_[other]++, bytes));
  });
}

PLAIT_DECL void gloo_group::receive(void* data, std::size_t bytes, int from) {
  ask("receive", [&] {
    auto const other = static_cast<std::size_t>(from);
    begin_receive(other, data, bytes, slot(kind::message, received_[other]++, bytes));
    wait_for_receive(other);
  });
}

PLAIT_DECL std::size_t gloo_group::post_send(void const* data, std::size_t bytes, int to) {
  std::size_t place = 0;
  ask("send", [&] {
    auto const other = static_cast<std::size_t>(to);
    place = begin_post(other, const_cast<void*>(data), bytes, true);  // NOLINT: only read
    posted_[place].lent->send(members_[other], slot(kind::message, sent_[other]++, bytes), 0,
                              bytes);
  });
  return place;
}

PLAIT_DECL std::size_t gloo_group::post_receive(void* data, std::size_t bytes, int from) {
  std::size_t place = 0;
  ask("receive", [&] {
    auto const other = static_cast<std::size_t>(from);
    place = begin_post(other, data, bytes, false);
    posted_[place].lent->recv(members_[other], slot(kind::message, received_[other]++, bytes), 0,
                              bytes);
  });
  return place;
}

PLAIT_DECL void gloo_group::wait_for_posted(std::size_t place, int other) {
  bool const is_sent = place < posted_.size() && posted_[place].is_sent;
  ask(is_sent ? "send" : "receive", [&] {
    auto& one = posted_[place];
    other_ = static_cast<std::size_t>(other);
    if (one.is_sent) one.lent->waitSend(left());
    else one.lent->waitRecv(left());
    one.lent.reset();
  });
}

PLAIT_DECL bool gloo_group::give_up_posted() noexcept {
  with_->fail();  // afterwards Gloo writes to no buffer
  posted_.clear();
  return true;
}

PLAIT_DECL bool gloo_group::all_reduce(void* inout, std::size_t count, element_type type,
                                       reduction operation) {
  auto how = gloo_reduction(type, operation);
  if (how == nullptr) return false;
  if (members_.size() == 1 || count == 0) return true;
  ask("all_reduce", [&] {
    ::gloo::AllreduceOptions options(own_mesh());
    other_ = none;
    // Gloo's algorithm uses only the size of an element; the reduction is a function of plait.
    switch (type.bytes) {
      case 1: options.setOutput(static_cast<std::uint8_t*>(inout), count); break;
      case 2: options.setOutput(static_cast<std::uint16_t*>(inout), count); break;
      case 4: options.setOutput(static_cast<std::uint32_t*>(inout), count); break;
      default: options.setOutput(static_cast<std::uint64_t*>(inout), count); break;
    }
    options.setReduceFunction(std::move(how));
    options.setTag(static_cast<std::uint32_t>(number_ << 24) | (calls_++ & 0xffffffu));
    options.setTimeout(left());
    ::gloo::allreduce(options);
  });
  return true;
}

PLAIT_DECL std::shared_ptr<gloo_mesh> gloo_group::connect_anew(
    std::string const& name, std::shared_ptr<gloo_watch> const& watch) {
  std::shared_ptr<gloo_mesh> out;
  ask("connect", [&] { out = new_mesh(name, watch); });
  return out;
}

PLAIT_DECL std::uint64_t gloo_group::slot(kind what, std::uint32_t call, std::size_t bytes) const {
  auto const size = std::uint64_t{bytes} ^ std::uint64_t{bytes} >> 32;
  return (0x40 + static_cast<std::uint64_t>(what)) << 56 | (number_ & 0xff) << 48 |
         std::uint64_t{call & 0xffffu} << 32 | (size & 0xffffffffu);
}

PLAIT_DECL std::size_t gloo_group::begin_post(std::size_t other, void* data, std::size_t bytes,
                                              bool is_sent) {
  other_ = other;
  auto const free = std::ranges::find_if(posted_, [](auto& one) { return one.lent == nullptr; });
  auto const place = static_cast<std::size_t>(free - posted_.begin());
  if (free == posted_.end()) posted_.emplace_back();
  posted_[place] = {with_->world->createUnboundBuffer(data, bytes), is_sent};
  return place;
}

PLAIT_DECL void gloo_group::begin_receive(std::size_t from, void* data, std::size_t bytes,
                                          std::uint64_t at) {
  other_ = from;
  in_[from] = with_->world->createUnboundBuffer(data, bytes);
  in_[from]->recv(members_[from], at, 0, bytes);
}

PLAIT_DECL void gloo_group::begin_send(std::size_t to, void const* data, std::size_t bytes,
                                       std::uint64_t at) {
  other_ = to;
  out_[to] =
      with_->world->createUnboundBuffer(const_cast<void*>(data), bytes);  // NOLINT: only read
  out_[to]->send(members_[to], at, 0, bytes);
}

PLAIT_DECL void gloo_group::wait_for_receive(std::size_t from) {
  other_ = from;
  in_[from]->waitRecv(left());
  in_[from].reset();
}

PLAIT_DECL void gloo_group::wait_for_send(std::size_t to) {
  other_ = to;
  out_[to]->waitSend(left());
  out_[to].reset();
}

PLAIT_DECL void gloo_group::to_one(std::size_t to, void const* data, std::size_t bytes,
                                   std::uint64_t at) {
  begin_send(to, data, bytes, at);
  wait_for_send(to);
}

PLAIT_DECL void gloo_group::to_all(void const* data, std::size_t bytes, std::uint64_t at) {
  for_others([&](std::size_t to) { begin_send(to, data, bytes, at); });
  for_others([&](std::size_t to) { wait_for_send(to); });
}

PLAIT_DECL void gloo_group::exchange(kind what, void const* send, std::size_t stride, void* receive,
                                     std::size_t bytes) {
  auto const at = next_slot(what, bytes);
  for_others(
      [&](std::size_t from) { begin_receive(from, block(receive, from, bytes), bytes, at); });
  for_others([&](std::size_t to) { begin_send(to, block(send, to, stride), bytes, at); });
  copy_bytes(block(receive, rank_, bytes), block(send, rank_, stride), bytes);
  for_others([&](std::size_t from) { wait_for_receive(from); });
  for_others([&](std::size_t to) { wait_for_send(to); });
}

PLAIT_DECL std::shared_ptr<gloo_mesh> const& gloo_group::own_mesh() {
  if (mesh_ != nullptr) return mesh_;
  if (members_.size() == static_cast<std::size_t>(with_->world->size) &&
      std::is_sorted(members_.begin(), members_.end()))
    return mesh_ = with_->world;
  auto name = concat({"group ", number_});
  for (int const member : members_) name += concat({" ", member});
  mesh_ = new_mesh(name, with_->watch);
  with_->add(mesh_);
  return mesh_;
}

PLAIT_DECL std::shared_ptr<gloo_mesh> gloo_group::new_mesh(
    std::string const& name, std::shared_ptr<gloo_watch> const& watch) {
  auto const size = static_cast<int>(members_.size());
  auto mesh =
      std::make_shared<gloo_mesh>(static_cast<int>(rank_), size, with_->over, watch, left());
  auto const& mine = mesh->address();
  std::string all(mine.size() * members_.size(), '\0');
  exchange(kind::all_gather, mine.data(), 0, all.data(), mine.size());
  std::vector<std::string> addresses;
  for (std::size_t at = 0; at < all.size(); at += mine.size())
    addresses.push_back(all.substr(at, mine.size()));
  auto of = with_->identity;
  of.rendezvous += concat({", ", name});
  mesh->connect(of, std::move(addresses), [&](gloo_listener::progress const& now) {
    other_ = static_cast<std::size_t>(now.missing.front());
    if (std::chrono::steady_clock::now() >= end_ || with_->watch->is_interrupted())
      throw engine_error("no connection within the time-out");
  });
  return mesh;
}

PLAIT_DECL std::chrono::milliseconds gloo_group::left() const {
  auto const rest = std::chrono::ceil<std::chrono::milliseconds>(end_ - with_->watch->time());
  return std::max(rest, std::chrono::milliseconds{1});
}

PLAIT_DECL void gloo_group::fail(char const* function, std::exception const& problem) {
  auto const ended = with_->watch->ended();
  int const signal = ended.signal != 0 ? ended.signal : caught_signal::that_ends_waits();
  bool const late = with_->watch->time() >= end_;
  if (other_ == none && members_.size() == 2) other_ = 1 - rank_;
  auto const other = other_ == none ? std::string("another rank of the group")
                                    : member_text(static_cast<int>(other_));
  auto const words = gloo_words(problem);
  with_->fail();
  std::ranges::fill(in_, nullptr);  // afterwards Gloo writes to no buffer that the caller may free
  std::ranges::fill(out_, nullptr);
  posted_.clear();
  if (with_->other_has_failed) end_with_other(function);
  if (ended.signal != 0)
    throw wait_stopped_by_signal(
        concat({call_text(function), " has waited ", ended.waited.count(), " ms after ",
                caught_signal::name(signal), " for ", other, " (Gloo)"}),
        signal);
  if (late)
    throw communication_timeout({call_text(function), " has waited ", with_->timeout.load().count(),
                                 " ms for ", other, " (Gloo)"});
  if (with_->watch->is_interrupted())
    throw engine_error(
        concat({call_text(function), " was aborted because the ranks of the job are changing"}));
  auto const lost =
      concat({call_text(function), ": the connection to ", other,
              " is lost; the process at the other end has failed or ended (Gloo: ", words, ")"});
  // If this rank was about to end its wait because of a signal, it throws the exception for
  // signals, like the other ranks that have waited as long.
  if (signal != 0)
    throw wait_stopped_by_signal(concat({lost, ", after ", caught_signal::name(signal)}), signal);
  throw engine_error(lost, other_ == none ? -1 : world_rank(static_cast<int>(other_)));
}

PLAIT_DECL void gloo_group::end_with_other(char const* function) const {
  throw other_thread_failed(concat(
      {call_text(function), " was aborted because the other thread of the rank has failed"}));
}

}  // namespace plait::detail
