// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "plait/backend/generation.hpp"
#include "plait/core/error.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/mesh/groups.hpp"
#include "plait/mesh/hosts.hpp"
#include "plait/mesh/mesh.hpp"
#include "plait/mesh/stream.hpp"
#include "plait/plan/schedule/synchronization.hpp"

namespace plait::ext {

/// One rank of a running job: its coordinates in the mesh, its device, and its communicators.
///
/// Threads: used by the one thread that runs the rank.
template <class Device, class Comm>
class rank_handle {
 public:
  using device_type = Device;
  using communicator_type = Comm;

  /// `members`: this rank's communicators, one for each set of axes in groups.sets(), in this
  /// order.
  [[gnu::cold]] rank_handle(mesh_groups groups, int world_rank, Device device,
                            std::vector<Comm> members, host_map hosts = {})
      : groups_(std::move(groups)),
        world_rank_(world_rank),
        coordinates_(grid().coordinates_of(world_rank)),
        model_axis_(grid().model_axis()),
        device_(std::move(device)),
        members_(std::move(members)),
        hosts_(std::move(hosts)),
        before_(device_.make_event()),
        after_(device_.make_event()) {}

  [[nodiscard]] mesh const& grid() const { return groups_.grid(); }
  [[nodiscard]] int world_rank() const { return world_rank_; }
  [[nodiscard]] int world_size() const { return grid().world_size(); }
  /// The host on which each rank runs, if the backend can use several hosts.
  [[nodiscard]] host_map const& hosts() const { return hosts_; }
  /// The index of the rank along each axis.
  [[nodiscard]] ext::coordinates const& coordinates() const { return coordinates_; }
  /// The pipeline stage of the rank; 0 without a pipeline.
  [[nodiscard]] int stage() const { return coordinates_.along(axis::stage); }
  /// The communicator of the ranks that share the work within each layer (tensor parallelism).
  [[nodiscard]] Comm& tensor_group() { return group(model_axis_); }
  [[nodiscard]] int tensor_rank() const { return coordinates_.along(model_axis_); }
  /// True on the one rank of the job that prints and writes files.
  [[nodiscard]] bool is_root() const { return world_rank_ == 0; }

  [[nodiscard]] Device& device() { return device_; }
  /// The sets of axes over which the launch has created groups.
  [[nodiscard]] mesh_groups const& groups() const { return groups_; }
  /// The communicator of the ranks that differ from this one only along the axes `over`.
  ///
  /// Errors: input_error if the launch has created no group over them.
  [[nodiscard]] Comm& group(axis_set over) {
    int const index = groups_.index_of(over);
    if (index < 0) refuse(over);
    return members_[static_cast<std::size_t>(index)];
  }
  [[nodiscard]] Comm& world() { return members_[static_cast<std::size_t>(groups_.world())]; }

  /// The current generation of an elastic job; null if the job is not elastic.
  [[nodiscard]] plait::ext::generation* generation() const { return generation_; }
  void belong_to(plait::ext::generation* one) { generation_ = one; }

  /// True if sums over ranks need memory in addition to their operands, see ranked_sum.
  [[nodiscard]] static constexpr bool sums_in_room() { return Comm::parts.sums_in_room; }
  /// Returns the number of bytes that sums over ranks have allocated so far.
  [[nodiscard]] std::size_t room_of_sums_bytes() {
    std::size_t bytes = 0;
    if constexpr (sums_in_room())
      for (auto const& member : members_) bytes += member.room_bytes();
    return bytes;
  }

  /// Returns the number of the next sequence of batches: 1, 2, 3 and so on. The numbers are equal
  /// on every rank, if all ranks create their sequences in the same order.
  [[nodiscard]] std::uint64_t next_batches() { return ++last_number_; }
  /// Returns the number of the next trainer: 1, 2, 3 and so on.
  [[nodiscard]] std::uint64_t next_trainer() { return ++last_trainer_; }

  /// Attributes all calls of this rank to trainer `number` while the caller keeps the returned
  /// object; its destructor restores the previous attribution, also after an exception.
  ///
  /// Cost:    two stores for each communicator of the rank.
  /// Errors:  a collective that ranks call for different trainers throws collective_mismatch,
  ///          except with NCCL, which does not compare calls.
  [[nodiscard]] auto calls_for(std::uint64_t number) { return caller_scope(*this, number); }

  /// Runs communicate(), which puts communication into stream `over`. The communication begins
  /// after all operations that are in stream compute so far, and later operations of stream compute
  /// begin after the communication. `site` identifies the first of these two waits; the site of the
  /// second wait has the next number.
  template <class Communicate>
  void wait_across(stream over, wait_site site, Communicate communicate) {
    device_.record(before_, stream::compute);
    device_.wait(over, before_, site);
    communicate();
    device_.record(after_, over);
    device_.wait(stream::compute, after_, {site.where, site.waiting, site.awaited + 1});
  }

 private:
  class caller_scope {
   public:
    caller_scope(rank_handle& rank, std::uint64_t number) : rank_(rank), before_(rank.caller_) {
      rank_.call_for(number);
    }
    caller_scope(caller_scope const&) = delete;
    caller_scope& operator=(caller_scope const&) = delete;
    ~caller_scope() { rank_.call_for(before_); }

   private:
    rank_handle& rank_;
    std::uint64_t before_;
  };

  void call_for(std::uint64_t number) noexcept {
    caller_ = number;
    for (auto& member : members_) member.call_for(number);
  }

  [[noreturn]] [[gnu::cold]] void refuse(axis_set over) const {
    throw input_error({"rank ", world_rank_, ": there is no group over '", to_string(over),
                       "'; a launch creates only the groups in which its jobs communicate: "
                       "name each job that the program runs, as in launch<first, second>"});
  }

  mesh_groups groups_;
  int world_rank_;
  ext::coordinates coordinates_;
  axis model_axis_;
  Device device_;
  std::vector<Comm> members_;
  host_map hosts_;
  typename Device::event before_, after_;
  std::uint64_t last_number_ = 0, last_trainer_ = 0;
  std::uint64_t caller_ = 0;  // number of the trainer that calls; 0: none
  plait::ext::generation* generation_ = nullptr;
};

/// Calls add_group(world ranks, axes) -> id once for each group of the mesh, in the order of
/// groups.sets(). Returns for each rank the ids of its groups, one for each set of axes.
template <class AddGroup>
[[gnu::cold]] std::vector<std::vector<int>> declare_groups(mesh_groups const& groups,
                                                           AddGroup add_group) {
  auto const& grid = groups.grid();
  std::vector<std::vector<int>> ids(std::size_t(grid.world_size()));
  for (axis_set const over : groups.sets())
    for (int rank = 0; rank < grid.world_size(); ++rank) {
      auto members = grid.group_of(rank, over);
      auto const first = static_cast<std::size_t>(members.front());
      ids[std::size_t(rank)].push_back(members.front() == rank ? add_group(std::move(members), over)
                                                               : ids[first].back());
    }
  return ids;
}

}  // namespace plait::ext
