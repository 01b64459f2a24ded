# SPDX-License-Identifier: Apache-2.0
# No component: where plait::tensorboard and plait::checkpoint look for ISA-L, which computes checksums.
find_path(PLAIT_ISAL_INCLUDE_DIR isa-l/crc.h DOC "Folder of isa-l/crc.h")
find_library(PLAIT_ISAL_LIBRARY isal DOC "Library of ISA-L")
mark_as_advanced(PLAIT_ISAL_INCLUDE_DIR PLAIT_ISAL_LIBRARY)
