// SPDX-License-Identifier: Apache-2.0
// The only source of train_gpt that includes the headers of Gloo.
#include <plait/backend/gloo/gloo.hpp>

#include "train_gpt/registry.hpp"

namespace {

train_gpt::engine_registration const registered({"gloo", [] { return plait::gloo(); }});

}  // namespace
