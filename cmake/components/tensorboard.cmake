# SPDX-License-Identifier: Apache-2.0
# plait::tensorboard: event files, which are protocol buffers with CRC-32C sums.
if(NOT TARGET protobuf::libprotobuf)
  find_package(Protobuf QUIET)
endif()
include("${CMAKE_CURRENT_LIST_DIR}/isal.cmake")
if(TARGET protobuf::libprotobuf AND PLAIT_ISAL_INCLUDE_DIR AND PLAIT_ISAL_LIBRARY)
  plait_add_component(tensorboard protobuf::libprotobuf "${PLAIT_ISAL_LIBRARY}")
  target_include_directories(plait::tensorboard SYSTEM INTERFACE "${PLAIT_ISAL_INCLUDE_DIR}")
else()
  set(plait_needs
    "Protocol Buffers and ISA-L (Debian: libprotobuf-dev and libisal-dev)")
endif()
