# SPDX-License-Identifier: Apache-2.0
# plait::blas: matrix products through CBLAS. OpenBLAS is looked for; any other library with the CBLAS
# interface can be named by -DPLAIT_CBLAS_LIBRARY=... -DPLAIT_CBLAS_INCLUDE_DIR=...
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(plait_pc_openblas QUIET openblas)
endif()
find_path(PLAIT_CBLAS_INCLUDE_DIR cblas.h
  HINTS ${plait_pc_openblas_INCLUDE_DIRS} PATH_SUFFIXES openblas
  DOC "Folder of cblas.h")
find_library(PLAIT_CBLAS_LIBRARY openblas
  HINTS ${plait_pc_openblas_LIBRARY_DIRS}
  DOC "Library with the CBLAS functions")
mark_as_advanced(PLAIT_CBLAS_INCLUDE_DIR PLAIT_CBLAS_LIBRARY)

if(PLAIT_CBLAS_INCLUDE_DIR AND PLAIT_CBLAS_LIBRARY)
  # Only OpenBLAS can be told how many threads to use, which plait does around its calls.
  include(CheckCXXSourceCompiles)
  include(CMakePushCheckState)
  cmake_push_check_state(RESET)
  set(CMAKE_REQUIRED_QUIET ON)
  set(CMAKE_REQUIRED_INCLUDES "${PLAIT_CBLAS_INCLUDE_DIR}")
  set(CMAKE_REQUIRED_LIBRARIES "${PLAIT_CBLAS_LIBRARY}")
  check_cxx_source_compiles("#include <cblas.h>
    int main() { openblas_set_num_threads(1); }" PLAIT_CBLAS_IS_OPENBLAS)
  cmake_pop_check_state()

  plait_add_component(blas "${PLAIT_CBLAS_LIBRARY}")
  target_include_directories(plait::blas SYSTEM INTERFACE "${PLAIT_CBLAS_INCLUDE_DIR}")
  target_compile_definitions(plait::blas INTERFACE
    PLAIT_USE_CBLAS=1 $<$<BOOL:${PLAIT_CBLAS_IS_OPENBLAS}>:PLAIT_USE_OPENBLAS=1>)
else()
  set(plait_needs "OpenBLAS with cblas.h (Debian: libopenblas-dev)")
endif()
