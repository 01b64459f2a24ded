# SPDX-License-Identifier: Apache-2.0
# For plait's own programs in CUDA: sets PLAIT_WITHOUT_CUDA to the reason why there are none, or to "". In the second
# case it enables the language and defines plait_own_cuda_program().
set(PLAIT_CUDA AUTO CACHE STRING
  "Whether CUDA programs are built: AUTO (if plait::cuda and a CUDA compiler are found), ON or OFF")
set_property(CACHE PLAIT_CUDA PROPERTY STRINGS AUTO ON OFF)

set(plait_has_gpu FALSE)
foreach(device IN ITEMS /dev/nvidia0 /dev/nvidiactl /dev/dxg)
  if(EXISTS ${device})
    set(plait_has_gpu TRUE)
  endif()
endforeach()

set(PLAIT_WITHOUT_CUDA "")
if(NOT PLAIT_CUDA)
  set(PLAIT_WITHOUT_CUDA "PLAIT_CUDA is ${PLAIT_CUDA}")
elseif(NOT TARGET plait::cuda)
  set(PLAIT_WITHOUT_CUDA "plait::cuda was not found")
else()
  include(CheckLanguage)
  if(NOT CMAKE_CUDA_COMPILER AND CUDAToolkit_NVCC_EXECUTABLE)
    set(CMAKE_CUDA_COMPILER "${CUDAToolkit_NVCC_EXECUTABLE}")
  endif()
  if(NOT CMAKE_CUDA_HOST_COMPILER AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    set(CMAKE_CUDA_HOST_COMPILER "${CMAKE_CXX_COMPILER}" CACHE FILEPATH "C++ compiler behind nvcc")
  endif()
  check_language(CUDA)
  if(NOT CMAKE_CUDA_COMPILER)
    set(PLAIT_WITHOUT_CUDA "no CUDA compiler was found; set CMAKE_CUDA_COMPILER")
  endif()
endif()
if(PLAIT_WITHOUT_CUDA)
  if(PLAIT_CUDA AND NOT PLAIT_CUDA STREQUAL "AUTO")
    message(FATAL_ERROR "PLAIT_CUDA is ${PLAIT_CUDA}: ${PLAIT_WITHOUT_CUDA}")
  endif()
  message(STATUS "no CUDA programs: ${PLAIT_WITHOUT_CUDA}")
  return()
endif()

# Without a GPU to run on, one architecture and no optimisation suffice to check that the code compiles.
set(plait_cuda_only_compiles FALSE)
if(CMAKE_BUILD_TYPE STREQUAL "Debug" AND NOT plait_has_gpu)
  set(plait_cuda_only_compiles TRUE)
endif()
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
  if(plait_cuda_only_compiles)
    set(CMAKE_CUDA_ARCHITECTURES 90)
  else()
    set(CMAKE_CUDA_ARCHITECTURES 80 90)
  endif()
endif()
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake before 3.25.2 does not know it
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_EXTENSIONS OFF)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)

# Links a program of .cu files to plait::cuda. All warnings are errors. With OPTIMISE it is optimised even if other
# programs only have to compile. With MAY_SPILL its kernels may spill registers.
function(plait_own_cuda_program target)
  target_link_libraries(${target} PRIVATE plait::cuda)
  plait_use_runtime(${target})
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings -Xcompiler=-Wall,-Wextra,-Wconversion,-Wshadow>)
  if(plait_cuda_only_compiles AND NOT "OPTIMISE" IN_LIST ARGN)
    target_compile_options(${target} PRIVATE
      "$<$<COMPILE_LANGUAGE:CUDA>:-Xcicc=-O0;-Xptxas=-O0;-Xcompiler=-g0>")
  elseif(CMAKE_CUDA_COMPILER_VERSION MATCHES "^13[.]0" AND NOT "MAY_SPILL" IN_LIST ARGN)
    # No kernel spills a register, with the compiler and on the GPUs for which their sizes were chosen. Other local
    # memory is allowed: the sine of a large number takes a table.
    set(is_hopper "$<STREQUAL:$<TARGET_PROPERTY:CUDA_ARCHITECTURES>,90>")
    target_compile_options(${target} PRIVATE
      "$<$<AND:$<COMPILE_LANGUAGE:CUDA>,${is_hopper}>:-Xptxas=-warn-spills,-Werror>")
  endif()
endfunction()

# The one unit that includes cuDNN's front end for all of plait's own programs.
if(TARGET plait::cudnn)
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/cudnn_attention.cpp"
    CONTENT "#include \"plait/backend/cuda/attention/cudnn_attention.hpp\"\n")
  add_library(plait_own_cudnn OBJECT EXCLUDE_FROM_ALL "${PROJECT_BINARY_DIR}/cudnn_attention.cpp")
  plait_own_program(plait_own_cudnn)
  target_link_libraries(plait_own_cudnn PUBLIC plait::cudnn)
  # It only launches kernels.
  target_compile_options(plait_own_cudnn PRIVATE $<IF:$<CONFIG:Debug>,-O0,-O1>)
endif()
