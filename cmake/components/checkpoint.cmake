# SPDX-License-Identifier: Apache-2.0
# plait::checkpoint: folders of safetensors files with a manifest, whose parts carry CRC-32 sums.
plait_look_for(json isal)
if(NOT plait_needs)
  plait_find_component(safetensors)
  plait_add_component(checkpoint plait::safetensors "${PLAIT_ISAL_LIBRARY}")
  target_include_directories(plait::checkpoint SYSTEM INTERFACE "${PLAIT_ISAL_INCLUDE_DIR}")
endif()
