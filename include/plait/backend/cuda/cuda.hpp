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

/// The backend for the GPUs of one machine, which exchange data with NCCL. Each rank has a GPU and
/// a thread of this process: `plait::launch<job>(plait::cuda{}, program)`.
///
/// With `share_one_gpu` all ranks use one GPU and exchange data in its memory, so that a plan of
/// many ranks can be tested with a single GPU.
/// Threads: rank 0 runs in the calling thread, whose current device is restored afterwards.
struct cuda {
  /// The size of the data axis if the policy leaves it to the launch. 0 selects the policy's
  /// number, or 1 if the policy has none; `all_processors` selects the size that uses all GPUs.
  int data_ranks = 0;
  bool share_one_gpu = false;
  /// The GPU of rank 0; the other ranks use the following GPUs.
  int first_device = 0;
  cuda_options options{};
  /// Allows a launcher to start several processes that each run the whole job; without this option
  /// that is an error.
  bool in_each_process = false;

  using concept_tag = ext::backend_tag;
  using rank_type = ext::cuda_rank;

  /// Returns the number of ranks for which the machine has GPUs.
  [[nodiscard]] int processors() const {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess) devices = 0;
    (void)cudaGetLastError();
    return devices - first_device;
  }

  /// Calls program(rank) on every rank of the mesh and returns when all calls have ended.
  ///
  /// Errors: input_error if the options contradict each other, or if a launcher has started several
  ///         processes; cuda_error, before any rank runs, if the machine does not meet a
  ///         requirement. If the program fails on a rank, all ranks end, and the first failure is
  ///         thrown here.
  void run(ext::mesh_groups const& where, std::function<void(rank_type&)> const& program) const {
    if (!in_each_process) detail::require_started_once("cuda", "plait::cuda_process");
    int const ranks = where.grid().world_size();
    detail::require_ranges(options);
    detail::require_range("cuda::first_device", first_device, number_ranges::at_least_0);
    if (options.graphs && (share_one_gpu || ranks > 1))
      throw input_error({"cuda: ranks that share one ", (share_one_gpu ? "GPU" : "process"),
                         " cannot record graphs; run each rank in its own process, by "
                         "plait::cuda_process{}, or leave .options.graphs out"});
    detail::check_machine(ranks, first_device, share_one_gpu);
    if (share_one_gpu) run_on_one(where, program);
    else run_on_all(where, program);
  }

 private:
  // Runs a thread for each rank. A rank that fails raises `signal` first, so that the other ranks
  // report this failure and not its consequences. fail(text) and end(rank) end the waits of other
  // ranks.
  template <class OfRank, class Fail, class End>
  static void run_threads(ext::thread_world& world, detail::job_signal& signal, OfRank of_rank,
                          Fail fail, End end) {
    run_ranks(world, [&](int rank) {
      try {
        of_rank(rank);
      } catch (job_ended const&) {  // each rank throws job_ended at the end of its own work
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
    // The ranks wait for each other on the host before the first communication and after the last,
    // because allocating or freeing memory may wait for all GPUs. These waits have no time-out.
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
          ext::device_scope const scope(at);  // set once, so that no call has to change the device
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

  // Raises the signal before the rank's communicators are destroyed, so that they abort instead of
  // waiting for other ranks.
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
      handle.device().synchronize();  // may throw: work that is still running can fail, too
      meet();
    } catch (...) {
      signal.raise(std::current_exception(), rank);
      throw;
    }
    if (ended) std::rethrow_exception(ended);
  }
};

}  // namespace plait
