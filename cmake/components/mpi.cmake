# SPDX-License-Identifier: Apache-2.0
# plait::mpi: ranks as processes of an MPI job. -DMPI_CXX_COMPILER=... selects one of several libraries.
plait_look_for(mpi)
if(NOT plait_needs)
  plait_add_component(mpi MPI::MPI_CXX)
endif()
