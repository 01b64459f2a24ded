# SPDX-License-Identifier: Apache-2.0
# plait::safetensors: reading and writing safetensors files, whose header is JSON.
if(NOT TARGET nlohmann_json::nlohmann_json)
  find_package(nlohmann_json 3.9 QUIET)
endif()
if(TARGET nlohmann_json::nlohmann_json)
  plait_add_component(safetensors nlohmann_json::nlohmann_json)
else()
  set(plait_needs "nlohmann_json 3.9 or newer (Debian: nlohmann-json3-dev)")
endif()
