// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "plait/checkpoint/checkpoint_options.hpp"
#include "plait/core/header_only.hpp"
#include "plait/tensor/batch.hpp"

namespace plait::detail {

inline constexpr char const* data_set_setting = "data_set";

/// Adds the settings of the batches, which a resumed run must repeat, to the end of the other
/// settings. The setting of the data set is a fingerprint followed by the description of the data
/// set. A long description is shortened to its first 2000 bytes and a fingerprint of the whole
/// text.
[[gnu::cold]] void add_settings_of_batches(checkpoint_settings& to, batch_description const& of);

/// Returns `now` in a form that can be compared with `saved`. The settings of an older checkpoint
/// can lack the description of the data set. The description is then removed from `now`, too,
/// unless the data set now has adaptors, because no such checkpoint was written with adaptors.
[[nodiscard]] [[gnu::cold]] checkpoint_settings settings_to_compare(
    checkpoint_settings now, checkpoint_settings const& saved);

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/checkpoint/batch_settings.ipp"
#endif
