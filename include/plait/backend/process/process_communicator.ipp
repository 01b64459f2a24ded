// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/process/process_communicator.hpp"

namespace plait::ext {

PLAIT_DECL process_communicator::process_communicator(std::shared_ptr<process_group> group,
                                                      std::vector<int> members, int rank,
                                                      axis_set over, process_reduction how,
                                                      bool compare_calls, detail::flight_log log)
    : communicator_calls(over),
      group_(std::move(group)),
      members_(std::move(members)),
      shown_(members_.size()),
      rank_(rank),
      how_(how),
      compares_(compare_calls),
      log_(log) {}

PLAIT_DECL void process_communicator::share_rank_with(std::shared_ptr<detail::second_thread> second,
                                                      bool is_its) {
  second_ = std::move(second);
  is_handed_ = is_its;
}

PLAIT_DECL void process_communicator::wait_less_after_barrier(process_engine& engine,
                                                              std::chrono::milliseconds timeout) {
  waits_long_ = &engine;
  timeout_ = timeout;
}

PLAIT_DECL std::size_t process_communicator::room_bytes() const {
  if (is_handed_) second_->drain();
  return room_.bytes();
}

PLAIT_DECL void process_communicator::wait_for_all() {
  if (size() == 1) return;
  ask(call_of_barrier(), 0, [](void* of, auto const& call, std::size_t) {
    static_cast<process_communicator*>(of)->do_barrier(call);
  });
  if (is_handed_) second_->drain();
}

PLAIT_DECL void process_communicator::ask(detail::collective_call const& call,
                                          std::size_t tensor_bytes,
                                          void (*does)(void*, detail::collective_call const&,
                                                       std::size_t)) {
  if (is_handed_)
    return second_->hand_over(
        {.carry_out = does, .of = this, .call = call, .tensor_bytes = tensor_bytes});
  if (second_ == nullptr) return does(this, call, tensor_bytes);
  try {
    does(this, call, tensor_bytes);
  } catch (other_thread_failed const&) {
    second_->rethrow_earlier(true);
    throw;
  } catch (...) {
    second_->rethrow_earlier(false);
    throw;
  }
}

PLAIT_DECL void process_communicator::do_barrier(detail::collective_call const& call) {
  serving const now(*this, call);
  if (compares_) meet(call);
  else group_->barrier();
  note_barrier();
  log_.end();
}

PLAIT_DECL process_communicator::serving::serving(process_communicator& of,
                                                  detail::collective_call const& call)
    : group_(*of.group_) {
  group_.serve(&call);
  of.log_.begin(call);
}

PLAIT_DECL void process_communicator::note_barrier() {
  if (waits_long_ == nullptr) return;
  waits_long_->set_timeout(timeout_);
  waits_long_ = nullptr;
}

PLAIT_DECL void process_communicator::meet(detail::collective_call const& call) {
  log_.site(detail::flight_site::compares);
  auto const mine = detail::shown_call::of(call);
  group_->all_gather(&mine, shown_.data(), sizeof mine);
  auto const first = shown_[0].call();
  for (int other = 1; other < size(); ++other)
    if (auto const theirs = shown_[std::size_t(other)].call(); !first.agrees_with(theirs))
      throw collective_mismatch(
          detail::mismatch_text(world_rank(0), first, world_rank(other), theirs, members_));
  for (int member = 0; member < size(); ++member)
    detail::check_shape(world_rank(member), shown_[std::size_t(member)].call(), members_);
}

PLAIT_DECL void process_communicator::check_other_end(detail::collective_call const& call) const {
  if (call.other < 0 || call.other >= size() || call.other == rank_)
    throw input_error({"rank ", world_rank(rank_), " called ", detail::call_text(call, members_),
                       ": the other end must be another member of the group"});
}

}  // namespace plait::ext
