// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/process/flight_ring.hpp"
#include "plait/core/clock.hpp"

namespace plait::detail {

PLAIT_DECL std::size_t flight_ring::bytes_for(std::vector<group_description> const& groups,
                                              std::size_t threads) {
  std::size_t bytes = sizeof(flight_header) + threads * entries * sizeof(flight_entry);
  for (auto const& group : groups)
    bytes += sizeof(flight_group) + group.members.size() * sizeof(std::int32_t);
  return bytes;
}

PLAIT_DECL flight_entry& flight_ring::begin(std::size_t group, collective_call const& call,
                                            std::size_t thread) {
  auto& counts = counts_[group];
  bool const is_message = call.kind == collective::send || call.kind == collective::receive;
  auto const member = static_cast<std::size_t>(call.other);
  bool const has_peer = (is_message || has_root(call.kind)) && member < groups_[group].size;
  auto const number = ++begun_[thread];
  auto& entry = entries_[thread * entries + number % entries];
  entry.stamp.store(0, std::memory_order_relaxed);
  entry.check.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  entry.begin_ns = now();
  entry.end_ns.store(0, std::memory_order_relaxed);
  entry.bytes = call.bytes;
  entry.caller = static_cast<std::uint32_t>(call.caller);
  entry.peer = has_peer ? counts.members[member] : -1;
  entry.group = static_cast<std::uint16_t>(group);
  entry.kind = static_cast<std::uint8_t>(call.kind);
  entry.where.store(flight_site::begun, std::memory_order_relaxed);
  entry.element_kind = call.element.kind;
  entry.element_bytes = call.element.bytes;
  entry.operation = static_cast<std::uint8_t>(call.operation);
  entry.tag = call.tag;
  if (is_message && has_peer)
    entry.place = ++(call.kind == collective::send ? counts.sent : counts.received)[member];
  else entry.place = ++counts.collectives;
  entry.check.store(static_cast<std::uint32_t>(number), std::memory_order_release);
  entry.stamp.store(number, std::memory_order_release);
  groups_[group].collectives.store(counts.collectives, std::memory_order_release);
  header_->begun[thread].store(number, std::memory_order_release);
  return entry;
}

PLAIT_DECL void flight_ring::beat() noexcept {
  auto& head = *header_;
  auto const time = now(), last = head.beat_ns.load(std::memory_order_relaxed);
  if (last != 0 && time - last > long_gap_ns) {
    head.gap_from_ns.store(last, std::memory_order_relaxed);
    head.gap_to_ns.store(time, std::memory_order_relaxed);
  }
  auto const wall = std::chrono::system_clock::now().time_since_epoch();
  head.wall_offset_ns.store(
      std::chrono::duration_cast<std::chrono::nanoseconds>(wall).count() - time,
      std::memory_order_relaxed);
  head.beat_ns.store(time, std::memory_order_release);
}

PLAIT_DECL void flight_ring::finish(flight_state how, std::string_view text) noexcept {
  if (finished_.exchange(true)) return;
  beat();  // a suspended process may exit after it is resumed, before its heartbeat thread runs
  put(header_->text, text);
  header_->state_ns.store(now(), std::memory_order_relaxed);
  header_->state.store(how, std::memory_order_release);
}

PLAIT_DECL std::atomic<flight_ring*>& flight_ring::of_process() {
  static std::atomic<flight_ring*> one{nullptr};
  return one;
}

PLAIT_DECL std::int64_t flight_ring::now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

PLAIT_DECL flight_log::posted_entry flight_log::post(collective_call const& call) {
  if (ring_ == nullptr) return {};
  auto& entry = ring_->begin(group_, call, thread_);
  flight_ring::site(entry, flight_site::posted);
  return {&entry, entry.stamp.load(std::memory_order_relaxed)};
}

}  // namespace plait::detail
