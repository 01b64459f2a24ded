# SPDX-License-Identifier: Apache-2.0
# plait::thrust: the algorithms of Thrust on the processor, in units that no CUDA compiler reads; see
# plait/backend/cuda/thrust.hpp. CMake looks for the headers in the CUDA toolkit, which has them under the name CCCL,
# or under -DCCCL_ROOT=... (nvcc finds its own headers, and needs none of this.)
find_package(CUDAToolkit 12.4 QUIET)
find_path(PLAIT_THRUST_INCLUDE_DIR thrust/execution_policy.h
  PATHS ${CCCL_ROOT} ENV CCCL_ROOT ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES cccl include/cccl include
  NO_DEFAULT_PATH DOC "Folder with thrust/execution_policy.h")
mark_as_advanced(PLAIT_THRUST_INCLUDE_DIR)

set(plait_needs "Thrust (of the CUDA toolkit 12.4 or newer, or -DCCCL_ROOT=...)")
set(plait_thrust_BUILDS FALSE)
if(PLAIT_THRUST_INCLUDE_DIR)
  plait_try_dependency(thrust "#define THRUST_DEVICE_SYSTEM THRUST_DEVICE_SYSTEM_CPP
    #include <thrust/version.h>
    int main() { return THRUST_VERSION == 0; }"
    INCLUDES "${PLAIT_THRUST_INCLUDE_DIR}")
endif()
if(plait_thrust_BUILDS)
  plait_add_component(thrust)
  target_include_directories(plait::thrust SYSTEM INTERFACE
    "$<$<COMPILE_LANGUAGE:CXX>:${PLAIT_THRUST_INCLUDE_DIR}>")
  target_compile_definitions(plait::thrust INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:THRUST_DEVICE_SYSTEM=THRUST_DEVICE_SYSTEM_CPP>)
endif()
