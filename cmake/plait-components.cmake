# SPDX-License-Identifier: Apache-2.0
# The optional components of plait: one component = one outside dependency = one target plait::<name>.
# plait's own build and the installed package read this file, so a component is declared once.
#
# To add a component, add its name here, its headers below, and components/<name>.cmake next to this file. That file
# finds its dependencies by plait_look_for() and calls plait_add_component() unless plait_needs names a missing one.
# dependencies/<name>.cmake looks for one dependency and builds a line with it by plait_try_dependency(). It tests what
# was *found*, because a find module that found nothing may still define its target.
set(plait_components blas safetensors checkpoint images tensorboard mpi gloo elastic cuda cudnn thrust doctor machine)

# Headers that only a program linking the component may include: a file or a folder, relative to include/plait. The
# last entry that fits counts. A component without an entry adds no headers.
set(plait_headers_of_safetensors data/tensor_table.hpp io/json.hpp io/safetensors.hpp
  io/safetensors_header.hpp io/sharding_info.hpp)
set(plait_headers_of_checkpoint checkpoint/)
set(plait_headers_of_images data/images/)
set(plait_headers_of_tensorboard observe/tensorboard_log.hpp)
set(plait_headers_of_mpi backend/mpi/)
set(plait_headers_of_gloo backend/gloo/)
set(plait_headers_of_elastic elastic/)
set(plait_headers_of_cuda backend/cuda/)
set(plait_headers_of_thrust backend/cuda/thrust.hpp)
set(plait_headers_of_doctor doctor/)
set(plait_headers_of_machine doctor/compare_machines.hpp doctor/machine.hpp doctor/machine_costs.hpp
  doctor/machine_fields.hpp doctor/machine_file.hpp doctor/machine_rules.hpp)

# Components whose headers the headers of a component may include; its target links their targets.
set(plait_components_of_checkpoint safetensors)
set(plait_components_of_machine safetensors)
set(plait_components_of_doctor machine)

# Headers that exactly one unit of a program includes: they define functions that are not inline.
set(plait_unit_headers backend/cuda/attention/cudnn_attention.hpp)

# Matches the path of every header that belongs to a component.
set(plait_component_header_regex "")
foreach(plait_name IN LISTS plait_components)
  list(APPEND plait_component_header_regex ${plait_headers_of_${plait_name}})
endforeach()
list(TRANSFORM plait_component_header_regex REPLACE "\\." "[.]")
list(JOIN plait_component_header_regex "|" plait_component_header_regex)
set(plait_component_header_regex "/plait/(${plait_component_header_regex})")

set(plait_components_dir "${CMAKE_CURRENT_LIST_DIR}/components")
set(plait_dependencies_dir "${CMAKE_CURRENT_LIST_DIR}/dependencies")

# Makes the target plait::<name> and sets plait_<name>_FOUND. If it cannot, plait_component_problem has the reason in
# one sentence.
macro(plait_find_component name)
  if(NOT "${name}" IN_LIST plait_components)
    list(JOIN plait_components ", " plait_known)
    set(plait_component_problem
      "plait has no component '${name}'; its components are: ${plait_known}")
  elseif(NOT TARGET plait::${name})
    set(plait_needs "")
    include("${plait_components_dir}/${name}.cmake")
    set(plait_component_problem "plait::${name}: not available, it needs ${plait_needs}")
  endif()
  if(TARGET plait::${name})
    set(plait_${name}_FOUND TRUE)
  else()
    set(plait_${name}_FOUND FALSE)
  endif()
endmacro()

# Looks for outside dependencies, each in dependencies/<name>.cmake, and sets plait_needs to the missing ones, or to ""
# if there are none.
macro(plait_look_for)
  set(plait_lacks "")
  foreach(plait_dependency IN ITEMS ${ARGN})
    set(plait_${plait_dependency}_BUILDS FALSE)
    include("${plait_dependencies_dir}/${plait_dependency}.cmake")
    if(NOT plait_${plait_dependency}_BUILDS)
      list(APPEND plait_lacks "${plait_needs}")
    endif()
  endforeach()
  list(JOIN plait_lacks " and " plait_needs)
endmacro()

# Compiles and links `code` with the libraries (files or targets) and include folders of a dependency that was
# found, once for each set of them. Sets plait_<name>_BUILDS. If that fails, plait_needs has the reason, and the next
# run of CMake tries again. A library that the same build makes cannot be tried in advance, and counts as working.
function(plait_try_dependency name code)
  cmake_parse_arguments(PARSE_ARGV 2 dependency "" "" "LIBRARIES;INCLUDES")
  set(plait_${name}_BUILDS TRUE PARENT_SCOPE)
  foreach(library IN LISTS dependency_LIBRARIES)
    if(TARGET ${library})
      get_target_property(imported ${library} IMPORTED)
      if(NOT imported)
        return()
      endif()
    endif()
  endforeach()
  string(SHA256 tried "${CMAKE_CXX_COMPILER};${dependency_LIBRARIES};${dependency_INCLUDES};${code}")
  if(plait_tried_${name} STREQUAL tried)
    return()
  endif()

  set(folder "${CMAKE_BINARY_DIR}/CMakeFiles/plait_${name}")
  file(WRITE "${folder}/try.cpp" "${code}\n")
  try_compile(builds "${folder}" "${folder}/try.cpp"
    CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${dependency_INCLUDES}"
    LINK_LIBRARIES ${dependency_LIBRARIES}
    OUTPUT_VARIABLE output
    CXX_STANDARD 20 CXX_STANDARD_REQUIRED TRUE)
  set(succeeded ${builds})
  unset(builds CACHE)
  if(succeeded)
    set(plait_tried_${name} "${tried}" CACHE INTERNAL "Digest of what ${name} was last built with")
  else()
    file(WRITE "${folder}/output.txt" "${output}")
    set(plait_${name}_BUILDS FALSE PARENT_SCOPE)
    set(plait_needs "${plait_needs}, which was found but does not build (${folder}/output.txt)" PARENT_SCOPE)
  endif()
endfunction()

# plait::<name>, an interface to plait::plait and the given libraries. `plait_target_scope` is GLOBAL if parent
# directories must see it.
macro(plait_add_component name)
  add_library(plait::${name} INTERFACE IMPORTED ${plait_target_scope})
  target_link_libraries(plait::${name} INTERFACE plait::plait ${ARGN})
  if(EXISTS "${plait_include_dir}/plait/runtime/${name}.cpp")
    plait_add_runtime(${name} "${name}.cpp")
  endif()
endmacro()

# plait_add_runtime(<name> <source>...): adds plait_runtime_<name>, a static library of the functions of plait::<name> that
# do not depend on a program's types. The sources are in include/plait/runtime. The library is compiled once, in the
# build that uses it and with that build's compiler and flags, and only if a target needs it. A target whose property
# PLAIT_RUNTIME is true (plait_use_runtime sets it) links the runtime of every component that it links. The order of the
# calls does not matter.
function(plait_add_runtime name)
  get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  if(NOT "CXX" IN_LIST languages)
    return()
  endif()
  set(runtime plait_runtime_${name})
  if(NOT TARGET ${runtime})
    list(TRANSFORM ARGN PREPEND "${plait_include_dir}/plait/runtime/")
    add_library(${runtime} STATIC EXCLUDE_FROM_ALL ${ARGN})
    set_target_properties(${runtime} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    target_link_libraries(${runtime} PUBLIC plait::${name})
    if(CMAKE_SYSTEM_NAME STREQUAL Linux)  # the program contains only functions that it calls
      target_compile_options(${runtime} PRIVATE -ffunction-sections -fdata-sections)
      target_link_options(${runtime} INTERFACE LINKER:--gc-sections)
    endif()
    set_property(GLOBAL APPEND PROPERTY plait_runtimes ${runtime})
  endif()
  get_target_property(component plait::${name} ALIASED_TARGET)
  if(NOT component)
    set(component plait::${name})
  endif()
  get_target_property(libraries ${component} INTERFACE_LINK_LIBRARIES)
  # The runtime belongs to this build and is not exported.
  set(wanted "$<BUILD_INTERFACE:$<$<BOOL:$<TARGET_PROPERTY:PLAIT_RUNTIME>>:${runtime}>>")
  if(NOT wanted IN_LIST libraries)
    target_link_libraries(${component} INTERFACE "${wanted}")
  endif()
endfunction()

# The runtime of plait::plait.
macro(plait_add_core_runtime)
  plait_add_runtime(plait core.cpp process.cpp simulated.cpp testing.cpp)
  if(TARGET plait_runtime_plait AND NOT TARGET plait::runtime)
    add_library(plait::runtime ALIAS plait_runtime_plait)
  endif()
endmacro()
