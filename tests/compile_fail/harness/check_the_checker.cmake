# SPDX-License-Identifier: Apache-2.0
# check.cmake must accept a proper file and report each kind of bad one, whether it compiles the file itself or
# compile_together.cmake did. Needs COMPILER, INCLUDE, TOGETHER.
cmake_minimum_required(VERSION 3.24)
set(tests "${CMAKE_CURRENT_LIST_DIR}/..")

function(compile_together folder mistakes)
  execute_process(
    COMMAND ${CMAKE_COMMAND} -D COMPILER=${COMPILER} -D INCLUDE=${INCLUDE} -D FOLDER=${folder}
      -D TOGETHER=${TOGETHER} -D MISTAKES=${mistakes} -P "${tests}/compile_together.cmake"
    COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# Runs the checker on a file of this folder; `report` is what it must say, or "" where it must accept.
function(expect file report)
  execute_process(
    COMMAND ${CMAKE_COMMAND} -D COMPILER=${COMPILER} -D INCLUDE=${INCLUDE} -D TOGETHER=${together}
      -D SOURCE=${CMAKE_CURRENT_LIST_DIR}/${file} -D PLACES=${places} -P "${tests}/check.cmake"
    RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(report STREQUAL "")
    if(NOT code EQUAL 0)
      message(NOTICE "${output}")
      message(SEND_ERROR "${file} should be accepted")
    endif()
  elseif(code EQUAL 0)
    message(SEND_ERROR "${file} should be reported: ${report}")
  else()
    string(FIND "${output}" "${report}" position)
    if(position EQUAL -1)
      message(NOTICE "${output}")
      message(SEND_ERROR "${file} should be reported: ${report}")
    endif()
  endif()
endfunction()

set(places "")
file(REMOVE_RECURSE "${TOGETHER}")
compile_together("${CMAKE_CURRENT_LIST_DIR}" OFF)
compile_together("${CMAKE_CURRENT_LIST_DIR}" ON)
if(EXISTS "${TOGETHER}/all_build")
  message(SEND_ERROR "one right way is broken, and yet all are said to build")
endif()

foreach(together IN ITEMS "" "${TOGETHER}")
  expect(proper.cpp "")
  expect(mistake_builds.cpp "the mistake builds; it should not")
  expect(text_only_in_warning.cpp "the mistake builds; it should not")
  expect(other_text.cpp "the compiler's output lacks the text")
  expect(text_of_another.cpp "the compiler's output lacks the text")
  expect(one_text_of_two.cpp "the compiler's output lacks the text")
  expect(right_way_broken.cpp "the right way does not build")
  expect(no_expectation.cpp "no line '// expect: text'")
  expect(first_error.cpp "")
  expect(first_error_other.cpp "where an error should say")
  expect(first_error_too_few.cpp "there is\n  no error")
  expect(late_sentence.cpp "")
endforeach()

# The position of the sentence.
if(MEASURES)
  set(places "${TOGETHER}/places")
  expect(proper.cpp "")
  if(NOT EXISTS "${places}/proper.txt")
    message(SEND_ERROR "the place of the sentence of proper.cpp should be in a file")
  endif()
  expect(late_sentence.cpp "bytes; more than 2,000 nobody reads")
  if(EXISTS "${places}/late_sentence.txt")
    message(SEND_ERROR "a sentence that comes too late should have no place")
  endif()

  # Says of the median of the places 100, 200, 400 what place.cmake says.
  file(WRITE "${places}/a.txt" 100)
  file(WRITE "${places}/b.txt" 400)
  file(WRITE "${places}/c.txt" 200)
  function(expect_median names most succeeds says)
    execute_process(
      COMMAND ${CMAKE_COMMAND} -D PLACES=${places} -D NAMES=${names} -D MEDIAN=${most} -P "${tests}/place.cmake"
      RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
    string(FIND "${output}" "${says}" position)
    if(position EQUAL -1 OR (succeeds AND NOT code EQUAL 0) OR (NOT succeeds AND code EQUAL 0))
      message(NOTICE "${output}")
      message(SEND_ERROR "place.cmake on ${names}, at most ${most}, should say: ${says}")
    endif()
  endfunction()
  expect_median(a,b,c 200 TRUE "3 programs: median 200, worst 400 (b)")
  expect_median(a,b,c 199 FALSE "the median is above 199")
  expect_median(a,b,c,d 199 TRUE "not measured, and so nothing is judged: d")
  expect_median(d 199 TRUE "no program was measured")
  set(places "")
endif()

# The output of the common compilation is used: this run has no compiler.
set(together "${TOGETHER}")
set(COMPILER "${TOGETHER}/no compiler")
file(TOUCH "${TOGETHER}/all_build")
expect(proper.cpp "")
expect(first_error.cpp "")
