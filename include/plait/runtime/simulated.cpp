// SPDX-License-Identifier: Apache-2.0
// The runtime of the simulated device: the functions that do not depend on a program's types and
// are compiled once. See core/header_only.hpp.
#undef PLAIT_HEADER_ONLY
#define PLAIT_HEADER_ONLY 0

#include "plait/backend/simulated/simulated.ipp"
#include "plait/backend/simulated/operation_order.ipp"
#include "plait/backend/simulated/shadow_memory.ipp"
#include "plait/backend/simulated/simulated_communicator.ipp"
#include "plait/backend/simulated/simulated_device.ipp"
#include "plait/backend/simulated/simulated_operation.ipp"
#include "plait/backend/simulated/simulated_rank.ipp"
#include "plait/backend/simulated/simulated_rendezvous.ipp"
#include "plait/backend/simulated/simulated_world.ipp"
#include "plait/backend/simulated/vector_clock.ipp"
