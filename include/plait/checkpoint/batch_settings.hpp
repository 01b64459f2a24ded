// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "plait/checkpoint/checkpoint_options.hpp"
#include "plait/core/header_only.hpp"
#include "plait/tensor/batch.hpp"

namespace plait::detail {

inline constexpr char const* data_set_setting = "data_set";

/// What a run must have again of its batches, behind the other settings. The data set's text stands
/// behind its fingerprint; of a long one the beginning, and a fingerprint of all.
[[gnu::cold]] void add_settings_of_batches(checkpoint_settings& to, batch_description const& of);

/// The settings now, as they are compared with those of a checkpoint. One without a text of its
/// data set may be older than that text, so that it is not compared; but it had no adaptors.
[[nodiscard]] [[gnu::cold]] checkpoint_settings settings_to_compare(
    checkpoint_settings now, checkpoint_settings const& saved);

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/checkpoint/batch_settings.ipp"
#endif
