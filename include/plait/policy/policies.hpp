// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/policy/data_parallel.hpp"
#include "plait/policy/hybrid.hpp"
#include "plait/policy/pipeline.hpp"
#include "plait/policy/policy.hpp"
#include "plait/policy/recompute.hpp"
#include "plait/policy/reproducible.hpp"
#include "plait/policy/tensor_parallel.hpp"
