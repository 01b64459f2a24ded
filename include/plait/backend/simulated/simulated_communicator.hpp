// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <type_traits>

#include "plait/backend/collective_call.hpp"
#include "plait/backend/communicator.hpp"
#include "plait/backend/communicator_calls.hpp"
#include "plait/backend/simulated/simulated_rank.hpp"
#include "plait/backend/simulated/simulated_rendezvous.hpp"
#include "plait/backend/simulated/simulated_world.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"

namespace plait::ext {

/// The communicator of one rank for a group of a simulated job. A call is put at the end of the
/// group's stream, a posted message at the end of its channel's stream. The call is carried out
/// when the calls of all members are at the heads of their streams. Shapes and results equal the
/// shapes and results of `thread_communicator`, to the bit.
///
/// Errors:  as `thread_communicator`, thrown when a rank synchronizes.
/// Threads: used by the thread of its rank only.
class simulated_communicator : public communicator_calls<simulated_communicator> {
 public:
  simulated_communicator(detail::simulated_world& world, int group, int world_rank);

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }

  /// The functions that the base class communicator_calls requires. When wait_for_all() returns,
  /// all streams of the members are empty.
  void wait_for_all() { world_->barrier(slot_->number(), group_); }
  template <collective Kind, class T>
  void carry_out(detail::collective_call const& call, std::size_t) {
    constexpr bool combines = Kind == collective::all_reduce || Kind == collective::reduce_scatter;
    if constexpr (Kind == collective::send || Kind == collective::receive) check_other_end(call);
    auto const on = call.is_posted() ? call.channel : world_->group_at(group_).on;
    slot_->meet(on, group_, call,
                detail::do_all_parts<Kind, std::conditional_t<combines, T, std::byte>>);
  }

 private:
  void check_other_end(detail::collective_call const& call) const;

  detail::simulated_world* world_;
  detail::simulated_rank* slot_;
  int group_;
  int rank_ = 0;
  int size_ = 1;
};

static_assert(can_all<simulated_communicator, float>);

}  // namespace plait::ext

#if PLAIT_HEADER_ONLY
#include "plait/backend/simulated/simulated_communicator.ipp"
#endif
