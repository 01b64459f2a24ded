// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "plait/backend/collective_call.hpp"
#include "plait/backend/communicator.hpp"
#include "plait/backend/communicator_calls.hpp"
#include "plait/backend/host/rank_order.hpp"
#include "plait/backend/process/flight_ring.hpp"
#include "plait/backend/process/process_engine.hpp"
#include "plait/backend/process/process_messages.hpp"
#include "plait/backend/process/ranked_reduction.hpp"
#include "plait/backend/process/second_thread.hpp"
#include "plait/backend/process/shown_call.hpp"
#include "plait/core/clock.hpp"
#include "plait/core/error.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/mesh/axis.hpp"

namespace plait {

/// The component that computes the sums of a reduction over processes.
enum class process_reduction : int {
  ranked,  ///< plait, in rank order: results are bit for bit equal to results of `threads`
  library  ///< the engine, in an order of its own: fewer bytes are sent; all ranks still get the
           ///< same bits
};

}  // namespace plait

namespace plait::ext {

/// The communicator of one rank for a group of processes, with any engine (MPI or Gloo). If the
/// rank has a second thread for the group's calls, a trainer's call only hands the work over to
/// that thread and returns; process_device describes how the rank waits for the result. Calls
/// outside of a trainer, and barriers, return after they have been carried out.
///
/// Cost:    one small exchange for each call, in which members compare their calls, unless
///          `compare_calls` is false. plait allocates memory only in the first call of a size.
/// Errors:  on every member, the errors of thread_communicator; if calls are not compared, calls
///          that differ cause errors of the engine instead. Also engine_error and
///          communication_timeout, see process_group.
/// Threads: used by the thread of its rank only; the communicator synchronises with the second
///          thread.
class process_communicator : public communicator_calls<process_communicator> {
 public:
  /// `members`: ranks of the plan, in group order; `rank`: this rank's index among them; `over`:
  /// the axes of the group. Groups with equal members share one process_group, so that all calls
  /// among these members are compared.
  process_communicator(std::shared_ptr<process_group> group, std::vector<int> members, int rank,
                       axis_set over, process_reduction how, bool compare_calls,
                       detail::flight_log log = {});

  /// Sets the rank's second thread. If `is_its`, that thread carries out this communicator's calls;
  /// otherwise it carries out calls of other communicators of the rank only.
  void share_rank_with(std::shared_ptr<detail::second_thread> second, bool is_its);
  /// Sets the object that carries out posted sends and receives; the rank's device uses the same
  /// object to wait for them.
  void post_by(std::shared_ptr<detail::process_messages> messages) {
    messages_ = std::move(messages);
  }
  /// Sets the time-out of `engine` to `timeout` after the first call for which all members have
  /// arrived: until then, ranks may still be starting.
  void wait_less_after_barrier(process_engine& engine, std::chrono::milliseconds timeout);

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return static_cast<int>(members_.size()); }

  /// Sums need memory for the other ranks' values; with process_reduction::library only reductions
  /// that the engine lacks need it.
  static constexpr communicator_parts parts{.sums_in_room = true};
  static constexpr bool runs_work_of_calls = true;
  /// Returns the number of bytes that sums have allocated so far.
  [[nodiscard]] std::size_t room_bytes() const;

  /// The functions that the base class communicator_calls requires.
  void wait_for_all();
  template <collective Kind, class T>
  void carry_out(detail::collective_call const& call, std::size_t tensor_bytes) {
    if constexpr (Kind == collective::send || Kind == collective::receive)
      if (call.is_posted() && messages_ != nullptr) {
        check_other_end(call);
        return ask(call, tensor_bytes, [](void* of, auto const& asked, std::size_t) {
          auto& me = *static_cast<process_communicator*>(of);
          me.messages_->post(*me.group_, me.members_, me.rank_, asked, me.compares_, me.log_);
        });
      }
    ask(call, tensor_bytes, [](void* of, auto const& asked, std::size_t bytes) {
      static_cast<process_communicator*>(of)->do_call<Kind, T>(asked, bytes);
    });
    // Code outside of a trainer may reuse the call's memory when the call returns, so the call must
    // have been carried out.
    if (is_handed_ && call.caller == 0) second_->drain();
  }

 private:
  /// Calls does(this, call, tensor_bytes), or hands this work over to the second thread.
  void ask(detail::collective_call const& call, std::size_t tensor_bytes,
           void (*does)(void*, detail::collective_call const&, std::size_t));

  void do_barrier(detail::collective_call const& call);
  template <collective Kind, class T>
  void do_call(detail::collective_call const& call, std::size_t tensor_bytes) try {
    serving const now(*this, call);
    if constexpr (Kind == collective::send || Kind == collective::receive) {
      pass<Kind>(call);
    } else {
      if (compares_ && size() > 1) meet(call);
      else detail::check_shape(members_[std::size_t(rank_)], call, members_);
      log_.site(detail::flight_site::moves);
      call.begin_work();
      if (tensor_bytes != 0) move<Kind, T>(call);
      call.end_work();
      if (compares_ || !detail::has_root(call.kind))
        // All members have arrived. This is not certain after a broadcast that was not compared,
        // which may return earlier on its root.
        note_barrier();
    }
    log_.end();
  } catch (call_left const&) {  // leak the memory to which the library may still write
    static_cast<void>(new (std::nothrow) detail::reduction_room(std::move(room_)));
    static_cast<void>(new (std::nothrow) std::vector<detail::shown_call>(std::move(shown_)));
    throw;
  }

  /// A guard that names the call under way to the process_group, for messages about a long wait,
  /// and to the flight record.
  class serving {
   public:
    serving(process_communicator& of, detail::collective_call const& call);
    serving(serving const&) = delete;
    serving& operator=(serving const&) = delete;
    ~serving() { group_.serve(nullptr); }

   private:
    process_group& group_;
  };

  void note_barrier();

  [[nodiscard]] int world_rank(int member) const { return members_[std::size_t(member)]; }

  /// Exchanges `call` with the calls of the other members; throws on all members if the calls do
  /// not agree.
  void meet(detail::collective_call const& call);

  void check_other_end(detail::collective_call const& call) const;
  /// Carries out a send or a receive. If calls are compared, sender and receiver exchange their
  /// calls first.
  template <collective Kind>
  void pass(detail::collective_call const& call) {
    check_other_end(call);
    if (compares_) {
      log_.site(detail::flight_site::compares);
      auto const mine = detail::shown_call::of(call);
      detail::shown_call theirs;
      constexpr bool sends = Kind == collective::send;
      if (sends) group_->send(&mine, sizeof mine, call.other);
      group_->receive(&theirs, sizeof theirs, call.other);
      if (!sends) group_->send(&mine, sizeof mine, call.other);
      auto const met = theirs.call();
      if (!call.fits(met))
        throw collective_mismatch(sends
                                      ? detail::mismatch_text(world_rank(rank_), call,
                                                              world_rank(call.other), met, members_)
                                      : detail::mismatch_text(world_rank(call.other), met,
                                                              world_rank(rank_), call, members_));
    }
    if (call.bytes == 0) return;
    log_.site(detail::flight_site::moves);
    if constexpr (Kind == collective::send) group_->send(call.source, call.bytes, call.other);
    else group_->receive(call.target, call.bytes, call.other);
  }

  /// Carries out this rank's part of a collective.
  template <collective Kind, class T>
  void move(detail::collective_call const& call) {
    using detail::collective_call;
    std::size_t const count = call.bytes / sizeof(T);
    [[maybe_unused]] detail::ranked_reduction<T> ranked(*group_, rank_, size(), call.operation,
                                                        room_);
    auto* const target = static_cast<T*>(call.target);
    if constexpr (Kind == collective::all_reduce) {
      if (how_ == process_reduction::library &&
          group_->all_reduce(target, count, call.element, call.operation))
        return;
      ranked.all_reduce(target, count);
    } else if constexpr (Kind == collective::reduce_scatter) {
      if (size() == 1) return detail::copy_bytes(target, call.source, call.bytes);
      ranked.reduce_scatter(static_cast<T const*>(call.source), target, count);
    } else if constexpr (Kind == collective::all_gather) {
      group_->all_gather(call.source, call.target, call.bytes);
    } else if constexpr (Kind == collective::all_to_all) {
      std::size_t const block = call.bytes / std::size_t(size());
      group_->all_to_all(call.source, block, call.target, block);
    } else {
      static_assert(Kind == collective::broadcast);
      group_->broadcast(call.target, call.bytes, call.other);
    }
  }

  std::shared_ptr<process_group> group_;
  std::vector<int> members_;  // ranks of the plan in group order
  std::vector<detail::shown_call> shown_;
  detail::reduction_room room_;
  process_engine* waits_long_ = nullptr;
  std::chrono::milliseconds timeout_{};
  int rank_;
  process_reduction how_;
  bool compares_;
  detail::flight_log log_;
  std::shared_ptr<detail::second_thread> second_{};
  std::shared_ptr<detail::process_messages> messages_{};
  bool is_handed_ = false;
};

static_assert(can_all<process_communicator, float>);

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/backend/process/process_communicator.ipp"
#endif
