// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "plait/backend/backend.hpp"
#include "plait/backend/cuda/cuda_groups.hpp"
#include "plait/backend/cuda/cuda_options.hpp"
#include "plait/backend/cuda/device/cuda_device.hpp"
#include "plait/backend/cuda/device/cuda_error.hpp"
#include "plait/backend/cuda/device/cuda_headers.hpp"
#include "plait/backend/cuda/device/device_scope.hpp"
#include "plait/backend/cuda/job_signal.hpp"
#include "plait/backend/cuda/loopback/loopback_communicator.hpp"
#include "plait/backend/cuda/loopback/loopback_world.hpp"
#include "plait/backend/host/run_ranks.hpp"
#include "plait/backend/host/thread_communicator.hpp"
#include "plait/backend/host/thread_world.hpp"
#include "plait/backend/started_once.hpp"
#include "plait/core/clock.hpp"
#include "plait/core/error.hpp"
#include "plait/mesh/groups.hpp"
#include "plait/mesh/stream.hpp"

namespace plait {

/// The GPUs of one machine, over NCCL, with a thread of this process for each GPU:
/// `plait::launch<job>(plait::cuda{}, program)`.
///
/// With `share_one_gpu` all ranks are on one GPU and exchange their data in its memory, which tests
/// a plan with a single GPU.
/// Threads: rank 0 is the calling thread, whose current device is restored afterwards.
struct cuda {
  /// Size of a data axis that the policy leaves to the launch; 0 takes the policy's number, or 1;
  /// `all_processors` takes the size that uses all GPUs.
  int data_ranks = 0;
  bool share_one_gpu = false;
  /// The GPU of rank 0; the other ranks use the following GPUs.
  int first_device = 0;
  cuda_options options{};
  /// Lets each of several processes that a launcher has started run the whole job; otherwise that
  /// is an error.
  bool in_each_process = false;

  using concept_tag = ext::backend_tag;
  using rank_type = ext::cuda_rank;

  /// The number of ranks for which the machine has GPUs.
  [[nodiscard]] int processors() const {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess) devices = 0;
    (void)cudaGetLastError();
    return devices - first_device;
  }

  /// Calls program(rank) on every rank of the mesh and returns when all have ended.
  ///
  /// Errors: input_error if the options contradict each other, or the process is one of several;
  ///         cuda_error if the machine lacks something, before any rank runs. The first failure of
  ///         a rank ends all ranks and is thrown here.
  void run(ext::mesh_groups const& where, std::function<void(rank_type&)> const& program) const {
    if (!in_each_process) detail::require_started_once("cuda", "plait::cuda_process");
    int const ranks = where.grid().world_size();
    detail::require_ranges(options);
    detail::require_range("cuda::first_device", first_device, number_ranges::at_least_0);
    if (options.graphs && (share_one_gpu || ranks > 1))
      throw input_error(
          {"cuda: ranks that share one ", (share_one_gpu ? "GPU" : "process"),
           " cannot record graphs; give each a process, by plait::cuda_process{}, or leave "
           ".options.graphs off"});
    detail::check_machine(ranks, first_device, share_one_gpu);
    if (share_one_gpu) run_on_one(where, program);
    else run_on_all(where, program);
  }

 private:
  // Runs a thread for each rank. The first failure is raised before other ranks can see its
  // consequences. fail(text) and end(rank) end other waits of the ranks.
  template <class OfRank, class Fail, class End>
  static void run_threads(ext::thread_world& world, detail::job_signal& signal, OfRank of_rank,
                          Fail fail, End end) {
    run_ranks(world, [&](int rank) {
      try {
        of_rank(rank);
      } catch (job_ended const&) {  // all ranks throw it, each when it has done its part
        end(rank);
        throw;
      } catch (...) {
        signal.raise(std::current_exception(), rank);
        fail(signal.text());
      }
      end(rank);
    });
    signal.rethrow();
  }

  void run_on_all(ext::mesh_groups const& where,
                  std::function<void(rank_type&)> const& program) const {
    detail::check_nccl_library(where);
    ncclUniqueId id{};
    int const ranks = where.grid().world_size();
    if (ranks > 1) detail::check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId", {0, first_device});
    // The ranks meet on the host before one communicates, and after all have finished: allocating
    // or freeing memory may wait for all GPUs. These waits have no time-out.
    ext::thread_world world(ranks, {.timeout = std::chrono::nanoseconds::max()});
    std::vector<int> everybody(static_cast<std::size_t>(ranks));
    std::iota(everybody.begin(), everybody.end(), 0);
    int const rendezvous = world.add_group(everybody);
    auto const signal = std::make_shared<detail::job_signal>();
    run_threads(
        world, *signal,
        [&](int rank) {
          ext::thread_communicator host(world, rendezvous, everybody, rank);
          ext::cuda_place const at{rank, first_device + rank};
          ext::device_scope const scope(at);  // once, so that no call has to change it
          ext::cuda_device device(at, options, signal);
          auto groups = detail::nccl_groups(where, rank, device, id);
          host.barrier();
          run_rank(where, rank, std::move(device), std::move(groups), program, *signal,
                   [&] { host.barrier(); });
        },
        [&](std::string text) { world.abort(std::move(text)); }, [](int) {});
  }

  void run_on_one(ext::mesh_groups const& where,
                  std::function<void(rank_type&)> const& program) const {
    int const ranks = where.grid().world_size();
    ext::thread_world threads(ranks);
    ext::loopback_world world(ranks, {.timeout = options.timeout});
    auto const ids = declare_groups(where, [&](std::vector<int> members, ext::axis_set) {
      return world.add_group(std::move(members));
    });
    auto const signal = std::make_shared<detail::job_signal>();
    run_threads(
        threads, *signal,
        [&](int rank) {
          ext::cuda_place const at{rank, first_device};
          ext::device_scope const scope(at);
          ext::cuda_device device(at, options, signal);
          std::vector<ext::cuda_communicator> groups;
          for (int i = 0; i < where.sets().size(); ++i)
            groups.emplace_back(
                ext::loopback_communicator(world, ids[std::size_t(rank)][std::size_t(i)], rank,
                                           device, stream_of(where.sets()[i])));
          run_rank(where, rank, std::move(device), std::move(groups), program, *signal, [] {});
        },
        [&](std::string text) { world.abort(std::move(text)); },
        [&](int rank) { world.finish(rank); });
  }

  // The signal is raised before the rank's communicators are destroyed: then they abort.
  template <class Groups, class Meet>
  static void run_rank(ext::mesh_groups const& where, int rank, ext::cuda_device device,
                       Groups groups, std::function<void(rank_type&)> const& program,
                       detail::job_signal& signal, Meet meet) {
    ext::cuda_rank handle(where, rank, std::move(device), std::move(groups));
    std::exception_ptr ended;
    try {
      try {
        program(handle);
      } catch (job_ended const&) {
        ended = std::current_exception();
      }
      handle.device().synchronize();  // work that is still under way may fail, too
      meet();
    } catch (...) {
      signal.raise(std::current_exception(), rank);
      throw;
    }
    if (ended) std::rethrow_exception(ended);
  }
};

}  // namespace plait
