# SPDX-License-Identifier: Apache-2.0
# Settings of plait's own tests, examples and benchmarks. They do not affect a user's targets.

# One compiler or linker at a time for each core; Ninja's default is two more.
cmake_host_system_information(RESULT plait_cores QUERY NUMBER_OF_LOGICAL_CORES)
set_property(GLOBAL APPEND PROPERTY JOB_POOLS plait_jobs=${plait_cores})
set(CMAKE_JOB_POOL_COMPILE plait_jobs)
set(CMAKE_JOB_POOL_LINK plait_jobs)

# g++ collects garbage from 128 MiB on, which takes a tenth of its time. If each compiler can have eight times as much
# memory, it begins at 512 MiB, and collects again at twice the memory that was left, not at a third more.
cmake_host_system_information(RESULT plait_memory_mib QUERY TOTAL_PHYSICAL_MEMORY)
math(EXPR plait_compiler_heap_kib "1024 * ${plait_memory_mib} / ${plait_cores} / 8")
set(plait_compiler_heap_growth 30)
if(plait_compiler_heap_kib GREATER 524288)
  set(plait_compiler_heap_kib 524288)
  set(plait_compiler_heap_growth 100)
elseif(plait_compiler_heap_kib LESS 131072)
  set(plait_compiler_heap_kib 131072)
endif()

# ccache shares compiled files between all copies of the project, in any folder.
find_program(PLAIT_CCACHE ccache DOC "ccache, for plait's own programs; empty for none")
if(PLAIT_CCACHE AND PROJECT_IS_TOP_LEVEL)
  set(plait_launcher ${CMAKE_COMMAND} -E env "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros "${PLAIT_CCACHE}")
  foreach(language IN ITEMS CXX CUDA)
    if(NOT DEFINED CMAKE_${language}_COMPILER_LAUNCHER)
      set(CMAKE_${language}_COMPILER_LAUNCHER ${plait_launcher})
    endif()
  endforeach()
endif()

# LLVM's linker takes a fifth of the time of GNU's linker, and debug builds of tests have up to 140 MB each.
find_program(PLAIT_LLD ld.lld DOC "LLVM's linker, for debug builds of plait's own programs; empty for none")
mark_as_advanced(PLAIT_LLD)

if(PLAIT_USE_BLAS AND NOT TARGET plait::blas)
  plait_find_component(blas)
  if(NOT plait_blas_FOUND AND NOT PLAIT_USE_BLAS STREQUAL AUTO)
    message(FATAL_ERROR "PLAIT_USE_BLAS is ${PLAIT_USE_BLAS}: ${plait_component_problem}")
  endif()
endif()

# Options for all of plait's own code.
# -ffold-simple-inlines: without it and without optimisation g++ would compile std::move and std::forward for each type
# and call them.
function(plait_own_options target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wconversion -Wshadow)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=${plait_compiler_heap_kib}>
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-expand=${plait_compiler_heap_growth}>
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-ffold-simple-inlines>)
  if(PLAIT_SHORT_ERRORS)
    target_compile_options(${target} PRIVATE ${plait_message_options})
  endif()
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
endfunction()

# Links `target` to plait::plait, to plait::blas if it is used and WITHOUT_BLAS is not given, and to the runtime unless
# HEADER_ONLY is given, and turns the warnings on.
function(plait_own_program target)
  target_link_libraries(${target} PRIVATE plait::plait)
  if(PLAIT_USE_BLAS AND TARGET plait::blas AND NOT "WITHOUT_BLAS" IN_LIST ARGN)
    target_link_libraries(${target} PRIVATE plait::blas)
  endif()
  if(NOT "HEADER_ONLY" IN_LIST ARGN)
    plait_use_runtime(${target})
  endif()
  plait_own_options(${target})
  if(PLAIT_LLD AND PROJECT_IS_TOP_LEVEL)
    target_link_options(${target} PRIVATE $<$<AND:$<CONFIG:Debug>,$<LINK_LANGUAGE:CXX>>:-fuse-ld=lld>)
  endif()
endfunction()

# The runtime is compiled once and every test runs it, so a little optimisation costs less than it saves.
get_property(plait_runtimes GLOBAL PROPERTY plait_runtimes)
foreach(runtime IN LISTS plait_runtimes)
  plait_own_options(${runtime})
  target_compile_options(${runtime} PRIVATE $<$<CONFIG:Debug>:-O1>)
endforeach()

# Release builds use all instructions of this processor. Kernels fuse multiply-adds themselves. The compiler would form
# further ones in one plan's code and not in another's, and plans that must agree bit for bit would not. Compilers
# prefer half of the widest vectors, with which the steps of docs/benchmarks.md take 6 % longer.
function(plait_for_this_processor target)
  if(PLAIT_NATIVE)
    target_compile_options(${target} PRIVATE
      $<$<CONFIG:Release>:-march=native> $<$<CONFIG:Release>:-ffp-contract=off>)
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
      target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-mprefer-vector-width=512>)
    endif()
  endif()
endfunction()

# Options for a program that links plait::thrust, if that is among the given libraries: Thrust itself forms null
# references, which a sanitizer would report.
function(plait_for_thrust target)
  if("plait::thrust" IN_LIST ARGN)
    target_compile_options(${target} PRIVATE -fno-sanitize=null)
  endif()
endfunction()

# A source file may have a comment `// <key>: words` among its first lines that says how to build or run it. Sets
# `found` and, as a list, `words`. CMake configures the build again when the file changes.
function(plait_read_comment file key found words)
  file(STRINGS "${file}" lines LIMIT_COUNT 5)
  list(FILTER lines INCLUDE REGEX "^// ${key}:")
  list(LENGTH lines count)
  set(text "")
  if(count GREATER 0)
    list(GET lines 0 text)
    string(REGEX REPLACE "^// ${key}: *" "" text "${text}")
    separate_arguments(text UNIX_COMMAND "${text}")
  endif()
  set(${found} ${count} PARENT_SCOPE)
  set(${words} "${text}" PARENT_SCOPE)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
endfunction()
