# SPDX-License-Identifier: Apache-2.0
# plait::gloo: ranks as processes that Gloo connects over TCP; they meet through a file or Redis.
if(NOT TARGET gloo)
  find_package(Gloo QUIET)
endif()
find_path(PLAIT_HIREDIS_INCLUDE_DIR hiredis.h PATH_SUFFIXES hiredis DOC "Folder of hiredis.h")
find_library(PLAIT_HIREDIS_LIBRARY hiredis DOC "Library of hiredis")
mark_as_advanced(PLAIT_HIREDIS_INCLUDE_DIR PLAIT_HIREDIS_LIBRARY)
if(TARGET gloo AND PLAIT_HIREDIS_INCLUDE_DIR AND PLAIT_HIREDIS_LIBRARY)
  plait_add_component(gloo gloo "${PLAIT_HIREDIS_LIBRARY}")
  target_include_directories(plait::gloo SYSTEM INTERFACE "${PLAIT_HIREDIS_INCLUDE_DIR}")
else()
  set(plait_needs "Gloo and hiredis (Debian: libgloo-dev and libhiredis-dev)")
endif()
