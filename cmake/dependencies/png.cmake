# SPDX-License-Identifier: Apache-2.0
if(NOT TARGET PNG::PNG)
  find_package(PNG QUIET)
endif()
set(plait_needs "libpng (Debian: libpng-dev)")
if(TARGET PNG::PNG)
  plait_try_dependency(png "#include <png.h>
    int main() { return png_access_version_number() == 0; }"
    LIBRARIES PNG::PNG)
endif()
