// SPDX-License-Identifier: Apache-2.0
#pragma once

// Everything that needs only the standard library.
#include "plait/backend/host/threads.hpp"
#include "plait/data/batches.hpp"
#include "plait/data/byte_text.hpp"
#include "plait/data/in_memory.hpp"
#include "plait/layer/combinators.hpp"
#include "plait/nn/activation.hpp"
#include "plait/nn/attention.hpp"
#include "plait/nn/cross_entropy.hpp"
#include "plait/nn/dropout.hpp"
#include "plait/nn/embedding.hpp"
#include "plait/nn/layer_norm.hpp"
#include "plait/nn/linear.hpp"
#include "plait/nn/product.hpp"
#include "plait/observe/progress.hpp"
#include "plait/plan/explain.hpp"
#include "plait/plan/parallel.hpp"
#include "plait/run/launch.hpp"
#include "plait/schedule/gpipe.hpp"
#include "plait/train/trainer.hpp"
#include "plait/version.hpp"
