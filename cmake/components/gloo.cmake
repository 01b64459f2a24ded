# SPDX-License-Identifier: Apache-2.0
# plait::gloo: ranks as processes that Gloo connects over TCP; they meet through a file or Redis, and show each
# other by OpenSSL's digests who they are.
plait_look_for(gloo hiredis crypto)
if(NOT plait_needs)
  plait_add_component(gloo gloo "${PLAIT_HIREDIS_LIBRARY}" OpenSSL::Crypto)
  target_include_directories(plait::gloo SYSTEM INTERFACE "${PLAIT_HIREDIS_INCLUDE_DIR}")
endif()
