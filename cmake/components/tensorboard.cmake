# SPDX-License-Identifier: Apache-2.0
# plait::tensorboard: event files, which are protocol buffers with CRC-32C sums.
plait_look_for(protobuf isal)
if(NOT plait_needs)
  plait_add_component(tensorboard protobuf::libprotobuf "${PLAIT_ISAL_LIBRARY}")
  target_include_directories(plait::tensorboard SYSTEM INTERFACE "${PLAIT_ISAL_INCLUDE_DIR}")
endif()
