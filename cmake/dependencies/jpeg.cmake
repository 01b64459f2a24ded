# SPDX-License-Identifier: Apache-2.0
# libjpeg-turbo: the interface of libjpeg, and its functions for memory.
if(NOT TARGET JPEG::JPEG)
  find_package(JPEG QUIET)
endif()
set(plait_needs "libjpeg-turbo (Debian: libjpeg62-turbo-dev)")
if(TARGET JPEG::JPEG)
  plait_try_dependency(jpeg "#include <cstdio>
    #include <jpeglib.h>
    #include <jerror.h>
    int main() { jpeg_decompress_struct state{}; unsigned char const byte = 0; jpeg_mem_src(&state, &byte, 1); }"
    LIBRARIES JPEG::JPEG)
endif()
