# SPDX-License-Identifier: Apache-2.0
# Reads every #include of the headers under INCLUDE/plait, and of the .ipp files with their definitions, and reports each
# that breaks a rule:
#   - a folder includes itself and the folders before it in the order below, never a later one;
#   - backend/<x>/ includes no other backend but host/ and process/, which are always there, and
#     the files of backend/ itself none;
#   - a header of an optional component is included only by headers of the same component, or of a
#     component that is declared to build on it (plait_components_of_<name>);
#   - only backend/<name>/ and component headers include anything outside the standard library;
#   - only backend/, testing/, the doctor, which measures them, and the executor (run/move.hpp, run/transfer_runner.hpp)
#     call collectives;
#   - axes are named by their roles in few places outside policy/ and testing/, and none by a
#     using enum: policies and placements have the differences between axes;
#   - headers that most programs include call algorithms by iterators: std::ranges costs compilers a
#     seventh of a program;
#   - code that only runs in constants is the branch of __builtin_is_constant_evaluated(); otherwise each
#     program compiles it, too;
#   - plan/ and lower floors, run/ and train/ keep records of their own in lean_vectors: each record in a
#     std::vector costs every program some 60 functions;
#   - texts are made by concat: each + of strings is a text of its own, with the code that releases it, in
#     every program;
#   - plait.hpp includes no standard header that costs every program's compiler a fiftieth and that most
#     programs do not need; clocks are in core/clock.hpp;
#   - own headers are written "plait/...", and start with the licence line and #pragma once;
#   - x.ipp is included by x.hpp, at its end for programs that are header-only, and by exactly one file of the runtime,
#     and by no other; each of its definitions begins with PLAIT_DECL.
cmake_minimum_required(VERSION 3.24)
include("${CMAKE_CURRENT_LIST_DIR}/../../cmake/plait-components.cmake")

set(floors
  core placement operation mesh layer schedule policy plan draw                           # the plan half
  tensor backend run formula nn io data train checkpoint elastic observe doctor testing runtime)          # the run half

# The folders of a floor, lowest first; headers on the floor itself are above all of them.
set(floors_of_plan model memory sharding schedule report)
set(floors_of_train options checks measures state hooks)

# Headers of the operating system, needed where the standard library has no word for it.
set(system_header "^(unistd|fcntl|pthread|sched|time|sys/[a-z]+)[.]h$")
set(standard_header "^[a-z0-9_]+$")
set(most_lines 600)

# Numbers, texts, and what programs and components give or get in a std::vector.
set(numbers_and_texts "int|char|double|float|std::(byte|size_t|u?int[0-9]+_t|string|string_view)|char const[*]")
set(in_std_vectors "${numbers_and_texts}|element|parameter_element|\
(ext::)?(scheduled_work|parameter_group|saved_tensor|tensor_of_state|saved_rectangle)")

set(most_axis_names 20)
# Words for one axis, or for one rank of it: code has to ask placements instead.
set(axis_words "tensor_rank|stage[(][)]|is_first|on_stage|within_layers|tensor_group|batch_axes")
set(most_axis_words 100)

set(violations "")
set(axis_names 0)
set(axis_word_count 0)
macro(report text)
  string(APPEND violations "  include/${header}:${number}: ${text}\n")
endmacro()

# The folder under plait/ of a header, "" for plait/*.hpp; and the backend's name, "" if none.
function(locate header folder backend)
  set(${folder} "" PARENT_SCOPE)
  set(${backend} "" PARENT_SCOPE)
  if(header MATCHES "^plait/([^/]+)/")
    set(${folder} "${CMAKE_MATCH_1}" PARENT_SCOPE)
  endif()
  if(header MATCHES "^plait/backend/([^/]+)/")
    set(${backend} "${CMAKE_MATCH_1}" PARENT_SCOPE)
  endif()
endfunction()

# The number of a header's floor among the folders of its own: a large one on the floor itself, -1 in a folder
# without a place.
function(floor_within header folder result)
  set(${result} 99 PARENT_SCOPE)
  if(header MATCHES "^plait/${folder}/([^/]+)/")
    list(FIND floors_of_${folder} "${CMAKE_MATCH_1}" found)
    set(${result} ${found} PARENT_SCOPE)
  endif()
endfunction()

# The optional component that a header belongs to, "" for none.
function(component_of header result)
  string(REGEX REPLACE "[.]ipp$" ".hpp" header "${header}")
  set(${result} "" PARENT_SCOPE)
  foreach(component IN LISTS plait_components)
    foreach(path IN LISTS plait_headers_of_${component})
      string(FIND "${header}" "plait/${path}" position)
      if(position EQUAL 0)
        set(${result} ${component} PARENT_SCOPE)
      endif()
    endforeach()
  endforeach()
endfunction()

file(GLOB_RECURSE headers RELATIVE "${INCLUDE}" "${INCLUDE}/plait/*.hpp" "${INCLUDE}/plait/*.ipp")
file(GLOB runtime_files RELATIVE "${INCLUDE}" "${INCLUDE}/plait/runtime/*.cpp")
foreach(file IN LISTS runtime_files)
  file(STRINGS "${INCLUDE}/${file}" lines REGEX "^#include \"plait/.*[.]ipp\"$")
  list(APPEND in_runtime ${lines})
endforeach()
foreach(header IN LISTS headers)
  locate(${header} folder backend)
  component_of(${header} component)
  list(FIND floors "${folder}" floor)
  set(number 1)
  if(folder AND floor EQUAL -1)
    report("the folder '${folder}' is not in the order of tests/structure/check_includes.cmake")
    continue()
  endif()

  if(header MATCHES "[.]ipp$")
    file(READ "${INCLUDE}/${header}" definitions)
    if(definitions MATCHES "host_maths::")
      report("has host_maths::, which depends on the program's library of matrix products and processor; call it in the header")
    endif()
    set(included ${in_runtime})
    list(FILTER included INCLUDE REGEX "\"${header}\"")
    list(LENGTH included count)
    if(NOT count EQUAL 1)
      report("${count} files of plait/runtime include it; it belongs in one")
    endif()
    string(REGEX REPLACE "ipp$" "hpp" declaring "${header}")
    set(end "\n#if PLAIT_HEADER_ONLY\n#include \"${header}\"\n#endif\n")
    set(declarations "")
    if(EXISTS "${INCLUDE}/${declaring}")
      file(READ "${INCLUDE}/${declaring}" declarations)
    endif()
    string(FIND "${declarations}" "${end}" position)
    if(position EQUAL -1)
      report("${declaring} does not include it at its end, behind #if PLAIT_HEADER_ONLY")
    endif()
  endif()

  # Lines without an #include are emptied first: a CMake list cannot hold them whole.
  file(READ "${INCLUDE}/${header}" text)
  if(NOT text MATCHES "^// SPDX-License-Identifier: Apache-2.0\n#pragma once\n")
    report("the first two lines are not the licence and #pragma once")
  endif()
  if(NOT header MATCHES "^plait/((backend|doctor|testing)/|run/(move|transfer_runner)[.]hpp$)" AND text MATCHES
      "[.>](all_reduce|all_gather|reduce_scatter|all_to_all|broadcast|reduce|gather|scatter|send|receive)[(]")
    report("calls ${CMAKE_MATCH_1}(): what ranks exchange is a row of the plan's list, carried out by run/transfer_runner.hpp or run/move.hpp")
  endif()
  if(NOT header MATCHES "^plait/(policy|testing)/")
    # Examples in comments are programs, which may name axes.
    string(REGEX REPLACE "///     [^\n]*" "" text "${text}")
    string(REGEX MATCHALL "axis::(data|tensor|stage|replica)" named "${text}")
    if(NOT header MATCHES "^plait/mesh/" AND text MATCHES "axis::(tensor|context|expert)")
      report("names a model axis; ask mesh::model_axis or parameter_rules::model_axis, so that forms may divide work along another axis")
    endif()
    list(LENGTH named here)
    math(EXPR axis_names "${axis_names} + ${here}")
    string(REGEX MATCHALL "[^A-Za-z0-9_](${axis_words})[^A-Za-z0-9_]" named "${text}")
    list(LENGTH named here)
    math(EXPR axis_word_count "${axis_word_count} + ${here}")
  endif()
  if(text MATCHES "std::is_constant_evaluated")
    report("calls std::is_constant_evaluated, with which g++ -O0 compiles both branches; write `if (__builtin_is_constant_evaluated()) ...`")
  endif()
  if(NOT header MATCHES
      "^plait/((checkpoint|elastic|io|testing)/|backend/(cuda|gloo|mpi|process|simulated)/|data/images/)")
    if(text MATCHES "std::ranges::")
      report("uses std::ranges, which costs every program's compiler; write the algorithm by iterators")
    endif()
    if(text MATCHES "vector<bool>")
      report("has a std::vector<bool>, which costs every program's compiler; write std::vector<char>")
    endif()
  endif()
  if(header MATCHES "^plait/(core|placement|operation|mesh|layer|schedule|policy|plan|run|train)/")
    string(REGEX MATCHALL "std::vector<(typename )?([A-Za-z0-9_]+::)*[a-z0-9_]+( const)?[*]?>" vectors "${text}")
    list(FILTER vectors EXCLUDE REGEX "<(${in_std_vectors})>$")
    if(vectors)
      list(GET vectors 0 first)
      report("has a ${first}, which costs every program's compiler; write lean_vector")
    endif()
  endif()
  if(text MATCHES "[A-Za-z0-9_)] [+][ \n]+\"")
    report("adds a text to another; write concat({...}), or an error's {...}")
  endif()
  if(text MATCHES "using enum (plait::)?axis[^_]")
    report("has `using enum axis`; write axis::, or better ask its placements")
  endif()
  string(REGEX REPLACE "\n[ \t]*#[ \t]*include[ \t]*([<\"][^>\"\n]+[>\"])[^\n]*" "\n@\\1" text "${text}")
  string(REGEX REPLACE "\n[^@\n][^\n]*" "\n" text "\n${text}")
  string(REPLACE "\n" ";" lines "${text}")
  list(POP_FRONT lines)

  set(number 0)
  foreach(line IN LISTS lines)
    math(EXPR number "${number} + 1")
    if(NOT line MATCHES "^@(.)(.+).$")
      continue()
    endif()
    set(bracket "${CMAKE_MATCH_1}")
    set(target "${CMAKE_MATCH_2}")

    if(target STREQUAL "chrono" AND NOT header STREQUAL "plait/core/clock.hpp")
      report("<chrono> brings the calendar; write \"plait/core/clock.hpp\"")
    endif()
    if(NOT target MATCHES "^plait/")
      if(bracket STREQUAL "\"")
        report("\"${target}\" is not written from the root, as in \"plait/core/name.hpp\"")
      elseif(NOT target MATCHES "${standard_header}" AND NOT target MATCHES "${system_header}"
          AND NOT backend AND NOT component)
        report("<${target}> is outside the standard library; it belongs in backend/<name>/")
      endif()
      continue()
    endif()

    if(bracket STREQUAL "<")
      report("<${target}> is written \"${target}\" inside plait")
    endif()
    if(target MATCHES "[.]ipp$")
      string(REGEX REPLACE "ipp$" "hpp" declaring "${target}")
      if(NOT header STREQUAL declaring)
        report("\"${target}\" has definitions; include \"${declaring}\"")
      elseif(NOT EXISTS "${INCLUDE}/${target}")
        report("there is no \"${target}\"")
      endif()
    endif()
    component_of(${target} target_component)
    if(target_component AND NOT target_component STREQUAL component
        AND NOT target_component IN_LIST plait_components_of_${component})
      report("\"${target}\" belongs to the component '${target_component}', this header does not")
    endif()
    if(folder STREQUAL "")
      continue()  # plait/*.hpp: collections, which may include everything else
    endif()

    locate(${target} target_folder target_backend)
    list(FIND floors "${target_folder}" target_floor)
    if(target_folder STREQUAL "")
      if(NOT target STREQUAL "plait/version.hpp")
        report("\"${target}\" is for users; include what is used")
      endif()
    elseif(target_floor GREATER floor)
      report("${folder}/ may not include ${target_folder}/: the arrow goes up")
    elseif(folder STREQUAL target_folder AND DEFINED floors_of_${folder})
      floor_within(${header} ${folder} here)
      floor_within(${target} ${folder} there)
      if(here EQUAL -1)
        report("this folder has no place in the order of the folders of ${folder}/")
      elseif(there GREATER here)
        report("\"${target}\" is above this header within ${folder}/: the arrow goes up")
      endif()
    elseif(target_backend AND folder STREQUAL "backend" AND NOT target_backend STREQUAL backend
        AND NOT (backend AND target_backend MATCHES "^(host|process)$"))
      report("\"${target}\" belongs to another backend; move what both need to backend/")
    endif()
  endforeach()

  if(number GREATER most_lines)
    report("more than ${most_lines} lines; split the header")
  endif()
endforeach()

set(ahead "plait/plait.hpp")
set(reached "")
set(number 1)
while(ahead)
  list(POP_FRONT ahead header)
  if(header IN_LIST reached OR NOT EXISTS "${INCLUDE}/${header}")
    continue()
  endif()
  list(APPEND reached "${header}")
  file(STRINGS "${INCLUDE}/${header}" lines REGEX "^#include [<\"]")
  foreach(line IN LISTS lines)
    if(line MATCHES "\"(plait/[^\"]+)\"")
      list(APPEND ahead "${CMAKE_MATCH_1}")
    elseif(line MATCHES "<(chrono|filesystem|fstream|iomanip|iostream|locale|map|random|ranges|regex|sstream|unordered_map)>")
      report("<${CMAKE_MATCH_1}> would come with plait.hpp, which costs every program's compiler; do without, or include this header where it is used")
    endif()
  endforeach()
endwhile()

if(axis_names GREATER most_axis_names)
  string(APPEND violations "  axes are named ${axis_names} times outside policy/ and testing/, more than ${most_axis_names}: let a policy or placements say what differs\n")
endif()
if(axis_word_count GREATER most_axis_words)
  string(APPEND violations "  words that stand for one axis (${axis_words}) are used ${axis_word_count} times outside policy/ and testing/, more than ${most_axis_words}: ask its placements, by block_of or holds_the_one_copy\n")
endif()
if(violations)
  message(NOTICE "Headers that break a rule:\n${violations}")
  message(FATAL_ERROR "include check")
endif()
list(LENGTH headers count)
message(STATUS "${count} headers keep the rules; axes are named ${axis_names} times, by words for one axis ${axis_word_count} times")
