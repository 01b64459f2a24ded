// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What programs name.
namespace plait {}

/// Helpers of headers; nobody else names them.
namespace plait::detail {}

/// How a plan is made, from the description of a model to the list of its exchanges. Programs have
/// `plait::plan`, `plait::explain` and the workload.
namespace plait::planning {
using namespace detail;
}

/// What runs a plan. Programs have `plait::launch` and `plait::trainer`.
namespace plait::execution {
using namespace detail;
using namespace planning;
}  // namespace plait::execution

/// Checks of layers and policies for the tests of programs.
namespace plait::testing {
using namespace planning;
using namespace execution;
}  // namespace plait::testing
