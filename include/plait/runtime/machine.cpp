// SPDX-License-Identifier: Apache-2.0
// The runtime of plait::machine: the functions that do not depend on a program's types and are
// compiled once. See core/header_only.hpp.
#undef PLAIT_HEADER_ONLY
#define PLAIT_HEADER_ONLY 0

#include "plait/doctor/compare_machines.ipp"
#include "plait/doctor/machine_costs.ipp"
#include "plait/doctor/machine_file.ipp"
#include "plait/doctor/machine_rules.ipp"
