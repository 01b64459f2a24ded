// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "plait/backend/backend.hpp"
#include "plait/backend/cuda/cuda_groups.hpp"
#include "plait/backend/cuda/cuda_options.hpp"
#include "plait/backend/cuda/device/cuda_device.hpp"
#include "plait/backend/cuda/device/cuda_error.hpp"
#include "plait/backend/cuda/device/cuda_headers.hpp"
#include "plait/backend/process/rendezvous_file.hpp"
#include "plait/backend/process/store_place.hpp"
#include "plait/backend/process_ranks.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/mesh/groups.hpp"

namespace plait {

/// The backend with one rank in each process, on one machine or several; the ranks exchange data
/// with NCCL. torchrun, mpirun or srun starts the program once for each rank of the plan.
///
/// Threads: the rank runs in the calling thread. The rank's GPU remains the current device
///          afterwards: restoring the first GPU would allocate memory on that GPU for every process
///          of the machine.
struct cuda_process {
  /// The size of the data axis if the policy leaves it to the launch. 0 selects the policy's
  /// number, or 1 if the policy has none; `all_processors` selects the size that uses all processes
  /// that were started.
  int data_ranks = 0;
  /// The rank of this process; if empty, it is read from the launcher's environment variables.
  std::optional<ext::process_ranks> ranks{};
  /// The path of the file through which rank 0 gives NCCL's id to the other ranks. All processes
  /// must see it, and no other job may use it. If empty, the value of PLAIT_RENDEZVOUS, else a path
  /// in the temporary folder if one launcher has started all processes on one machine. Not needed
  /// if NCCL_COMM_ID is set to host:port of rank 0.
  std::filesystem::path rendezvous{};
  cuda_options options{};

  using concept_tag = ext::backend_tag;
  using rank_type = ext::cuda_rank;

  /// Returns the number of processes that were started.
  ///
  /// Errors: input_error if the environment's variables are missing or contradict each other.
  [[nodiscard]] int processors() const { return place().world_size; }
  /// Every process is a rank.
  static constexpr bool processors_are_ranks = true;

  /// Returns the rank of this process, the number of ranks, and the source of both.
  ///
  /// Errors: input_error if neither `ranks` nor the environment states the rank, or if the
  ///         variables of the environment contradict each other.
  [[nodiscard]] ext::process_ranks place() const {
    return ranks ? *ranks : ext::read_process_ranks();
  }

  /// Calls program(rank) for the rank of this process and returns when the call has ended.
  ///
  /// Errors: input_error if the environment or the rendezvous file cannot be used, or if the number
  ///         of processes is not the plan's number of ranks; cuda_error if the machine does not
  ///         meet a requirement; exceptions of the program. After a failure the other processes
  ///         throw nccl_error or communication_timeout.
  void run(ext::mesh_groups const& where, std::function<void(rank_type&)> const& program) const {
    detail::require_ranges(options);
    auto const here = place();
    check_world_size(here, where.grid().world_size());
    // If the launcher makes only one GPU visible to each process, that GPU has number 0.
    int devices = 0;
    int const ordinal =
        cudaGetDeviceCount(&devices) == cudaSuccess && devices == 1 ? 0 : here.local_rank;
    (void)cudaGetLastError();
    detail::check_machine(1, ordinal, false);
    detail::check_nccl_library(where);

    ext::cuda_place const at{here.rank, ordinal};
    detail::check(cudaSetDevice(at.device), "cudaSetDevice", at);
    ext::cuda_device device(at, options);
    std::optional<written_file> note;
    auto groups = detail::nccl_groups(where, here.rank, device, agree_on_id(here, note));
    ext::cuda_rank handle(where, here.rank, std::move(device), std::move(groups));
    // Rank 0 removes the file before any rank runs the program, so that the next launch cannot read
    // it.
    handle.world().barrier();
    note.reset();
    handle.world().barrier();
    handle.world().reset_counted();
    program(handle);
    handle.device().synchronize();
  }

 private:
  [[nodiscard]] ext::rendezvous_file file(ext::process_ranks const& here) const {
    auto const job = ext::concat(
        {here.world_size, " processes", (here.job.empty() ? "" : ext::concat({", ", here.job}))});
    auto const place = detail::find_store_place(here, rendezvous, "cuda_process", "file",
                                                "NCCL_COMM_ID to host:port of rank 0");
    return ext::rendezvous_file(place.path, job);
  }

  // Removes the file that rank 0 has written, also if something fails before all ranks have
  // connected.
  struct written_file {
    ext::rendezvous_file file;
    explicit written_file(ext::rendezvous_file const& what) : file(what) {}
    written_file(written_file const&) = delete;
    written_file& operator=(written_file const&) = delete;
    ~written_file() { file.remove(); }
  };

  // Rank 0 makes NCCL's id of the job and gives it to the other ranks through a file. If the user
  // has set NCCL_COMM_ID to rank 0's address, NCCL computes the same id in every process, and there
  // is no file.
  [[nodiscard]] ncclUniqueId agree_on_id(ext::process_ranks const& here,
                                         std::optional<written_file>& written) const {
    ncclUniqueId id{};
    if (here.world_size == 1) return id;
    bool const is_told = std::getenv("NCCL_COMM_ID") != nullptr;
    if (is_told && detail::store_place_of_user(rendezvous).empty()) {
      detail::check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId, which reads NCCL_COMM_ID,", {});
    } else if (here.rank == 0) {
      detail::check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId", {});
      file(here).write(std::as_bytes(std::span(id.internal)));
      written.emplace(file(here));
    } else {
      auto const bytes = file(here).read(sizeof id.internal, options.timeout, [] {});
      std::memcpy(id.internal, bytes.data(), sizeof id.internal);
    }
    return id;
  }
};

}  // namespace plait
