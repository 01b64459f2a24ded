# SPDX-License-Identifier: Apache-2.0
# plait::blas: matrix products through a library with the CBLAS interface. PLAIT_BLAS selects it: OpenBLAS (the
# default), MKL or BLIS. Name any other library by its two files, -DPLAIT_CBLAS_LIBRARY=...
# -DPLAIT_CBLAS_INCLUDE_DIR=...; plait cannot set the threads of such a library.
if(NOT DEFINED PLAIT_BLAS)
  set(PLAIT_BLAS OpenBLAS CACHE STRING "Library of matrix products of plait::blas: OpenBLAS, MKL or BLIS")
  set_property(CACHE PLAIT_BLAS PROPERTY STRINGS OpenBLAS MKL BLIS)
endif()

# Sets the folder of the header, the library and the package to ask for, for the library `name`. CMake looks for MKL in
# MKLROOT, or in a Python environment whose prefix CMAKE_PREFIX_PATH names (PyPI: mkl, mkl-include).
function(plait_find_blas name include_dir library needs)
  string(TOLOWER "${name}" package)
  find_package(PkgConfig QUIET)
  if(PkgConfig_FOUND AND NOT name STREQUAL MKL)
    pkg_check_modules(plait_pc_${package} QUIET ${package})
  endif()
  if(name STREQUAL OpenBLAS)
    find_path(${include_dir} cblas.h HINTS ${plait_pc_openblas_INCLUDE_DIRS} PATH_SUFFIXES openblas)
    find_library(${library} openblas HINTS ${plait_pc_openblas_LIBRARY_DIRS})
    set(${needs} "OpenBLAS with cblas.h (Debian: libopenblas-dev)" PARENT_SCOPE)
  elseif(name STREQUAL BLIS)
    find_path(${include_dir} cblas.h HINTS ${plait_pc_blis_INCLUDE_DIRS} NO_DEFAULT_PATH)
    find_path(${include_dir} cblas.h PATH_SUFFIXES blis blis-pthread blis-openmp blis-serial NO_DEFAULT_PATH
      PATHS /usr/include /usr/local/include /usr/include/${CMAKE_LIBRARY_ARCHITECTURE})
    find_library(${library} blis HINTS ${plait_pc_blis_LIBRARY_DIRS}
      PATH_SUFFIXES blis-pthread blis-openmp blis-serial)
    set(${needs} "BLIS with cblas.h (Debian: libblis-dev)" PARENT_SCOPE)
  elseif(name STREQUAL MKL)
    find_path(${include_dir} mkl_cblas.h HINTS ENV MKLROOT PATH_SUFFIXES include)
    find_library(${library} NAMES mkl_rt libmkl_rt.so.3 libmkl_rt.so.2 HINTS ENV MKLROOT PATH_SUFFIXES lib lib/intel64)
    set(${needs} "MKL with mkl_cblas.h (PyPI: mkl, mkl-include; name their prefix by MKLROOT)" PARENT_SCOPE)
  else()
    set(${needs} "PLAIT_BLAS to be OpenBLAS, MKL or BLIS; it is '${name}'" PARENT_SCOPE)
  endif()
endfunction()

# Definitions for units that use the library `name`.
function(plait_blas_definitions name definitions)
  string(TOUPPER "${name}" upper)
  set(${definitions} PLAIT_USE_CBLAS=1 PLAIT_USE_${upper}=1 PARENT_SCOPE)
endfunction()

if(DEFINED PLAIT_BLAS_BEFORE AND NOT PLAIT_BLAS STREQUAL PLAIT_BLAS_BEFORE)
  unset(PLAIT_CBLAS_INCLUDE_DIR CACHE)
  unset(PLAIT_CBLAS_LIBRARY CACHE)
endif()
set(PLAIT_BLAS_BEFORE "${PLAIT_BLAS}" CACHE INTERNAL "")
plait_find_blas(${PLAIT_BLAS} PLAIT_CBLAS_INCLUDE_DIR PLAIT_CBLAS_LIBRARY plait_needs)
mark_as_advanced(PLAIT_CBLAS_INCLUDE_DIR PLAIT_CBLAS_LIBRARY)

if(PLAIT_CBLAS_INCLUDE_DIR AND PLAIT_CBLAS_LIBRARY)
  set(plait_header cblas.h)
  if(PLAIT_BLAS STREQUAL MKL)
    set(plait_header mkl_cblas.h)
  endif()
  set(plait_files LIBRARIES "${PLAIT_CBLAS_LIBRARY}" INCLUDES "${PLAIT_CBLAS_INCLUDE_DIR}")
  plait_try_dependency(blas "#include <${plait_header}>
    int main() { return cblas_ddot(0, nullptr, 1, nullptr, 1) != 0; }" ${plait_files})
  if(plait_blas_BUILDS)
    plait_blas_definitions(${PLAIT_BLAS} plait_definitions)
    if(PLAIT_BLAS STREQUAL OpenBLAS)  # or the library that was named instead
      plait_try_dependency(openblas "#include <cblas.h>
        int main() { openblas_set_num_threads(1); }" ${plait_files})
      if(NOT plait_openblas_BUILDS)
        set(plait_definitions PLAIT_USE_CBLAS=1)
      endif()
    endif()
    plait_add_component(blas "${PLAIT_CBLAS_LIBRARY}")
    target_include_directories(plait::blas SYSTEM INTERFACE "${PLAIT_CBLAS_INCLUDE_DIR}")
    target_compile_definitions(plait::blas INTERFACE ${plait_definitions})
  endif()
endif()
