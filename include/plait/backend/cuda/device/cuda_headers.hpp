// SPDX-License-Identifier: Apache-2.0
#pragma once

// First: it says what is wrong where the compiler is none for CUDA.
#include "plait/backend/cuda/kernels/builtins.hpp"

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <nvtx3/nvToolsExt.h>
