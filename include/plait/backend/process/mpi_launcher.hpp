// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/launcher_variables.hpp"
#include "plait/backend/process_ranks.hpp"
#include "plait/core/header_only.hpp"

namespace plait::detail {

/// The MPI library by whose launcher's variables a rank is known.
enum class mpi_name { open_mpi, mpich };

/// Compares the rank and size of MPI_COMM_WORLD, `here`, with the environment that MPI's launchers
/// set. A program that is built with MPICH and started by Open MPI's `mpirun -n 4` would otherwise
/// run as four jobs of one process each.
///
/// Errors: input_error with both numbers. Variables of the other library in addition to the own
///         library's are accepted: one mpirun may start another.
[[gnu::cold]] void check_mpi_launcher(process_ranks const& here, mpi_name library,
                                      find_variable variable = own_environment);

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/process/mpi_launcher.ipp"
#endif
