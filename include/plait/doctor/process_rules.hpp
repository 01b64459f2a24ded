// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/doctor/finding.hpp"
#include "plait/doctor/host_settings.hpp"

// Rules about settings between the processes of a job; see processor_rules.hpp.
namespace plait::ext::setting_rules {

/// Finds ranks with another version of a library, or with other flags of the compiler, than most
/// ranks. Different versions of plait, MPI or NCCL make a job fail. With different builds or BLAS
/// libraries, ranks compute different bits. Different drivers or versions of CUDA may make a job
/// slower.
[[nodiscard]] [[gnu::cold]] std::vector<finding> unlike_plait(
    std::vector<host_settings> const& all);
[[nodiscard]] [[gnu::cold]] std::vector<finding> unlike_build(
    std::vector<host_settings> const& all);
[[nodiscard]] [[gnu::cold]] std::vector<finding> unlike_blas(std::vector<host_settings> const& all);
[[nodiscard]] [[gnu::cold]] std::vector<finding> unlike_mpi(std::vector<host_settings> const& all);
[[nodiscard]] [[gnu::cold]] std::vector<finding> unlike_nccl(std::vector<host_settings> const& all);
[[nodiscard]] [[gnu::cold]] std::vector<finding> unlike_cuda(std::vector<host_settings> const& all);
[[nodiscard]] [[gnu::cold]] std::vector<finding> unlike_driver(
    std::vector<host_settings> const& all);

/// Finds hosts whose clock differs by more than a second from the median of all hosts. Read the
/// settings on all ranks at the same moment, for example after a barrier.
[[nodiscard]] [[gnu::cold]] std::vector<finding> unlike_clock(
    std::vector<host_settings> const& all);

/// Finds hosts whose /dev/shm has less free space than 16 MiB for each process, if several
/// processes of the job run on the host. MPI and NCCL exchange data between processes in /dev/shm.
/// If it is full, they fail, or the process ends with SIGBUS.
[[nodiscard]] [[gnu::cold]] std::vector<finding> shared_memory(
    std::vector<host_settings> const& all);

/// Finds ranks of a job on several hosts that use a loopback interface, which no other host can
/// reach.
[[nodiscard]] [[gnu::cold]] std::vector<finding> loopback(std::vector<host_settings> const& all);

/// Finds ranks whose network interface has another size of packets (MTU), or another speed, than
/// the interfaces of most ranks.
[[nodiscard]] [[gnu::cold]] std::vector<finding> unlike_mtu(std::vector<host_settings> const& all);
[[nodiscard]] [[gnu::cold]] std::vector<finding> unlike_speed(
    std::vector<host_settings> const& all);

/// Finds processes that may open fewer files than a job needs: 128 files, and 8 connections for
/// each process of the job.
[[nodiscard]] [[gnu::cold]] std::vector<finding> open_files(std::vector<host_settings> const& all);

/// Finds processes with a limit on locked memory on hosts with an RDMA device, such as an
/// InfiniBand adapter, which transfers data only from and to locked memory.
[[nodiscard]] [[gnu::cold]] std::vector<finding> locked_memory(
    std::vector<host_settings> const& all);

}  // namespace plait::ext::setting_rules

#if PLAIT_HEADER_ONLY
#include "plait/doctor/process_rules.ipp"
#endif
