// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/simulated/simulated_world.hpp"

#include <algorithm>
#include <variant>

#include "plait/backend/collective_call.hpp"
#include "plait/backend/simulated/race_error.hpp"
#include "plait/backend/simulated/simulated_operation.hpp"
#include "plait/backend/simulated/simulated_rendezvous.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/mesh/ranks_text.hpp"

namespace plait::detail {

PLAIT_DECL simulated_world::simulated_world(int ranks, simulated_order order, std::uint64_t seed,
                                            std::optional<wait_site> const& without)
    : order_(static_cast<std::size_t>(ranks), order, seed),
      threads_(static_cast<std::size_t>(ranks)),
      running_(ranks) {
  for (int rank = 0; rank < ranks; ++rank)
    ranks_.push_back(std::make_unique<simulated_rank>(rank, ranks, without));
}

PLAIT_DECL int simulated_world::add_group(std::vector<int> members, stream on) {
  groups_.push_back({std::move(members), on});
  return static_cast<int>(groups_.size()) - 1;
}

PLAIT_DECL void simulated_world::rethrow_failure() {
  if (failure_) rethrow_with_rank(failure_, failed_rank_);
  if (throw_verdict_ != nullptr && !is_delivered_) throw_verdict();
}

PLAIT_DECL std::set<wait_site> simulated_world::sites() const {
  std::set<wait_site> out;
  for (auto const& rank : ranks_) out.insert(rank->sites().begin(), rank->sites().end());
  return out;
}

PLAIT_DECL std::uint64_t simulated_world::executed() const {
  std::uint64_t out = 0;
  for (auto const& rank : ranks_) out += rank->executed();
  return out;
}

PLAIT_DECL void simulated_world::block(int rank, int barrier) {
  std::unique_lock lock{mutex_};
  if (throw_verdict_ != nullptr) throw_verdict();
  if (barrier == nowhere && ranks_[std::size_t(rank)]->is_idle()) return;
  auto& me = threads_[std::size_t(rank)];
  me.now = doing::waiting;
  me.barrier = barrier;
  --running_;
  if (running_ == 0) execute();
  me.bell.wait(lock, [&] { return me.now == doing::running || throw_verdict_ != nullptr; });
  if (throw_verdict_ == nullptr) return;
  if (me.now == doing::waiting) ++running_;
  me.now = doing::running;
  throw_verdict();
}

PLAIT_DECL void simulated_world::keep_first_failure(int rank) {
  if (failure_) return;
  failure_ = std::current_exception();
  failed_rank_ = rank;
}

PLAIT_DECL void simulated_world::throw_verdict() {
  is_delivered_ = true;
  throw_verdict_(verdict_);
  std::terminate();  // not reached
}

PLAIT_DECL void simulated_world::finish(int rank) {
  threads_[std::size_t(rank)].now = doing::finished;
  ranks_[std::size_t(rank)]->leave();
  if (--running_ == 0 && throw_verdict_ == nullptr) execute();
}

PLAIT_DECL void simulated_world::execute() {
  try {
    for (auto& rank : ranks_) rank->settle();
    for (;;) {
      if (order_.wakes_early() && suspicion_.empty() && wake()) return;
      auto const chosen = choose();
      if (chosen == nothing) break;
      execute(rank_of(chosen), stream_of(chosen));
      order_.advance();
    }
    if (!suspicion_.empty()) break_world<race_error>(suspicion_);
    else if (!wake() && !is_over()) break_world<collective_mismatch>(deadlock_text());
  } catch (race_error const& e) {
    break_world<race_error>(e.what());
  } catch (size_mismatch const& e) {
    break_world<size_mismatch>(e.what());
  } catch (collective_mismatch const& e) {
    break_world<collective_mismatch>(e.what());
  } catch (input_error const& e) {
    break_world<input_error>(e.what());
  } catch (std::exception const& e) {
    break_world<error>(e.what());
  }
}

PLAIT_DECL std::size_t simulated_world::choose() const {
  if (order_.is_adversarial()) {
    for (auto const number : order_.by_urgency())
      if (can_begin(rank_of(number), stream_of(number))) return number;
    return nothing;
  }
  auto chosen = nothing;
  std::uint32_t earliest = 0;
  for (auto const number : order_.by_urgency()) {
    if (chosen != nothing && rank_of(chosen) != rank_of(number)) break;
    if (!can_begin(rank_of(number), stream_of(number))) continue;
    auto const sequence = note_of(rank_of(number), stream_of(number)).sequence;
    if (chosen == nothing || sequence < earliest) {
      chosen = number;
      earliest = sequence;
    }
  }
  return chosen;
}

PLAIT_DECL operation_note const& simulated_world::note_of(int rank, stream on) const {
  auto const* const head = ranks_[std::size_t(rank)]->head(on);
  if (auto const* const waiting = std::get_if<stream_call_item>(head)) return waiting->note;
  return std::get<stream_operation_item>(*head).note;
}

PLAIT_DECL bool simulated_world::can_begin(int rank, stream on) const {
  auto const* const head = ranks_[std::size_t(rank)]->head(on);
  if (head == nullptr) return false;
  if (std::holds_alternative<stream_operation_item>(*head)) return true;
  auto const* const waiting = std::get_if<stream_call_item>(head);
  if (waiting == nullptr) return false;
  auto const& with = group_at(waiting->group);
  if (is_message(waiting->call.kind)) return answers(partner_of(*waiting), rank, *waiting);
  return std::ranges::all_of(with.members, [&](int member) {
    auto const* const other = call_at(member, with.on);
    return other != nullptr && other->group == waiting->group && !is_message(other->call.kind);
  });
}

PLAIT_DECL stream_call_item const* simulated_world::call_at(int rank, stream on) const {
  auto const* const head = ranks_[std::size_t(rank)]->head(on);
  return head == nullptr ? nullptr : std::get_if<stream_call_item>(head);
}

PLAIT_DECL stream simulated_world::partner_stream(int rank, stream_call_item const& message) const {
  auto const& with = group_at(message.group);
  if (!message.call.is_posted()) return with.on;
  auto const mine = std::ranges::find(with.members, rank) - with.members.begin();
  return ext::channel_of(message.call.other, static_cast<int>(mine),
                         static_cast<int>(with.members.size()),
                         message.call.kind == collective::receive);
}

PLAIT_DECL bool simulated_world::answers(int other, int rank,
                                         stream_call_item const& message) const {
  auto const* const answer = call_at(other, partner_stream(rank, message));
  return answer != nullptr && answer->group == message.group && is_message(answer->call.kind) &&
         answer->call.kind != message.call.kind && partner_of(*answer) == rank;
}

PLAIT_DECL void simulated_world::execute(int number, stream on) {
  auto& rank = *ranks_[std::size_t(number)];
  auto const* const head = rank.head(on);
  if (auto const* const operation = std::get_if<stream_operation_item>(head)) {
    simulated_operation now(rank, rank.begin(on, operation->note), suspicion_);
    operation->work(now);
    rank.end(on);
    rank.settle();
    return;
  }
  auto const& waiting = std::get<stream_call_item>(*head);
  auto const& with = group_at(waiting.group);
  if (!is_message(waiting.call.kind))
    return meet(with.members, std::vector<stream>(with.members.size(), with.on), with);
  int const partner = partner_of(waiting);
  auto const there = partner_stream(number, waiting);
  if (waiting.call.kind == collective::send) meet({number, partner}, {on, there}, with);
  else meet({partner, number}, {there, on}, with);
}

PLAIT_DECL void simulated_world::meet(std::vector<int> const& members,
                                      std::vector<stream> const& on, group const& with) {
  lean_vector<collective_call> calls;
  auto known = ranks_[std::size_t(members.front())]->clock(on.front());
  for (std::size_t i = 0; i < members.size(); ++i) {
    calls.push_back(call_at(members[i], on[i])->call);
    known.join(ranks_[std::size_t(members[i])]->clock(on[i]));
  }
  auto const carry_out = call_at(members.front(), on.front())->carry_out;
  check_calls(calls, members, with.members);
  std::vector<simulated_operation> each;
  for (std::size_t i = 0; i < members.size(); ++i) {
    auto& rank = *ranks_[std::size_t(members[i])];
    each.emplace_back(rank, rank.begin(on[i], call_at(members[i], on[i])->note), suspicion_);
  }
  // Declares the reads of all members first, since each member may write memory that another member
  // reads.
  bool is_defined = true;
  for (std::size_t i = 0; i < each.size(); ++i) {
    name_reads(each[i], calls[i], i);
    is_defined = is_defined && each[i].is_defined();
  }
  for (std::size_t i = 0; i < each.size(); ++i) {
    if (!is_defined) each[i].make_undefined();
    name_writes(each[i], calls[i], i);
  }
  if (is_defined) carry_out(calls);
  for (std::size_t i = 0; i < members.size(); ++i) {
    auto& rank = *ranks_[std::size_t(members[i])];
    rank.join(on[i], known);  // the call ends after the calls of all members have begun
    rank.end(on[i]);
    rank.settle();
  }
}

PLAIT_DECL bool simulated_world::wake() {
  bool woken = false;
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    auto& thread = threads_[i];
    if (thread.now != doing::waiting || !ranks_[i]->is_idle()) continue;
    if (thread.barrier == nowhere) {
      ranks_[i]->synchronize();
      resume(thread);
      woken = true;
    } else {
      woken = end_barrier(thread.barrier) || woken;
    }
  }
  return woken;
}

PLAIT_DECL bool simulated_world::end_barrier(int id) {
  auto const& members = group_at(id).members;
  if (!std::ranges::all_of(members, [&](int member) {
        auto const& thread = threads_[std::size_t(member)];
        return thread.now == doing::waiting && thread.barrier == id &&
               ranks_[std::size_t(member)]->is_idle();
      }))
    return false;
  auto known = ranks_[std::size_t(members.front())]->clock(stream::compute);
  for (int const member : members)
    for (std::size_t s = 0; s < operation_order::streams; ++s)
      known.join(ranks_[std::size_t(member)]->clock(stream_of(s)));
  for (int const member : members) {
    ranks_[std::size_t(member)]->synchronize_with(known);
    resume(threads_[std::size_t(member)]);
  }
  return true;
}

PLAIT_DECL void simulated_world::resume(rank_thread& thread) {
  thread.now = doing::running;
  thread.barrier = nowhere;
  ++running_;
  thread.bell.notify_one();
}

PLAIT_DECL bool simulated_world::is_over() const {
  return std::ranges::all_of(threads_, [](auto const& t) { return t.now == doing::finished; }) &&
         std::ranges::all_of(ranks_, [](auto const& rank) { return rank->is_idle(); });
}

PLAIT_DECL std::string simulated_world::deadlock_text() const {
  std::string text = "deadlock:";
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    text += (i == 0 ? " rank " : "; rank ") + std::to_string(i);
    if (threads_[i].now == doing::finished) text += " has finished";
    else if (threads_[i].barrier != nowhere)
      text += concat(
          {" waits in barrier on group ", ranks_in_braces(group_at(threads_[i].barrier).members)});
    else text += " waits in synchronize";
    for (std::size_t s = 0; s < operation_order::streams; ++s)
      text += head_text(static_cast<int>(i), stream_of(s));
  }
  return text;
}

PLAIT_DECL std::string simulated_world::head_text(int rank, stream on) const {
  auto const* const head = ranks_[std::size_t(rank)]->head(on);
  if (head == nullptr) return "";
  auto out = concat({", stream ", ext::to_string(on)});
  if (auto const* const wait = std::get_if<stream_wait_item>(head))
    return concat({out, " waits for stream ", ext::to_string(wait->awaited)});
  auto const* const waiting = std::get_if<stream_call_item>(head);
  if (waiting == nullptr) return "";
  out += concat({" waits in ", call_text(waiting->call, group_at(waiting->group).members)});
  if (!waiting->note.mark.empty()) out.append(" (").append(waiting->note.mark).append(")");
  return out;
}

}  // namespace plait::detail
