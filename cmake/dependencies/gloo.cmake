# SPDX-License-Identifier: Apache-2.0
if(NOT TARGET gloo)
  find_package(Gloo QUIET)
endif()
set(plait_needs "Gloo (Debian: libgloo-dev)")
if(TARGET gloo)
  plait_try_dependency(gloo "#include <gloo/transport/tcp/context.h>
    #include <gloo/transport/tcp/device.h>
    #include <gloo/transport/tcp/pair.h>
    using namespace gloo::transport::tcp;
    struct own_pair : Pair {  // plait gives Gloo its sockets
      own_pair(Context* context, Device* device) : Pair(context, device, 0, {}) {}
      int socket() { return state_ == CONNECTED ? fd_ : -1; }
    };
    int main() { return own_pair(nullptr, nullptr).socket() == 0 || CreateDevice(attr()) == nullptr; }"
    LIBRARIES gloo INCLUDES "${plait_include_dir}")
endif()
