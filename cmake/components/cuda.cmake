# SPDX-License-Identifier: Apache-2.0
# plait::cuda: ranks on NVIDIA GPUs. nvcc compiles programs that link it. CMake looks for NCCL next to the CUDA
# toolkit, or under -DNCCL_ROOT=...
find_package(CUDAToolkit 12.4 QUIET)
set(plait_cuda_lacks "")
set(plait_cuda_BUILDS FALSE)
if(NOT CUDAToolkit_FOUND)
  list(APPEND plait_cuda_lacks "the CUDA toolkit 12.4 or newer")
else()
  if(NOT TARGET CUDA::cublasLt)
    list(APPEND plait_cuda_lacks "cuBLASLt (of the CUDA toolkit)")
  endif()
  # nvcc finds these headers by itself.
  find_path(PLAIT_CUB_INCLUDE_DIR cub/device/device_radix_sort.cuh
    PATHS ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES cccl NO_DEFAULT_PATH
    DOC "Folder with cub/device/device_radix_sort.cuh")
  find_path(PLAIT_NVTX_INCLUDE_DIR nvtx3/nvToolsExt.h
    HINTS ${CUDAToolkit_INCLUDE_DIRS} DOC "Folder with nvtx3/nvToolsExt.h")
  find_path(PLAIT_NCCL_INCLUDE_DIR nccl.h
    HINTS ${NCCL_ROOT} ENV NCCL_ROOT ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include
    DOC "Folder of nccl.h")
  find_library(PLAIT_NCCL_LIBRARY nccl
    HINTS ${NCCL_ROOT} ENV NCCL_ROOT ${CUDAToolkit_LIBRARY_DIR} PATH_SUFFIXES lib lib64
    DOC "Library NCCL")
  mark_as_advanced(
    PLAIT_CUB_INCLUDE_DIR PLAIT_NVTX_INCLUDE_DIR PLAIT_NCCL_INCLUDE_DIR PLAIT_NCCL_LIBRARY)
  if(NOT PLAIT_CUB_INCLUDE_DIR)
    list(APPEND plait_cuda_lacks "CUB (of the CUDA toolkit)")
  endif()
  if(NOT PLAIT_NVTX_INCLUDE_DIR)
    list(APPEND plait_cuda_lacks "NVTX 3 (of the CUDA toolkit)")
  endif()
  if(NOT PLAIT_NCCL_INCLUDE_DIR OR NOT PLAIT_NCCL_LIBRARY)
    list(APPEND plait_cuda_lacks "NCCL 2.19 or newer (Debian: libnccl-dev of NVIDIA, or -DNCCL_ROOT=...)")
  else()
    file(STRINGS "${PLAIT_NCCL_INCLUDE_DIR}/nccl.h" plait_nccl_version
      REGEX "^#define NCCL_(MAJOR|MINOR) [0-9]+")
    list(TRANSFORM plait_nccl_version REPLACE "^#define NCCL_[A-Z]+ ([0-9]+).*$" "\\1")
    list(JOIN plait_nccl_version "." plait_nccl_version)
    if(plait_nccl_version VERSION_LESS 2.19)
      list(APPEND plait_cuda_lacks
        "NCCL 2.19 or newer (${PLAIT_NCCL_INCLUDE_DIR}/nccl.h is ${plait_nccl_version})")
    endif()
  endif()
endif()

list(JOIN plait_cuda_lacks " and " plait_needs)
if(NOT plait_cuda_lacks)
  set(plait_needs "the CUDA toolkit 12.4 or newer and NCCL 2.19 or newer")
  plait_try_dependency(cuda "#include <cublasLt.h>
    #include <cuda_runtime.h>
    #include <nccl.h>
    int main() {
      int version = 0;
      return int(cudaRuntimeGetVersion(&version)) + int(ncclGetVersion(&version)) + int(cublasLtGetVersion());
    }"
    LIBRARIES CUDA::cudart CUDA::cublasLt "${PLAIT_NCCL_LIBRARY}" ${CMAKE_DL_LIBS}
    INCLUDES "${PLAIT_NCCL_INCLUDE_DIR}")
endif()
if(plait_cuda_BUILDS)
  plait_add_component(cuda CUDA::cudart CUDA::cublasLt "${PLAIT_NCCL_LIBRARY}" ${CMAKE_DL_LIBS})
  target_include_directories(plait::cuda SYSTEM INTERFACE
    "${PLAIT_NVTX_INCLUDE_DIR}" "${PLAIT_NCCL_INCLUDE_DIR}")
endif()
