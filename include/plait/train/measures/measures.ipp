// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/train/measures/measures.hpp"

namespace plait::detail {

PLAIT_DECL std::size_t class_of(std::span<std::int32_t const> label, std::size_t outputs,
                                char const* measure) {
  if (label[0] < 0 || static_cast<std::size_t>(label[0]) >= outputs)
    throw input_error({measure, ": a row has the class ", label[0], ", but the model has only ",
                       outputs, " outputs"});
  return static_cast<std::size_t>(label[0]);
}

}  // namespace plait::detail
