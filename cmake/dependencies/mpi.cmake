# SPDX-License-Identifier: Apache-2.0
# Without any MPI, find_package(MPI) still defines the target MPI::MPI_CXX.
if(NOT MPI_CXX_FOUND)
  set(MPI_CXX_SKIP_MPICXX TRUE)
  find_package(MPI QUIET COMPONENTS CXX)
endif()
set(plait_needs "an MPI library (Debian: libopenmpi-dev or libmpich-dev)")
if(MPI_CXX_FOUND)
  plait_try_dependency(mpi "#include <mpi.h>
    int main(int count, char** words) { return MPI_Init(&count, &words) + MPI_Finalize(); }"
    LIBRARIES MPI::MPI_CXX INCLUDES ${MPI_CXX_INCLUDE_DIRS})  # the folders tell libraries apart
endif()
