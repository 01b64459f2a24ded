# SPDX-License-Identifier: Apache-2.0
if(NOT TARGET protobuf::libprotobuf)
  find_package(Protobuf QUIET)
endif()
set(plait_needs "Protocol Buffers (Debian: libprotobuf-dev)")
if(TARGET protobuf::libprotobuf)
  plait_try_dependency(protobuf "#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
    int main() { google::protobuf::io::ArrayInputStream stream(nullptr, 0); }"
    LIBRARIES protobuf::libprotobuf)
endif()
