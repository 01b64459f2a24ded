# SPDX-License-Identifier: Apache-2.0
# Compiles SOURCE as it is, which must succeed, and with PLAIT_EXPECT_FAIL, which must fail and print
# each text that the file expects, in its first lines with an error those that it wants first. Needs
# COMPILER, INCLUDE, SOURCE; SYSTEM_INCLUDE for headers of others.
cmake_minimum_required(VERSION 3.24)

function(fail text)
  message(NOTICE "${SOURCE}: ${text}")  # as it is; an error would be wrapped
  message(FATAL_ERROR "must-fail check")
endfunction()

file(READ "${SOURCE}" source)
if(NOT source MATCHES "\n// (expect|first): ")
  fail("no line '// expect: text' or '// first: text'")
endif()

# Fixed language, so that quotes in messages are the same everywhere.
set(compile ${CMAKE_COMMAND} -E env LC_ALL=C
  ${COMPILER} -std=c++20 -fsyntax-only -pthread -I${INCLUDE} "${SOURCE}")
if(SYSTEM_INCLUDE)
  list(APPEND compile -isystem "${SYSTEM_INCLUDE}")
endif()

execute_process(COMMAND ${compile}
  RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(NOT code EQUAL 0)
  fail("the right way does not build:\n${output}")
endif()

execute_process(COMMAND ${compile} -DPLAIT_EXPECT_FAIL
  RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(code EQUAL 0)
  fail("the mistake builds; it should not")
endif()

# Loops over the text, as brackets and semicolons in a message would confuse a CMake list.
set(rest "${source}")
while(rest MATCHES "\n// expect: ([^\n]+)\n(.*)")
  set(text "${CMAKE_MATCH_1}")
  set(rest "\n${CMAKE_MATCH_2}")
  string(FIND "${output}" "${text}" position)
  if(position EQUAL -1)
    fail("the compiler's output lacks the text\n  ${text}\nin:\n${output}")
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
    fail("where an error should say\n  ${text}\nthere is\n  ${line}\nin:\n${output}")
  endif()
endwhile()
