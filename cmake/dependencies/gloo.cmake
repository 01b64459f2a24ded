# SPDX-License-Identifier: Apache-2.0
if(NOT TARGET gloo)
  find_package(Gloo QUIET)
endif()
set(plait_needs "Gloo (Debian: libgloo-dev)")
if(TARGET gloo)
  plait_try_dependency(gloo "#include <gloo/transport/tcp/device.h>
    int main() { return gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr()) == nullptr; }"
    LIBRARIES gloo)
endif()
