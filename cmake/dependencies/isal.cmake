# SPDX-License-Identifier: Apache-2.0
# ISA-L computes checksums.
find_path(PLAIT_ISAL_INCLUDE_DIR isa-l/crc.h DOC "Folder of isa-l/crc.h")
find_library(PLAIT_ISAL_LIBRARY isal DOC "Library of ISA-L")
mark_as_advanced(PLAIT_ISAL_INCLUDE_DIR PLAIT_ISAL_LIBRARY)
set(plait_needs "ISA-L (Debian: libisal-dev)")
if(PLAIT_ISAL_INCLUDE_DIR AND PLAIT_ISAL_LIBRARY)
  plait_try_dependency(isal "#include <isa-l/crc.h>
    int main() { return crc32_gzip_refl(0, nullptr, 0) != 0; }"
    LIBRARIES "${PLAIT_ISAL_LIBRARY}" INCLUDES "${PLAIT_ISAL_INCLUDE_DIR}")
endif()
