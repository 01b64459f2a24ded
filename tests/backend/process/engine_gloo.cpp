// SPDX-License-Identifier: Apache-2.0
#include "backend/process/engines.hpp"
#include "plait/backend/gloo/gloo.hpp"

namespace {

bool const known = plait_test::engines().emplace("gloo", +[] { return plait::gloo(); }).second;

}  // namespace
