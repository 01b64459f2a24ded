// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

#include "plait/backend/process/process_engine.hpp"

// What the unit of an engine defines.
namespace plait_benchmark {

std::shared_ptr<plait::process_engine> make_engine();

using all_reduce = void (*)(float* inout, std::size_t count);
/// The engine's own sum over all processes, or null.
all_reduce raw_all_reduce();

}  // namespace plait_benchmark
