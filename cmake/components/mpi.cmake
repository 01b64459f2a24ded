# SPDX-License-Identifier: Apache-2.0
# plait::mpi: ranks as processes of an MPI job. -DMPI_CXX_COMPILER=... chooses among several libraries.
if(NOT TARGET MPI::MPI_CXX)
  set(MPI_CXX_SKIP_MPICXX TRUE)
  find_package(MPI QUIET COMPONENTS CXX)
endif()
if(TARGET MPI::MPI_CXX)
  plait_add_component(mpi MPI::MPI_CXX)
else()
  set(plait_needs "an MPI library (Debian: libopenmpi-dev or libmpich-dev)")
endif()
