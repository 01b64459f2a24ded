// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Names for programs: layers, policies, trainers, data, launch.
namespace plait {}

/// Names for those who write backends, policies, schedules and tools; programs seldom need one.
namespace plait::ext {}

/// Helpers of headers; nobody else names them.
namespace plait::detail {
using namespace ext;
}

/// How a plan is made, from the description of a model to the list of its exchanges. Programs have
/// `plait::explain` and the workload.
namespace plait::planning {
using namespace ext;
using namespace detail;
}  // namespace plait::planning

/// The words that layers are written in as formulas, and what derives their bodies from them.
namespace plait::formula {}

/// The parts that run a plan. Programs have `plait::launch` and `plait::trainer`.
namespace plait::execution {
using namespace ext;
using namespace detail;
using namespace planning;
}  // namespace plait::execution

/// Products and functions of processors and of kernels, for backends.
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
