// SPDX-License-Identifier: Apache-2.0
// The runtime of plait::mpi: the functions that do not depend on a program's types and are compiled
// once. See core/header_only.hpp.
#undef PLAIT_HEADER_ONLY
#define PLAIT_HEADER_ONLY 0

#include "plait/backend/mpi/mpi.ipp"
