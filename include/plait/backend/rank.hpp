// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "plait/mesh/mesh.hpp"
#include "plait/mesh/stream.hpp"
#include "plait/plan/synchronization.hpp"

namespace plait {

/// One rank of a running job: its place in the mesh, its device, and its groups.
///
/// Threads: used by the one thread that runs the rank.
template <class Device, class Comm>
class rank_handle {
 public:
  using device_type = Device;
  using communicator_type = Comm;
  /// Groups over every set of axes; the number of a set is its bits, 0 is this rank alone.
  static constexpr std::size_t group_count = 8;

  rank_handle(mesh const& grid, int world_rank, Device device, std::array<Comm, group_count> groups)
      : grid_(grid),
        world_rank_(world_rank),
        place_(grid.coordinates_of(world_rank)),
        device_(std::move(device)),
        groups_(std::move(groups)),
        before_(device_.make_event()),
        after_(device_.make_event()) {}

  [[nodiscard]] mesh const& grid() const { return grid_; }
  [[nodiscard]] int world_rank() const { return world_rank_; }
  [[nodiscard]] int world_size() const { return grid_.world_size(); }
  /// Index along each axis.
  [[nodiscard]] coordinates const& place() const { return place_; }
  /// True on one rank of the world: the one that prints and writes.
  [[nodiscard]] bool is_root() const { return world_rank_ == 0; }

  [[nodiscard]] Device& device() { return device_; }
  /// The communicator of the ranks that differ from this one only along the axes `over`.
  [[nodiscard]] Comm& group(axis_set over) { return groups_[over.bits]; }
  [[nodiscard]] Comm& world() { return group(all); }

  /// 1, 2, 3 and so on: the same on every rank, if all ranks ask in the same order.
  [[nodiscard]] std::uint64_t next_number() { return ++last_number_; }

  /// Runs communicate(), which communicates on stream `over`: after what stream compute has been
  /// given so far, and before what it is given from now on. `site` names the first of the two
  /// waits, the second has the next number.
  template <class Communicate>
  void cross(stream over, wait_site site, Communicate communicate) {
    device_.record(before_, stream::compute);
    device_.wait(over, before_, site);
    communicate();
    device_.record(after_, over);
    device_.wait(stream::compute, after_, {site.where, site.waiting, site.awaited + 1});
  }

 private:
  static constexpr axis_set all = axis::data | axis::tensor | axis_set(axis::stage);

  mesh grid_;
  int world_rank_;
  coordinates place_;
  Device device_;
  std::array<Comm, group_count> groups_;
  typename Device::event before_, after_;
  std::uint64_t last_number_ = 0;
};

/// The axis sets of the groups in the one order in which every rank creates them.
inline constexpr std::array<unsigned, 8> group_order{0, 1, 2, 3, 4, 5, 6, 7};

/// Declares the groups of all ranks of a mesh over all sets of axes, each once and in
/// `group_order`, by add_group(world ranks, axes) -> id. Returns the ids of each rank by the bits
/// of the set.
template <class AddGroup>
[[gnu::cold]] std::vector<std::array<int, group_order.size()>> declare_groups(mesh const& grid,
                                                                              AddGroup add_group) {
  std::vector<std::array<int, group_order.size()>> ids(std::size_t(grid.world_size()));
  for (unsigned const bits : group_order) {
    axis_set over;
    over.bits = bits;
    for (int rank = 0; rank < grid.world_size(); ++rank) {
      auto members = grid.group_of(rank, over);
      auto const first = static_cast<std::size_t>(members.front());
      ids[std::size_t(rank)][bits] =
          members.front() == rank ? add_group(std::move(members), over) : ids[first][bits];
    }
  }
  return ids;
}

}  // namespace plait
