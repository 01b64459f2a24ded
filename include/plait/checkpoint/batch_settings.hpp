// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "plait/checkpoint/checkpoint_options.hpp"
#include "plait/core/header_only.hpp"
#include "plait/tensor/batch.hpp"

namespace plait::detail {

inline constexpr char const* data_set_setting = "data_set";

/// Adds the settings of the batches that a resumed run must repeat, after the other settings. The
/// data set's text follows its fingerprint; of a long text, the first 2000 bytes and a fingerprint
/// of the whole.
[[gnu::cold]] void add_settings_of_batches(checkpoint_settings& to, batch_description const& of);

/// Returns the present settings in the form in which `saved` has them. A checkpoint without a text
/// of its data set may be older than such texts, so the text is then not compared, unless there are
/// adaptors, which no such checkpoint had.
[[nodiscard]] [[gnu::cold]] checkpoint_settings settings_to_compare(
    checkpoint_settings now, checkpoint_settings const& saved);

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/checkpoint/batch_settings.ipp"
#endif
