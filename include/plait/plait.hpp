// SPDX-License-Identifier: Apache-2.0
#pragma once

// Everything that needs only the standard library.
// First, as messages name all files on the way to a check.
#include "plait/layer/combinators.hpp"
#include "plait/plan/checks.hpp"
#include "plait/policy/policies.hpp"

#include "plait/backend/host/threads.hpp"
#include "plait/data/batches.hpp"
#include "plait/data/byte_text.hpp"
#include "plait/data/in_memory.hpp"
#include "plait/data/split_data.hpp"
#include "plait/nn/activation.hpp"
#include "plait/nn/attention.hpp"
#include "plait/nn/cross_entropy.hpp"
#include "plait/nn/dropout.hpp"
#include "plait/nn/elementwise_loss.hpp"
#include "plait/nn/embedding.hpp"
#include "plait/nn/layer_norm.hpp"
#include "plait/nn/linear.hpp"
#include "plait/nn/product.hpp"
#include "plait/observe/csv_log.hpp"
#include "plait/observe/progress.hpp"
#include "plait/plan/explain.hpp"
#include "plait/plan/parallel.hpp"
#include "plait/run/launch.hpp"
#include "plait/schedule/gpipe.hpp"
#include "plait/train/rates.hpp"
#include "plait/train/trainer.hpp"
#include "plait/version.hpp"
