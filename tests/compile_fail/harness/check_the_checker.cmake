# SPDX-License-Identifier: Apache-2.0
# check.cmake must accept a proper file and report each kind of bad one. Needs COMPILER, INCLUDE.
cmake_minimum_required(VERSION 3.24)
set(checker "${CMAKE_CURRENT_LIST_DIR}/../check.cmake")

# Runs the checker on a file of this folder; `report` is what it must say, or "" where it must accept.
function(expect file report)
  execute_process(
    COMMAND ${CMAKE_COMMAND} -D COMPILER=${COMPILER} -D INCLUDE=${INCLUDE}
      -D SOURCE=${CMAKE_CURRENT_LIST_DIR}/${file} -P "${checker}"
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

expect(proper.cpp "")
expect(mistake_builds.cpp "the mistake builds; it should not")
expect(text_only_in_warning.cpp "the mistake builds; it should not")
expect(other_text.cpp "the compiler's output lacks the text")
expect(one_text_of_two.cpp "the compiler's output lacks the text")
expect(right_way_broken.cpp "the right way does not build")
expect(no_expectation.cpp "no line '// expect: text'")
expect(first_error.cpp "")
expect(first_error_other.cpp "where an error should say")
expect(first_error_too_few.cpp "there is\n  no error")
