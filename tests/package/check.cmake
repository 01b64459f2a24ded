# SPDX-License-Identifier: Apache-2.0
# One way to use plait from outside, chosen by MODE. Needs STAGE (a scratch folder), COMPONENTS (with
# commas), SOURCE, BUILD (plait's own), COMPILER, GENERATOR; CUDNN_FRONTEND (its headers) for component cudnn.
cmake_minimum_required(VERSION 3.24)
string(REPLACE "," ";" COMPONENTS "${COMPONENTS}")

set(installed "${STAGE}/moved prefix")
set(consumer "${SOURCE}/tests/package/consumer")
set(scratch "${STAGE}/${MODE}")
file(REMOVE_RECURSE "${scratch}")
file(MAKE_DIRECTORY "${scratch}")

# Runs a command that must succeed.
function(run)
  execute_process(COMMAND ${ARGV} WORKING_DIRECTORY "${scratch}" RESULT_VARIABLE code)
  if(NOT code EQUAL 0)
    list(JOIN ARGV " " command)
    message(FATAL_ERROR "exit code ${code}: ${command}")
  endif()
endfunction()

set(configure ${CMAKE_COMMAND} -S ${consumer} -B ${scratch}/build -G ${GENERATOR}
  -D CMAKE_CXX_COMPILER=${COMPILER} -D CMAKE_BUILD_TYPE=Debug)
if(CUDNN_FRONTEND)
  list(APPEND configure -D PLAIT_CUDNN_FRONTEND_INCLUDE_DIR=${CUDNN_FRONTEND})
endif()

function(build_and_run)
  run(${CMAKE_COMMAND} --build ${scratch}/build)
  run(${scratch}/build/consumer)
endfunction()

# Configures a consumer that must be refused with a message containing `text`.
function(refused text)
  execute_process(COMMAND ${configure} -D "CMAKE_PREFIX_PATH=${installed}" ${ARGN}
    RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
  string(REGEX REPLACE "[ \n]+" " " joined "${output}")  # CMake wraps messages
  string(FIND "${joined}" "${text}" position)
  if(code EQUAL 0 OR position EQUAL -1)
    message(NOTICE "${output}")
    message(FATAL_ERROR "exit code ${code}; expected a failure that says: ${text}")
  endif()
endfunction()

if(MODE STREQUAL "install")
  # The installed tree is moved before anybody uses it: nothing in it may remember where it was.
  file(REMOVE_RECURSE "${installed}")
  run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${scratch}/prefix)
  file(RENAME "${scratch}/prefix" "${installed}")
  file(GLOB_RECURSE here RELATIVE "${SOURCE}/include" "${SOURCE}/include/*")
  file(GLOB_RECURSE there RELATIVE "${installed}/include" "${installed}/include/*")
  if(NOT here STREQUAL there)
    message(FATAL_ERROR "installed headers differ from include/:\n${there}\nand\n${here}")
  endif()
  file(GLOB launcher "${installed}/*/plait-launch")
  if(NOT launcher)
    message(FATAL_ERROR "plait-launch was not installed")
  endif()
  find_program(python3 python3)
  if(python3)
    execute_process(COMMAND "${launcher}" -n 2 sh -c "echo $PLAIT_RANK/$PLAIT_WORLD_SIZE"
      RESULT_VARIABLE code OUTPUT_VARIABLE output)
    if(NOT code EQUAL 0 OR NOT output MATCHES "\\[0\\] 0/2\n" OR NOT output MATCHES "\\[1\\] 1/2\n")
      message(FATAL_ERROR "exit code ${code} of ${launcher}: ${output}")
    endif()
  endif()

elseif(MODE STREQUAL "installed")
  run(${configure} -D "CMAKE_PREFIX_PATH=${installed}" -D "CONSUMER_COMPONENTS=${COMPONENTS}")
  build_and_run()

elseif(MODE STREQUAL "subdirectory")
  run(${configure} -D "CONSUMER_SUBDIRECTORY=${SOURCE}" -D "CONSUMER_COMPONENTS=${COMPONENTS}")
  build_and_run()

elseif(MODE STREQUAL "unknown_component")
  refused("plait has no component 'telepathy'; its components are: blas, safetensors"
    -D "CONSUMER_COMPONENTS=telepathy")

elseif(MODE STREQUAL "missing_dependency")
  # Without nlohmann_json everything but plait::safetensors and what builds on it is available, and
  # those say why.
  set(without -D CMAKE_DISABLE_FIND_PACKAGE_nlohmann_json=ON)
  run(${configure} -D "CMAKE_PREFIX_PATH=${installed}" ${without})
  refused("plait::safetensors: not available, it needs nlohmann_json"
    -D CONSUMER_COMPONENTS=safetensors ${without})
  refused("plait::checkpoint: not available, it needs nlohmann_json"
    -D CONSUMER_COMPONENTS=checkpoint ${without})

elseif(MODE STREQUAL "wrong_version")
  refused("requested version \"999.0\"" -D CONSUMER_VERSION=999.0)

elseif(MODE STREQUAL "vendored")
  # The headers alone and one compiler line.
  file(COPY "${SOURCE}/include" DESTINATION "${scratch}")
  file(COPY "${SOURCE}/tests/package/vendored.cpp" DESTINATION "${scratch}")
  run(${COMPILER} -std=c++20 -I include vendored.cpp -o vendored -pthread)
  run(${scratch}/vendored)

else()
  message(FATAL_ERROR "unknown MODE '${MODE}'")
endif()
