# SPDX-License-Identifier: Apache-2.0
# plait::gloo: ranks as processes that Gloo connects over TCP; they meet in a folder, and show each other by
# OpenSSL's digests who they are.
plait_look_for(gloo crypto)
if(NOT plait_needs)
  plait_add_component(gloo gloo OpenSSL::Crypto)
endif()
