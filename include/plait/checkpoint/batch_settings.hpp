// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "plait/checkpoint/checkpoint_options.hpp"
#include "plait/core/header_only.hpp"
#include "plait/tensor/batch.hpp"

namespace plait::detail {

inline constexpr char const* data_set_setting = "data_set";

/// Appends the settings of the batches to `to`, the settings that a resumed run must repeat. The
/// setting of the data set is a fingerprint followed by the description of the data set. A long
/// description is shortened to its first 2000 bytes and a fingerprint of the whole text.
[[gnu::cold]] void add_settings_of_batches(checkpoint_settings& to, batch_description const& of);

/// Returns `now` in a form that can be compared with `saved`. If the settings of an older
/// checkpoint lack the description of the data set, the description is removed from `now`, too. It
/// stays if the data set now has adaptors: older checkpoints were written without adaptors, so the
/// data sets differ.
[[nodiscard]] [[gnu::cold]] checkpoint_settings settings_to_compare(
    checkpoint_settings now, checkpoint_settings const& saved);

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/checkpoint/batch_settings.ipp"
#endif
