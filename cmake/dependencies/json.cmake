# SPDX-License-Identifier: Apache-2.0
if(NOT TARGET nlohmann_json::nlohmann_json)
  find_package(nlohmann_json 3.9 QUIET)
endif()
set(plait_needs "nlohmann_json 3.9 or newer (Debian: nlohmann-json3-dev)")
if(TARGET nlohmann_json::nlohmann_json)
  plait_try_dependency(json "#if !__has_include(<nlohmann/json.hpp>)
    #error nlohmann/json.hpp is not there
    #endif
    int main() {}"
    LIBRARIES nlohmann_json::nlohmann_json)
endif()
