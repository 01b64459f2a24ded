// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdlib>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "plait/backend/cuda/cuda_communicator.hpp"
#include "plait/backend/cuda/cuda_device.hpp"
#include "plait/backend/cuda/cuda_error.hpp"
#include "plait/backend/cuda/cuda_headers.hpp"
#include "plait/backend/cuda/loopback_communicator.hpp"
#include "plait/backend/cuda/nccl_communicator.hpp"
#include "plait/backend/cuda/nccl_link.hpp"
#include "plait/backend/cuda/requirements.hpp"
#include "plait/backend/rank.hpp"
#include "plait/mesh/mesh.hpp"
#include "plait/mesh/stream.hpp"

namespace plait {

/// A rank on a CUDA device, under every backend of this folder.
using cuda_rank = rank_handle<cuda_device, cuda_communicator>;

namespace detail {

inline axis_set axes_of(unsigned bits) {
  axis_set over;
  over.bits = bits;
  return over;
}

// What make(axes) gives for the sets of axes, called in the one order in which all ranks do it.
template <class Make>
std::array<cuda_communicator, cuda_rank::group_count> make_groups(Make make) {
  std::map<unsigned, cuda_communicator> made;
  for (unsigned const bits : group_order) made.emplace(bits, make(axes_of(bits)));
  return [&]<std::size_t... Bits>(std::index_sequence<Bits...>) {
    return std::array{std::move(made.at(static_cast<unsigned>(Bits)))...};
  }(std::make_index_sequence<cuda_rank::group_count>{});
}

// All groups of a rank over NCCL. Collective over the world; a set of axes that groups the same
// ranks as an earlier one shares its communicator.
inline std::array<cuda_communicator, cuda_rank::group_count> nccl_groups(mesh const& grid, int rank,
                                                                         cuda_device& device,
                                                                         ncclUniqueId id) {
  axis_set const all = axes_of(cuda_rank::group_count - 1);
  std::map<std::vector<int>, std::shared_ptr<nccl_link>> links;
  auto const everybody = grid.group_of(rank, all);
  if (everybody.size() > 1)
    links[everybody] = std::make_shared<nccl_link>(device.state(), everybody, rank, id);
  return make_groups([&](axis_set over) -> cuda_communicator {
    auto members = grid.group_of(rank, over);
    std::shared_ptr<nccl_link> link;
    if (members.size() > 1) {
      auto& known = links[members];
      if (!known) {
        int place = 0;
        while (members[static_cast<std::size_t>(place)] != rank) ++place;
        known = std::make_shared<nccl_link>(*links[everybody], members, place);
      }
      link = known;
    }
    return nccl_communicator(device, stream_of(over), std::move(link), std::move(members), rank);
  });
}

// Whether the machine can run ranks on GPUs [first, first + ranks), or one GPU for all.
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

// Before the first call of NCCL, which reads the environment then. Kernels of two communicators of
// a rank may be launched in different orders on different GPUs, unless NCCL keeps to ours.
[[gnu::cold]] inline void check_nccl_library() {
  (void)::setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
  int version = 0;
  check_nccl(ncclGetVersion(&version), "ncclGetVersion", {});
  cuda_requirements::check_nccl(version, NCCL_VERSION_CODE);
}

}  // namespace detail
}  // namespace plait
