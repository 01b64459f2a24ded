# SPDX-License-Identifier: Apache-2.0
# plait::cudnn: attention by cuDNN on GPUs, see plait/backend/cuda/attention/cudnn_attention.hpp. CMake looks for cuDNN
# next to the CUDA toolkit, or under -DCUDNN_ROOT=...; for the headers of its front end also where pip installs them,
# or in -DPLAIT_CUDNN_FRONTEND_INCLUDE_DIR=...
plait_find_component(cuda)

# Sets `result` to the "major.minor" that a header defines, or to "" if there is no such header.
macro(plait_read_version header name result)
  set(${result} "")
  if(EXISTS "${header}")
    file(STRINGS "${header}" ${result} REGEX "^#define ${name} [0-9]+")
    list(TRANSFORM ${result} REPLACE "^#define [A-Z_]+ ([0-9]+).*$" "\\1")
    list(JOIN ${result} "." ${result})
  endif()
endmacro()

set(plait_cudnn_lacks "")
set(plait_cudnn_BUILDS FALSE)
if(NOT TARGET plait::cuda)
  list(APPEND plait_cudnn_lacks "plait::cuda, that is ${plait_needs}")
else()
  if(NOT TARGET CUDA::nvrtc)
    list(APPEND plait_cudnn_lacks "NVRTC (of the CUDA toolkit)")
  endif()

  find_path(PLAIT_CUDNN_INCLUDE_DIR cudnn.h
    HINTS ${CUDNN_ROOT} ENV CUDNN_ROOT ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include
    DOC "Folder of cudnn.h")
  find_library(PLAIT_CUDNN_LIBRARY NAMES cudnn libcudnn.so.9
    HINTS ${CUDNN_ROOT} ENV CUDNN_ROOT ${CUDAToolkit_LIBRARY_DIR} PATH_SUFFIXES lib lib64
    DOC "Library cuDNN")
  plait_read_version("${PLAIT_CUDNN_INCLUDE_DIR}/cudnn_version.h" "CUDNN_(MAJOR|MINOR)" plait_version)
  if(NOT PLAIT_CUDNN_LIBRARY OR NOT plait_version VERSION_GREATER_EQUAL 9.11)
    list(APPEND plait_cudnn_lacks "cuDNN 9.11 or newer (of NVIDIA, or -DCUDNN_ROOT=...)")
  endif()

  if(NOT PLAIT_CUDNN_FRONTEND_INCLUDE_DIR)
    execute_process(COMMAND python3 -c "import sysconfig; print(sysconfig.get_path('purelib'))"
      OUTPUT_VARIABLE plait_site_packages OUTPUT_STRIP_TRAILING_WHITESPACE
      ERROR_QUIET RESULT_VARIABLE plait_no_python)
  endif()
  find_path(PLAIT_CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend.h
    HINTS "${plait_site_packages}/include" DOC "Folder of cudnn_frontend.h")
  plait_read_version("${PLAIT_CUDNN_FRONTEND_INCLUDE_DIR}/cudnn_frontend_version.h"
    "CUDNN_FRONTEND_(MAJOR|MINOR)_VERSION" plait_version)
  if(NOT plait_version VERSION_GREATER_EQUAL 1.22)
    list(APPEND plait_cudnn_lacks "the headers of cudnn-frontend 1.22 or newer (pip: \
nvidia-cudnn-frontend, or -DPLAIT_CUDNN_FRONTEND_INCLUDE_DIR=...)")
  endif()
  mark_as_advanced(PLAIT_CUDNN_INCLUDE_DIR PLAIT_CUDNN_LIBRARY PLAIT_CUDNN_FRONTEND_INCLUDE_DIR)
endif()

list(JOIN plait_cudnn_lacks " and " plait_needs)
if(NOT plait_cudnn_lacks)
  set(plait_needs "cuDNN 9.11 or newer (of NVIDIA, or -DCUDNN_ROOT=...)")
  plait_try_dependency(cudnn "#include <cudnn.h>
    int main() { return cudnnGetVersion() == 0; }"
    LIBRARIES "${PLAIT_CUDNN_LIBRARY}" INCLUDES "${PLAIT_CUDNN_INCLUDE_DIR}" ${CUDAToolkit_INCLUDE_DIRS})
endif()
if(plait_cudnn_BUILDS)
  plait_add_component(cudnn plait::cuda "${PLAIT_CUDNN_LIBRARY}" CUDA::nvrtc)
  target_include_directories(plait::cudnn SYSTEM INTERFACE
    "${PLAIT_CUDNN_FRONTEND_INCLUDE_DIR}" "${PLAIT_CUDNN_INCLUDE_DIR}" ${CUDAToolkit_INCLUDE_DIRS})
  # Without its JSON the front end compiles in half the time. All units of a program must agree.
  target_compile_definitions(plait::cudnn INTERFACE CUDNN_FRONTEND_SKIP_JSON_LIB)
endif()
