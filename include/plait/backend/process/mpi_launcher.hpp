// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/launcher_variables.hpp"
#include "plait/backend/process_ranks.hpp"
#include "plait/core/header_only.hpp"

namespace plait::detail {

/// The MPI library with which the program is built; its launcher sets the variables that are
/// checked.
enum class mpi_name { open_mpi, mpich };

/// Compares the rank and size of MPI_COMM_WORLD, `here`, with the environment variables that MPI's
/// launchers set. Without this check, a program that is built with MPICH and started by Open MPI's
/// `mpirun -n 4` would run as four jobs of one process each.
///
/// Errors: input_error with both numbers if they differ. If the variables of `library` are set,
///         variables of the other library are ignored, since one mpirun may have started the other
///         one.
[[gnu::cold]] void check_mpi_launcher(process_ranks const& here, mpi_name library,
                                      find_variable variable = own_environment);

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/process/mpi_launcher.ipp"
#endif
