// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/process/process_engine.hpp"

#include "plait/core/concat.hpp"
#include "plait/mesh/ranks_text.hpp"

namespace plait::ext {

PLAIT_DECL std::string process_group::call_text(char const* function) const {
  return concat(
      {member_text(names_.member), ": ",
       (call_ != nullptr ? detail::call_text(*call_, names_.ranks)
                         : concat({function, " on group ", ranks_in_braces(names_.ranks)})),
       (names_.axes.empty() ? "" : concat({" (", names_.axes, ")"}))});
}

PLAIT_DECL std::string process_group::member_text(int member) const {
  auto const at = static_cast<std::size_t>(member);
  return concat({"rank ", names_.ranks[at],
                 (names_.hosts.empty() ? "" : concat({" on host ", names_.hosts[at]}))});
}

}  // namespace plait::ext
