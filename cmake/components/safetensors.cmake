# SPDX-License-Identifier: Apache-2.0
# plait::safetensors: reading and writing safetensors files, whose header is JSON.
plait_look_for(json)
if(NOT plait_needs)
  plait_add_component(safetensors nlohmann_json::nlohmann_json)
endif()
