// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Names that programs use: layers, policies, trainers, data sets, launch.
namespace plait {}

/// Names that authors of backends, policies, schedules and tools use; programs seldom need them.
namespace plait::ext {}

/// Helpers of plait's headers; no code outside plait may use them.
namespace plait::detail {
using namespace ext;
}

/// Code that makes a plan, from the description of a model to the list of its communication
/// operations. Programs use `plait::explain` and the workload instead.
namespace plait::planning {
using namespace ext;
using namespace detail;
}  // namespace plait::planning

/// The vocabulary for writing layers as formulas, and the code that derives forward and backward
/// from a formula.
namespace plait::formula {}

/// Code that runs a plan. Programs use `plait::launch` and `plait::trainer` instead.
namespace plait::execution {
using namespace ext;
using namespace detail;
using namespace planning;
}  // namespace plait::execution

/// Matrix products and element-wise functions that backends use, on CPUs and in the kernels of
/// GPUs.
namespace plait::host_maths {
using namespace ext;
}
namespace plait::cuda_kernels {
using namespace ext;
}
namespace plait::cuda_requirements {
using namespace ext;
}

/// Checks of layers and policies, which programs can use in their tests.
namespace plait::testing {
using namespace ext;
using namespace planning;
using namespace execution;
}  // namespace plait::testing
