// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/process/mpi_launcher.hpp"

#include <string>
#include <utility>

#include "plait/core/error.hpp"

namespace plait::detail {

// Throws input_error if a launcher that belongs to no MPI library has started several processes:
// MPI_COMM_WORLD of each process would have this one process only.
PLAIT_DECL void check_other_launchers(find_variable variable) {
  process_ranks told;
  try {
    told = read_process_ranks(variable);
  } catch (input_error const&) {
    return;  // the environment states no valid rank
  }
  if (told.launched && told.world_size > 1)
    throw input_error({"mpi: MPI says that this process is alone, and ", told.text(),
                       ": that launcher is not MPI's; start the program by mpirun, or use "
                       "plait::gloo()"});
}

PLAIT_DECL void check_mpi_launcher(process_ranks const& here, mpi_name library,
                                   find_variable variable) {
  struct names {
    char const *rank, *world_size;
  };
  constexpr names open_mpi{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"};
  constexpr names mpich{"PMI_RANK", "PMI_SIZE"};
  auto const [own, other] =
      library == mpi_name::open_mpi ? std::pair{open_mpi, mpich} : std::pair{mpich, open_mpi};
  auto const number = [&](char const* name, int otherwise) {
    char const* const found = variable(name);
    return found == nullptr ? otherwise : environment_number(name, found);
  };
  bool const has_own = variable(own.world_size) != nullptr;
  auto const* const size = has_own ? own.world_size : other.world_size;
  if (here.world_size == 1 && number(size, 1) > 1)
    throw input_error({std::string("mpi: MPI says that this process is alone, and "), size,
                       " says that the launcher started ", number(size, 1),
                       " processes: the program was built with another MPI library than this "
                       "mpirun; start the program by the launcher of its own MPI library"});
  if (!has_own) {
    if (here.world_size == 1) check_other_launchers(variable);
    return;
  }
  auto const compare = [&](char const* name, char const* what, int is) {
    if (int const said = number(name, is); said != is)
      throw input_error({"mpi: ", name, "=", said,
                         " in the environment, and MPI_COMM_WORLD has the ", what, " ", is,
                         ": something has changed the variable, or the launcher belongs to another "
                         "MPI library; start the program by the launcher of its own MPI library"});
  };
  compare(own.world_size, "size", here.world_size);
  compare(own.rank, "rank", here.rank);
}

}  // namespace plait::detail
