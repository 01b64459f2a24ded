// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/testing/communicator_errors.hpp"

#include "plait/backend/communicator.hpp"

namespace plait::testing::detail {

PLAIT_DECL bool is_message(mistake which) {
  return which == mistake::tag || which == mistake::size_of_message ||
         which == mistake::element_of_message || which == mistake::trainer_of_message;
}

PLAIT_DECL std::string fault_of(communicator_error const& expected, std::exception const& thrown) {
  std::string const text = thrown.what();
  bool const right_type = expected.type == thrown_type::input_error
                              ? dynamic_cast<input_error const*>(&thrown) != nullptr
                          : expected.type == thrown_type::size_mismatch
                              ? dynamic_cast<size_mismatch const*>(&thrown) != nullptr
                              : dynamic_cast<collective_mismatch const*>(&thrown) != nullptr;
  std::array<char const*, 3> const types{"collective_mismatch", "size_mismatch", "input_error"};
  if (!right_type)
    return ext::concat({"expected ", types[static_cast<std::size_t>(expected.type)],
                        ", got another type with the text '", text, "'"});
  for (char const* const word : expected.words)
    if (text.find(word) == std::string::npos)
      return ext::concat({"the text does not contain '", word, "': '", text, "'"});
  return {};
}

PLAIT_DECL communicator_error const& communicator_error_at(int which) {
  if (which < 0 || which >= communicator_error_count)
    throw input_error({"communicator error ", which,
                       ": there is no such number; the numbers are 0 to ",
                       communicator_error_count - 1});
  return communicator_errors[which];
}

}  // namespace plait::testing::detail
