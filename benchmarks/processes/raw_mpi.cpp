// SPDX-License-Identifier: Apache-2.0
#include "plait/backend/mpi/mpi.hpp"
#include "processes/raw.hpp"

namespace plait_benchmark {

std::shared_ptr<plait::process_engine> make_engine() { return plait::mpi(); }

all_reduce raw_all_reduce() {
  return [](float* inout, std::size_t count) {
    MPI_Allreduce(MPI_IN_PLACE, inout, static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  };
}

}  // namespace plait_benchmark
