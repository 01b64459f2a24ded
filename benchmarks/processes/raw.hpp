// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

#include "plait/backend/process/process_engine.hpp"

// Declarations that the unit of an engine defines.
namespace plait_benchmark {

std::shared_ptr<plait::ext::process_engine> make_engine();

/// The engine's own calls over all processes, in place for the sum; `count` floats of all ranks
/// together. Null if the engine has none.
struct raw_calls {
  void (*all_reduce)(float* inout, std::size_t count) = nullptr;
  void (*all_gather)(float const* send, float* receive, std::size_t each) = nullptr;
  void (*reduce_scatter)(float const* send, float* receive, std::size_t each) = nullptr;
};
/// All ranks call it at the same place.
raw_calls raw();

}  // namespace plait_benchmark
