// SPDX-License-Identifier: Apache-2.0
#include "plait/backend/gloo/gloo.hpp"
#include "processes/raw.hpp"

namespace plait_benchmark {

std::shared_ptr<plait::process_engine> make_engine() { return plait::gloo(); }

// That of `library` is Gloo's own call.
all_reduce raw_all_reduce() { return nullptr; }

}  // namespace plait_benchmark
