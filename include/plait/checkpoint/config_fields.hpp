// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/core/header_only.hpp"

namespace plait::detail {

/// Returns the fields of config.json that plait knows, as JSON:
///
/// - defaults: for each model type, the default values of its fields. If a model type has no
///   default for a field, it implies the value of the field; without defaults for sliding_window
///   and use_sliding_window it ignores these fields.
/// - names: for each model type, the fields that have other names than in Llama's config.json.
/// - architectures: for each model type, the name of the class of its language model.
/// - accepted: for each field that plait's models do not read, the values with which a model of
///   transformers computes the same as plait's model.
/// - dropout: the fields that have an effect only in training.
/// - harmless: the fields that do not change what a model computes.
///
/// scripts/shape_from_config reads the same text, and tests/oracle/config_defaults.py compares the
/// defaults with transformers.
[[nodiscard]] [[gnu::cold]] char const* config_fields();

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/checkpoint/config_fields.ipp"
#endif
