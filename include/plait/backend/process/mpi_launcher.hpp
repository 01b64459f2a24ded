// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/launcher_variables.hpp"
#include "plait/backend/process_ranks.hpp"
#include "plait/core/header_only.hpp"

namespace plait::detail {

/// Whose variables an MPI library's own launcher sets.
enum class mpi_name { open_mpi, mpich };

/// Compares what MPI_COMM_WORLD says, `here`, with what MPI's launchers have put into the
/// environment. A library that is not the launcher's starts every process as a world of its own.
///
/// Errors: input_error with both numbers. Variables of the other library beside those of the own
///         one are no contradiction: one mpirun may start another.
[[gnu::cold]] void check_mpi_launcher(process_ranks const& here, mpi_name library,
                                      find_variable variable = own_environment);

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/process/mpi_launcher.ipp"
#endif
