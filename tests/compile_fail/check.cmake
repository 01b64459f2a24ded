# SPDX-License-Identifier: Apache-2.0
# Compiles SOURCE as it is, which must succeed, and with PLAIT_EXPECT_FAIL, which must fail and print
# each text that the file expects, in its first lines with an error those that it wants first. Needs
# COMPILER, INCLUDE, SOURCE; SYSTEM_INCLUDE for headers of others. What compile_together.cmake left in the folder
# TOGETHER is taken where it suffices; where it does not, SOURCE is compiled by itself and that is what counts.
#
# With PLACES, a folder, and g++ the mistake is also compiled by itself as docs/getting_started.md tells users to: the
# sentence must be in the first error and begin within the first 2,000 bytes. Where it begins goes to PLACES/<name>.txt.
cmake_minimum_required(VERSION 3.24)

function(fail text)
  message(NOTICE "${SOURCE}: ${text}")  # as it is; an error would be wrapped
  message(FATAL_ERROR "must-fail check")
endfunction()

file(READ "${SOURCE}" source)
if(NOT source MATCHES "\n// (expect|first): ")
  fail("no line '// expect: text' or '// first: text'")
endif()

# Sets `problem` to what is wrong with what the compiler says of the mistake, or to "".
# Loops over the text, as brackets and semicolons in a message would confuse a CMake list.
function(judge output)
  set(rest "${source}")
  while(rest MATCHES "\n// expect: ([^\n]+)\n(.*)")
    set(text "${CMAKE_MATCH_1}")
    set(rest "\n${CMAKE_MATCH_2}")
    string(FIND "${output}" "${text}" position)
    if(position EQUAL -1)
      set(problem "the compiler's output lacks the text\n  ${text}\nin:\n${output}" PARENT_SCOPE)
      return()
    endif()
  endwhile()

  set(rest "${source}")
  set(errors "${output}\n")
  while(rest MATCHES "\n// first: ([^\n]+)\n(.*)")
    set(text "${CMAKE_MATCH_1}")
    set(rest "\n${CMAKE_MATCH_2}")
    set(line "no error")
    if(errors MATCHES "([^\n]* error: [^\n]*)\n(.*)")
      set(line "${CMAKE_MATCH_1}")
      set(errors "${CMAKE_MATCH_2}")
    endif()
    string(FIND "${line}" "${text}" position)
    if(position EQUAL -1)
      set(problem "where an error should say\n  ${text}\nthere is\n  ${line}\nin:\n${output}" PARENT_SCOPE)
      return()
    endif()
  endwhile()
  set(problem "" PARENT_SCOPE)
endfunction()

# Fixed language, so that quotes in messages are the same everywhere.
set(compile ${CMAKE_COMMAND} -E env LC_ALL=C
  ${COMPILER} -std=c++20 -fsyntax-only -pthread -I${INCLUDE} "${SOURCE}")
if(SYSTEM_INCLUDE)
  list(APPEND compile -isystem "${SYSTEM_INCLUDE}")
endif()

get_filename_component(name "${SOURCE}" NAME_WE)
if(PLACES)
  file(REMOVE "${PLACES}/${name}.txt")
endif()

# Paths count as from the folder of the project, wherever that lies.
function(measure_place)
  if(NOT PLACES)
    return()
  endif()
  execute_process(COMMAND ${compile} -DPLAIT_EXPECT_FAIL -fmax-errors=1 -ftemplate-backtrace-limit=1
    OUTPUT_VARIABLE output ERROR_VARIABLE output)
  get_filename_component(root "${INCLUDE}" DIRECTORY)
  string(REPLACE "${root}/" "" output "${output}")
  set(marker " error: ")
  string(FIND "${output}" "${marker}static assertion failed: " place)
  if(NOT place EQUAL -1)
    string(APPEND marker "static assertion failed: ")
  else()
    string(FIND "${output}" "${marker}" place)
  endif()
  string(LENGTH "${marker}" length)
  math(EXPR place "${place} + ${length}")
  string(SUBSTRING "${output}" ${place} -1 sentence)
  string(REGEX REPLACE "\n.*" "" sentence "${sentence}")
  set(rest "${source}")
  set(is_expected FALSE)
  while(rest MATCHES "\n// (expect|first): ([^\n]+)\n(.*)")
    set(text "${CMAKE_MATCH_2}")
    set(rest "\n${CMAKE_MATCH_3}")
    string(FIND "${sentence}" "${text}" position)
    if(NOT position EQUAL -1)
      set(is_expected TRUE)
    endif()
  endwhile()
  if(NOT is_expected)
    # g++ says what a constant expression threw in a second error.
    if(source MATCHES "\n// second error: ")
      return()
    endif()
    fail("the first error, which is all that users are told to ask for, says\n  ${sentence}\nin:\n${output}")
  endif()
  if(place GREATER 2000)
    fail("the sentence comes after ${place} bytes; more than 2,000 nobody reads:\n${output}")
  endif()
  message(STATUS "the sentence comes after ${place} bytes")
  file(WRITE "${PLACES}/${name}.txt" "${place}")
endfunction()
set(all_build "${TOGETHER}/all_build")
set(said "${TOGETHER}/${name}.txt")

if(NOT EXISTS "${all_build}" OR "${SOURCE}" IS_NEWER_THAN "${all_build}")
  message(STATUS "the right way is compiled by itself")
  execute_process(COMMAND ${compile}
    RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT code EQUAL 0)
    fail("the right way does not build:\n${output}")
  endif()
endif()

if(EXISTS "${said}" AND NOT "${SOURCE}" IS_NEWER_THAN "${said}")
  file(READ "${said}" output)
  if(output MATCHES " error: ")
    judge("${output}")
    if(problem STREQUAL "")
      measure_place()
      return()
    endif()
  endif()
endif()

message(STATUS "the mistake is compiled by itself")
execute_process(COMMAND ${compile} -DPLAIT_EXPECT_FAIL
  RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(code EQUAL 0)
  fail("the mistake builds; it should not")
endif()
judge("${output}")
if(NOT problem STREQUAL "")
  fail("${problem}")
endif()
measure_place()
