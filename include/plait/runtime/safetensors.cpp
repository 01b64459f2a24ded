// SPDX-License-Identifier: Apache-2.0
// The runtime of plait::safetensors: the functions that do not depend on a program's types and are
// compiled once. See core/header_only.hpp.
#undef PLAIT_HEADER_ONLY
#define PLAIT_HEADER_ONLY 0

#include "plait/io/safetensors.ipp"
#include "plait/io/json.ipp"
#include "plait/io/safetensors_header.ipp"
#include "plait/io/sharding_info.ipp"
