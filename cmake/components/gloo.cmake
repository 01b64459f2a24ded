# SPDX-License-Identifier: Apache-2.0
# plait::gloo: ranks as processes that Gloo connects over TCP; they meet in a folder, and prove their identity to each
# other by OpenSSL's hashes.
plait_look_for(gloo crypto)
if(NOT plait_needs)
  plait_add_component(gloo gloo OpenSSL::Crypto)
endif()
