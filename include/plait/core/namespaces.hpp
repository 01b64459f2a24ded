// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Names for programs: layers, policies, trainers, data, launch.
namespace plait {}

/// Names for authors of backends, policies, schedules and tools; programs seldom need them.
namespace plait::ext {}

/// Helpers of single headers; no other code may use them.
namespace plait::detail {
using namespace ext;
}

/// The construction of a plan, from the description of a model to the list of its exchanges.
/// Programs use `plait::explain` and the workload instead.
namespace plait::planning {
using namespace ext;
using namespace detail;
}  // namespace plait::planning

/// The words in which layers are written as formulas, and the code that derives their bodies from
/// them.
namespace plait::formula {}

/// The parts that run a plan. Programs use `plait::launch` and `plait::trainer` instead.
namespace plait::execution {
using namespace ext;
using namespace detail;
using namespace planning;
}  // namespace plait::execution

/// Matrix products and element-wise functions for processors and kernels, used by backends.
namespace plait::host_maths {
using namespace ext;
}
namespace plait::cuda_kernels {
using namespace ext;
}
namespace plait::cuda_requirements {
using namespace ext;
}

/// Checks of layers and policies for the tests of programs.
namespace plait::testing {
using namespace ext;
using namespace planning;
using namespace execution;
}  // namespace plait::testing
