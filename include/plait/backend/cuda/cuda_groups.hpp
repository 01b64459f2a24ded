// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "plait/backend/cuda/cuda_communicator.hpp"
#include "plait/backend/cuda/device/cuda_device.hpp"
#include "plait/backend/cuda/device/cuda_error.hpp"
#include "plait/backend/cuda/device/cuda_headers.hpp"
#include "plait/backend/cuda/device/requirements.hpp"
#include "plait/backend/cuda/loopback/loopback_communicator.hpp"
#include "plait/backend/cuda/nccl/nccl_communicator.hpp"
#include "plait/backend/cuda/nccl/nccl_link.hpp"
#include "plait/backend/rank.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/mesh/channels.hpp"
#include "plait/mesh/groups.hpp"
#include "plait/mesh/stream.hpp"

namespace plait::ext {

/// A rank on a CUDA device; all backends in this folder use this type.
using cuda_rank = rank_handle<cuda_device, cuda_communicator>;

}  // namespace plait::ext

namespace plait::detail {

// Adds a communicator of two ranks for each channel (one direction of messages between two stages)
// that connects this rank with a neighbour. `stages`: the world ranks in the order of stages. All
// ranks of the world call it together.
inline void add_channels(nccl_communicator& of, nccl_link& world, std::vector<int> const& stages,
                         int rank) {
  int const count = static_cast<int>(stages.size());
  auto const channels = channels_of_stages(count);
  for (int round = 0; round <= (channels.empty() ? -1 : channels.back().round); ++round) {
    bool has_one = false;
    for (auto const& one : channels) {
      std::vector<int> const ends{stages[std::size_t(one.from)], stages[std::size_t(one.to)]};
      if (one.round != round || (ends[0] != rank && ends[1] != rank)) continue;
      bool const sends = ends[0] == rank;
      has_one = true;
      of.use_for(channel_of(sends ? one.from : one.to, sends ? one.to : one.from, count, sends),
                 std::make_shared<nccl_link>(world, ends, sends ? 0 : 1));
    }
    if (!has_one) world.take_no_part();
  }
}

// Makes a communicator for each set of mesh axes of `groups`, in their order. All ranks of the
// world call it together. If a set of axes groups the same ranks as an earlier set, both share one
// NCCL communicator.
inline std::vector<cuda_communicator> nccl_groups(mesh_groups const& groups, int rank,
                                                  cuda_device& device, ncclUniqueId id) {
  auto const& grid = groups.grid();
  std::map<std::vector<int>, std::shared_ptr<nccl_link>> links;
  auto const everybody = grid.group_of(rank, world_axes);
  if (everybody.size() > 1)
    links[everybody] = std::make_shared<nccl_link>(device.state(), everybody, rank, id);
  std::vector<cuda_communicator> out;
  for (axis_set const over : groups.sets()) {
    auto members = grid.group_of(rank, over);
    std::shared_ptr<nccl_link> link;
    if (members.size() > 1) {
      auto& known = links[members];
      if (!known)
        known = std::make_shared<nccl_link>(*links[everybody], members,
                                            grid.place_in_group(grid.coordinates_of(rank), over));
      link = known;
    }
    nccl_communicator made(device, stream_of(over), std::move(link), members, rank);
    if (over == axis_set(axis::stage)) add_channels(made, *links[everybody], members, rank);
    out.emplace_back(std::move(made));
  }
  return out;
}

// Checks that the machine can run ranks on GPUs [first_device, first_device + ranks), or all ranks
// on GPU first_device if they share one.
[[gnu::cold]] inline void check_machine(int ranks, int first_device, bool share_one_gpu) {
  using namespace cuda_requirements;
  int driver = 0, runtime = 0, devices = 0;
  cuda_place const at{0, first_device};
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion", at);
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion", at);
  check_driver(driver, runtime);
  if (auto const code = cudaGetDeviceCount(&devices); code == cudaErrorNoDevice) {
    (void)cudaGetLastError();
    devices = 0;
  } else {
    check(code, "cudaGetDeviceCount", at);
  }
  check_device_count(devices, ranks, first_device, share_one_gpu);
  for (int device = first_device; device < first_device + (share_one_gpu ? 1 : ranks); ++device) {
    cudaDeviceProp about{};
    check(cudaGetDeviceProperties(&about, device), "cudaGetDeviceProperties", {0, device});
    check_capability(device, about.name, about.major, about.minor);
  }
}

// Checks the version of NCCL and sets NCCL_LAUNCH_ORDER_IMPLICIT. Without the variable, the kernels
// of two communicators of a rank could be launched in different orders on different GPUs. It is
// called before any other call of NCCL, because the first call reads the environment.
[[gnu::cold]] inline void check_nccl_library(mesh_groups const& groups) {
  (void)::setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
  int version = 0;
  check_nccl(ncclGetVersion(&version), "ncclGetVersion", {});
  std::set<std::vector<int>> links{groups.grid().group_of(0, world_axes)};
  for (axis_set const over : groups.sets()) links.insert(groups.grid().group_of(0, over));
  std::erase_if(links, [](auto const& members) { return members.size() == 1; });
  cuda_requirements::check_nccl(version, NCCL_VERSION_CODE,
                                static_cast<int>(links.size()) + (groups.has_channels() ? 2 : 0));
}

}  // namespace plait::detail
