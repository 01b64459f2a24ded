// SPDX-License-Identifier: Apache-2.0
#include "plait/backend/process/mpi_launcher.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace {

using plait::detail::mpi_name;

/// Returns the error of rank `rank` of `size` with a library in this environment; "" for none.
std::string refusal(mpi_name library, int rank, int size,
                    std::map<std::string, std::string> const& variables) {
  try {
    plait::detail::check_mpi_launcher({rank, size}, library, [&](char const* name) -> char const* {
      auto const found = variables.find(name);
      return found == variables.end() ? nullptr : found->second.c_str();
    });
    return "";
  } catch (plait::input_error const& problem) {
    return problem.what();
  }
}
void expect_words(std::string const& text, std::string const& words) {
  EXPECT_NE(text.find(words), std::string::npos) << text;
}

TEST(MpiLauncher, SaysWhatMpiSays) {
  EXPECT_EQ(refusal(mpi_name::open_mpi, 1, 2, {}), "");
  EXPECT_EQ(refusal(mpi_name::open_mpi, 1, 2,
                    {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}}),
            "");
  EXPECT_EQ(refusal(mpi_name::mpich, 1, 2, {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}), "");
}

TEST(MpiLauncher, OfAnotherMpi) {
  auto const words = [](std::string const& name) {
    return "mpi: MPI says that this process is alone, and " + name +
           " says that the launcher started 2 processes: the program was built with another MPI "
           "library "
           "than this mpirun";
  };
  expect_words(refusal(mpi_name::mpich, 0, 1, {{"OMPI_COMM_WORLD_SIZE", "2"}}),
               words("OMPI_COMM_WORLD_SIZE"));
  expect_words(refusal(mpi_name::open_mpi, 0, 1, {{"PMI_SIZE", "2"}}), words("PMI_SIZE"));
  expect_words(refusal(mpi_name::open_mpi, 0, 1, {{"OMPI_COMM_WORLD_SIZE", "2"}}),
               words("OMPI_COMM_WORLD_SIZE"));
}

TEST(MpiLauncher, InsideOfAnother) {
  EXPECT_EQ(refusal(mpi_name::mpich, 0, 1,
                    {{"PMI_RANK", "0"},
                     {"PMI_SIZE", "1"},
                     {"OMPI_COMM_WORLD_RANK", "1"},
                     {"OMPI_COMM_WORLD_SIZE", "2"}}),
            "");
}

TEST(MpiLauncher, Contradicts) {
  expect_words(refusal(mpi_name::open_mpi, 0, 2,
                       {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}}),
               "mpi: OMPI_COMM_WORLD_RANK=1 in the environment, and MPI_COMM_WORLD has the rank 0");
  expect_words(refusal(mpi_name::mpich, 0, 2, {{"PMI_RANK", "0"}, {"PMI_SIZE", "4"}}),
               "mpi: PMI_SIZE=4 in the environment, and MPI_COMM_WORLD has the size 2");
  expect_words(refusal(mpi_name::mpich, 0, 2, {{"PMI_RANK", "0"}, {"PMI_SIZE", "two"}}),
               "PMI_SIZE='two' in the environment is not a number");
}

}  // namespace
