// SPDX-License-Identifier: Apache-2.0
// The only source of train_gpt that includes mpi.h.
#include <plait/backend/mpi/mpi.hpp>

#include "train_gpt/registry.hpp"

namespace {

train_gpt::engine_registration const registered({"mpi", [] { return plait::mpi(); }});

}  // namespace
