# SPDX-License-Identifier: Apache-2.0
# plait::checkpoint: folders of safetensors files with a manifest, whose parts carry CRC-32 sums.
plait_find_component(safetensors)
include("${CMAKE_CURRENT_LIST_DIR}/isal.cmake")
if(TARGET plait::safetensors AND PLAIT_ISAL_INCLUDE_DIR AND PLAIT_ISAL_LIBRARY)
  plait_add_component(checkpoint plait::safetensors "${PLAIT_ISAL_LIBRARY}")
  target_include_directories(plait::checkpoint SYSTEM INTERFACE "${PLAIT_ISAL_INCLUDE_DIR}")
else()
  set(plait_needs
    "nlohmann_json 3.9 or newer and ISA-L (Debian: nlohmann-json3-dev and libisal-dev)")
endif()
