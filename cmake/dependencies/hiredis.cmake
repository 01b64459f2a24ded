# SPDX-License-Identifier: Apache-2.0
# The client of Redis.
find_path(PLAIT_HIREDIS_INCLUDE_DIR hiredis.h PATH_SUFFIXES hiredis DOC "Folder of hiredis.h")
find_library(PLAIT_HIREDIS_LIBRARY hiredis DOC "Library of hiredis")
mark_as_advanced(PLAIT_HIREDIS_INCLUDE_DIR PLAIT_HIREDIS_LIBRARY)
set(plait_needs "hiredis (Debian: libhiredis-dev)")
if(PLAIT_HIREDIS_INCLUDE_DIR AND PLAIT_HIREDIS_LIBRARY)
  plait_try_dependency(hiredis "#include <hiredis.h>
    int main() { redisFree(nullptr); }"
    LIBRARIES "${PLAIT_HIREDIS_LIBRARY}" INCLUDES "${PLAIT_HIREDIS_INCLUDE_DIR}")
endif()
