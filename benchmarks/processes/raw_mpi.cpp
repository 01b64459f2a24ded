// SPDX-License-Identifier: Apache-2.0
#include "plait/backend/mpi/mpi.hpp"
#include "processes/raw.hpp"

namespace plait_benchmark {

std::shared_ptr<plait::ext::process_engine> make_engine() { return plait::mpi(); }

raw_calls raw() {
  return {.all_reduce =
              [](float* inout, std::size_t count) {
                MPI_Allreduce(MPI_IN_PLACE, inout, static_cast<int>(count), MPI_FLOAT, MPI_SUM,
                              MPI_COMM_WORLD);
              },
          .all_gather =
              [](float const* send, float* receive, std::size_t each) {
                int const count = static_cast<int>(each);
                MPI_Allgather(send, count, MPI_FLOAT, receive, count, MPI_FLOAT, MPI_COMM_WORLD);
              },
          .reduce_scatter =
              [](float const* send, float* receive, std::size_t each) {
                MPI_Reduce_scatter_block(send, receive, static_cast<int>(each), MPI_FLOAT, MPI_SUM,
                                         MPI_COMM_WORLD);
              }};
}

}  // namespace plait_benchmark
