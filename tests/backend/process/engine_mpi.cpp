// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include "backend/process/engines.hpp"
#include "plait/backend/mpi/mpi.hpp"

namespace {

bool const known = plait_test::engines().emplace("mpi", +[] { return plait::mpi(); }).second;

// A program that calls MPI_Init itself and passes a communicator to plait (a guest).
bool const known_as_guest = plait_test::engines()
                                .emplace(
                                    "mpi_guest",
                                    +[] {
                                      static MPI_Comm mine = MPI_COMM_NULL;
                                      MPI_Init(nullptr, nullptr);
                                      MPI_Comm_dup(MPI_COMM_WORLD, &mine);
                                      std::atexit([] {
                                        MPI_Comm_free(&mine);
                                        MPI_Finalize();
                                      });
                                      return plait::mpi({.world = mine});
                                    })
                                .second;

// A guest that calls MPI_Finalize while a job runs.
bool const known_to_end = plait_test::engines()
                              .emplace(
                                  "mpi_finalize",
                                  +[]() -> std::shared_ptr<plait::ext::process_engine> {
                                    MPI_Finalize();
                                    return nullptr;
                                  })
                              .second;

}  // namespace
