# SPDX-License-Identifier: Apache-2.0
# plait::gloo: ranks as processes that Gloo connects over TCP; they meet through a file or Redis, and show each
# other by OpenSSL's digests who they are.
plait_look_for(gloo hiredis crypto)
if(NOT plait_needs)
  plait_add_component(gloo gloo "${PLAIT_HIREDIS_LIBRARY}" OpenSSL::Crypto)
  target_include_directories(plait::gloo SYSTEM INTERFACE "${PLAIT_HIREDIS_INCLUDE_DIR}")
  plait_look_for(ssl)  # without it rediss:// is refused
  if(NOT plait_needs)
    target_link_libraries(plait::gloo INTERFACE OpenSSL::SSL)
    target_compile_definitions(plait::gloo INTERFACE PLAIT_USE_REDIS_TLS=1)
  endif()
  set(plait_needs "")
endif()
