# SPDX-License-Identifier: Apache-2.0
# The optional components of plait: one component = one outside dependency = one target plait::<name>.
# Read by plait's own build and by the installed package, so a component is stated once.
#
# To add one: its name here, its headers below, and components/<name>.cmake beside this file, which
# looks for the dependency and calls plait_add_component(), or explains in `plait_needs` what lacks.
set(plait_components blas safetensors checkpoint tensorboard mpi gloo elastic cuda cudnn thrust)

# Headers that only a program linking the component may include: a file or a folder, relative to
# include/plait, of which the last that fits counts. A component without an entry adds no headers.
set(plait_headers_of_safetensors io/safetensors.hpp io/safetensors_header.hpp io/sharding_info.hpp)
set(plait_headers_of_checkpoint checkpoint/)
set(plait_headers_of_tensorboard observe/tensorboard_log.hpp)
set(plait_headers_of_mpi backend/mpi/)
set(plait_headers_of_gloo backend/gloo/)
set(plait_headers_of_elastic elastic/)
set(plait_headers_of_cuda backend/cuda/)
set(plait_headers_of_thrust backend/cuda/thrust.hpp)

# Components whose headers a component's own may include; its target links theirs.
set(plait_components_of_checkpoint safetensors)

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

# Makes the target plait::<name> and sets plait_<name>_FOUND; where it cannot, plait_component_problem
# says why in one sentence.
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

# plait::<name>, an interface to plait::plait and the given libraries. `plait_target_scope` is GLOBAL
# where parent directories must see it.
macro(plait_add_component name)
  add_library(plait::${name} INTERFACE IMPORTED ${plait_target_scope})
  target_link_libraries(plait::${name} INTERFACE plait::plait ${ARGN})
endmacro()
