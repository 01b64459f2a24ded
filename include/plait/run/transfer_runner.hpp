// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

#include "plait/backend/collective_call.hpp"
#include "plait/core/lean_vector.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/mesh/stream.hpp"
#include "plait/plan/plan_facts.hpp"
#include "plait/plan/schedule/program_operation.hpp"
#include "plait/plan/schedule/transfers.hpp"

namespace plait::execution {

/// Returns the plan's list of transfers for a part of a job on the stage of a rank. The arguments
/// are the arguments of `transfers_of`, without the number of data ranks. The function takes this
/// number from the rank, because it may be known only at the launch.
template <class Plan, class Rank>
[[gnu::cold]] lean_vector<transfer> transfers_on(Rank const& rank, workload load, job_part part,
                                                 bool has_still = false) {
  load.data_ranks = Plan::grid.ranks_at_launch(rank.grid());
  return transfers_of<Plan>(rank.stage(), load, part, has_still);
}

/// Returns the same list, for a plan whose facts are passed as a function argument.
template <class Rank>
[[gnu::cold]] lean_vector<transfer> transfers_on(plan_facts const& plan, Rank const& rank,
                                                 workload load, job_part part,
                                                 bool has_still = false) {
  load.data_ranks = plan.numbers.grid.ranks_at_launch(rank.grid());
  return plan.transfers(rank.stage(), load, part, has_still);
}

/// Carries out the rows of a plan's list of transfers on one rank. A row (an entry of the list)
/// contains the collective, the amount of data and the placements, but neither communicators nor
/// memory. So the constructor prepares each row for this rank: it looks up the group, the offset of
/// the group's range in an arena, the root or the other end of a message, and the stream. A call
/// then needs only the number of the row and the address of the arena. For example, a row that sums
/// 4 MiB of gradients over 8 data ranks becomes one all_reduce on the rank's data group. A row over
/// one rank gets no group, because a program never carries it out.
///
/// Within layers, the function `move_value` makes the transfers, with placements as template
/// arguments. Only transfer_runner and move_value call communicators, so a trainer sends nothing
/// that is not in the plan's list of transfers. User programs sum their own numbers with
/// `sum_over_world` below.
///
/// Cost:    the rows are prepared once; a call allocates nothing.
/// Errors:  the errors of the communicator.
/// Threads: used by the one thread that runs the rank.
template <class Rank>
class transfer_runner {
 public:
  /// A row of the list, prepared for this rank.
  struct active_row {
    transfer what{};
    row_operation moves = local_move::none;
    typename Rank::communicator_type* group = nullptr;  ///< null if the group has one rank
    std::size_t begin = 0;  ///< offset of the group's range in the arena
    int other = 0;          ///< root of a broadcast, or rank at the other end of a message
    bool is_sent_here = true;
    stream on = stream::compute;
  };

  /// `list`: the result of `transfers_on`.
  [[gnu::cold]] transfer_runner(Rank& rank, lean_vector<transfer> const& list) {
    for (auto const& what : list) rows_.push_back(prepared(rank, what));
  }

  /// Returns the row with this number in the list.
  [[nodiscard]] active_row const& row(int number) const { return rows_[std::size_t(number)]; }

  /// Carries out the row of an operation in place. `data` is the beginning of the arena to which
  /// the row's offset refers. Depending on the row, the call is an all_reduce, a reduce_scatter to
  /// this rank's block, an all_gather of blocks, a broadcast, or the send or receive of a message.
  /// If a message has a channel, it is posted, and the call does not wait for it. If a row
  /// describes several buckets, only the operation's bucket is moved.
  template <class T>
  void run(program_operation const& of, T* data, int tag = 0) const;
  /// Carries out row `number` of the list, which is a sum of numbers, in place at `data`.
  template <class T>
  void sum(int number, T* data) const;
  /// Returns the address of the first element of the range that an operation's row moves.
  template <class T>
  [[nodiscard]] T* place_of(program_operation const& of, T* data) const {
    auto const& now = row(of.row);
    auto const distance = of.bucket < 0 ? 0 : std::size_t(of.bucket - now.what.bucket);
    return data + now.begin + distance * now.what.stride;
  }
  /// Makes one call of a row that moves pieces: sends a block from each rank to each other rank, or
  /// gathers blocks. `work`: the work of the row's stream before and after the transfer of the
  /// call.
  template <class T>
  void run_piece(int number, std::type_identity_t<std::span<T const>> sent, std::span<T> received,
                 call_work const& work) const;

 private:
  [[gnu::cold]] static active_row prepared(Rank& rank, transfer const& what);

  lean_vector<active_row> rows_;
};

template <class Rank>
template <class T>
void transfer_runner<Rank>::run(program_operation const& of, T* data, int tag) const {
  auto const& now = row(of.row);
  auto& group = *now.group;
  std::span<T> const all(place_of(of, data), now.what.count);
  auto const mine = [&] {
    std::size_t const block = all.size() / static_cast<std::size_t>(group.size());
    return all.subspan(static_cast<std::size_t>(group.rank()) * block, block);
  };
  switch (now.moves.sent) {
    case collective::reduce_scatter: return group.reduce_scatter(all, mine());
    case collective::all_gather: return group.all_gather(mine(), all);
    case collective::broadcast: return group.broadcast(all, now.other);
    case collective::send:
      if (is_channel(now.on))
        return now.is_sent_here ? group.post_send(all, now.other, tag, now.on)
                                : group.post_receive(all, now.other, tag, now.on);
      return now.is_sent_here ? group.send(all, now.other, tag)
                              : group.receive(all, now.other, tag);
    case collective::all_reduce: return group.all_reduce(all);
    case collective::none:
    case collective::all_to_all:  // moves pieces, see run_piece
    case collective::receive:     // a row of kind send covers the receiving rank, too
    case collective::barrier:
    case collective::reduce:
    case collective::scatter:
    case collective::gather: planning::refuse_row(now.what.place, "a part that moves one range");
  }
}

template <class Rank>
template <class T>
void transfer_runner<Rank>::run_piece(int number, std::type_identity_t<std::span<T const>> sent,
                                      std::span<T> received, call_work const& work) const {
  auto const& now = row(number);
  auto& group = *now.group;
  bool const gathers = now.moves == collective::all_gather;
  if constexpr (requires { group.all_to_all(sent, received, &work); }) {
    return gathers ? group.all_gather(sent, received, &work)
                   : group.all_to_all(sent, received, &work);
  } else {
    work.run(work, false);
    if (gathers) group.all_gather(sent, received);
    else group.all_to_all(sent, received);
    work.run(work, true);
  }
}

template <class Rank>
template <class T>
void transfer_runner<Rank>::sum(int number, T* data) const {
  auto const& now = row(number);
  now.group->all_reduce(std::span<T>(data, now.what.count));
}

template <class Rank>
auto transfer_runner<Rank>::prepared(Rank& rank, transfer const& what) -> active_row {
  auto const row = what.row();
  active_row out{what, row.moves};
  if (rank.grid().size(row.over) == 1) return out;
  out.group = &rank.group(row.over);
  // Along axes over which the row does not communicate, the arena may also be cut into blocks. All
  // ranks of the group have the same block along these axes.
  auto const cut = what.from.with(row.over, invariant)
                       .with(what.held, invariant)
                       .axes_with(shard<dim::elements>);
  auto const block = static_cast<std::size_t>(rank.grid().block_of(rank.coordinates(), cut));
  out.begin = what.offset + block * what.elements();
  int const stage = rank.stage();
  out.is_sent_here = what.is_sent_by(stage);
  auto const& end = out.is_sent_here && row.moves == collective::send ? what.to : what.from;
  out.other = end.at(scatter_order(row.over).back()).index;
  out.on = stream_of_row(what, stage, out.group->size());
  return out;
}

/// Sums numbers in host memory over all ranks of the job. Programs use this function for their
/// reports; a step does not use it.
template <class Rank, class T>
[[gnu::cold]] void sum_over_world(Rank& rank, std::span<T> values) {
  auto& device = rank.device();
  auto const room = device.allocate(values.size_bytes());
  auto* const data = reinterpret_cast<T*>(room.data());
  device.upload(values.data(), data, values.size_bytes());
  device.synchronize();
  rank.world().all_reduce(std::span<T>(data, values.size()));
  device.synchronize();
  device.download(data, values.data(), values.size_bytes());
  device.synchronize();
}

}  // namespace plait::execution

namespace plait::ext {

using execution::sum_over_world;

}  // namespace plait::ext
