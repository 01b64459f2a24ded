// SPDX-License-Identifier: Apache-2.0
// The part of plait that needs only the standard library and does not depend on a program's types.
// Compile it once:
//   g++ -std=c++20 -O3 -I include -c include/plait/runtime.cpp
//   g++ -std=c++20 -O3 -I include -DPLAIT_HEADER_ONLY=0 program.cpp runtime.o -pthread
// Compile runtime/<component>.cpp in the same way for each component that you use. With CMake,
// plait_add_program does both.
#include "plait/runtime/core.cpp"
#include "plait/runtime/process.cpp"
#include "plait/runtime/simulated.cpp"
#include "plait/runtime/testing.cpp"
