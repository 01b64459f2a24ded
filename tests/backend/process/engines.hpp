// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>

#include "plait/backend/process/process_engine.hpp"

// The engines that a test program was linked with, by name. One source includes the headers of
// each.
namespace plait_test {

using make_engine = std::shared_ptr<plait::ext::process_engine> (*)();

inline std::map<std::string, make_engine>& engines() {
  static std::map<std::string, make_engine> all;
  return all;
}

}  // namespace plait_test
