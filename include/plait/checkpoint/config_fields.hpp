// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/core/header_only.hpp"

namespace plait::detail {

/// Returns the fields of config.json that plait knows, as JSON:
///
/// - defaults: the default values of each model type. A model type without a default for a field
///   implies its value.
/// - names: for each model type, other names of fields of model_config.
/// - architectures: the class of the language model of each model type.
/// - accepted: fields with the values that a model has which does not heed them.
/// - dropout: fields that only change how a model is trained.
/// - harmless: fields that change nothing that a model computes.
///
/// scripts/shape_from_config reads the same text, and tests/oracle/config_defaults.py compares the
/// defaults with transformers.
[[nodiscard]] [[gnu::cold]] char const* config_fields();

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/checkpoint/config_fields.ipp"
#endif
