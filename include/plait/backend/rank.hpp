// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "plait/mesh/mesh.hpp"

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
        groups_(std::move(groups)) {}

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
  [[nodiscard]] Comm& world() { return group(axis::data | axis::tensor | axis_set(axis::stage)); }

 private:
  mesh grid_;
  int world_rank_;
  coordinates place_;
  Device device_;
  std::array<Comm, group_count> groups_;
};

/// The axis sets of the groups in the one order in which every rank creates them.
inline constexpr std::array<unsigned, 8> group_order{0, 1, 2, 3, 4, 5, 6, 7};

}  // namespace plait
