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
  -D CMAKE_CXX_COMPILER=${COMPILER} -D CMAKE_BUILD_TYPE=Debug -D CMAKE_CXX_FLAGS_DEBUG=-O0)
if(CUDNN_FRONTEND)
  list(APPEND configure -D PLAIT_CUDNN_FRONTEND_INCLUDE_DIR=${CUDNN_FRONTEND})
endif()

# With the runtime, and header-only.
function(build_and_run)
  run(${CMAKE_COMMAND} --build ${scratch}/build --target consumer by_hand)
  run(${scratch}/build/consumer)
  run(${scratch}/build/by_hand)
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
  # The installed tree is moved before it is used: nothing in it may depend on its first place.
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
  # The components are named by a variable or on the command line.
  set(of_subdirectory -D "CONSUMER_SUBDIRECTORY=${SOURCE}" -D CONSUMER_COMPONENTS=)
  refused("plait has no component 'telepathy'; its components are: blas, safetensors"
    ${of_subdirectory} -D CONSUMER_COMPONENTS=telepathy)
  refused("plait has no component 'telepathy'; its components are: blas, safetensors"
    ${of_subdirectory} -D PLAIT_COMPONENTS=telepathy)
  # CMake reports that there is no such target, and an earlier line gives the reason.
  refused("PLAIT_COMPONENTS is '', and plait::<name> is a target for those alone; set it before add_subdirectory"
    ${of_subdirectory} -D PLAIT_COMPONENTS= -D CONSUMER_UNNAMED=plait::blas)

elseif(MODE STREQUAL "unknown_component")
  refused("plait has no component 'telepathy'; its components are: blas, safetensors"
    -D "CONSUMER_COMPONENTS=telepathy")

elseif(MODE STREQUAL "missing_dependency")
  # Without nlohmann_json everything but plait::safetensors and what builds on it is available.
  set(without -D CMAKE_DISABLE_FIND_PACKAGE_nlohmann_json=ON)
  run(${configure} -D "CMAKE_PREFIX_PATH=${installed}" ${without})

  # hidden(<component> <what its sentence says> <options that hide it>...)
  function(hidden component needs)
    refused("plait::${component}: not available, it needs ${needs}" -D CONSUMER_COMPONENTS=${component}
      -U CMAKE_DISABLE_FIND_PACKAGE_* -U CMAKE_MODULE_PATH -U PLAIT_* ${ARGN})
  endfunction()
  set(does_not_build ", which was found but does not build")
  hidden(safetensors "nlohmann_json 3.9 or newer (Debian: nlohmann-json3-dev)" ${without})
  hidden(checkpoint "nlohmann_json 3.9 or newer (Debian: nlohmann-json3-dev)" ${without})
  hidden(machine "nlohmann_json 3.9 or newer (Debian: nlohmann-json3-dev)" ${without})
  hidden(elastic "libcurl 7.88 or newer (Debian: libcurl4-openssl-dev)" -D CMAKE_DISABLE_FIND_PACKAGE_CURL=ON)
  hidden(tensorboard "Protocol Buffers (Debian: libprotobuf-dev)" -D CMAKE_DISABLE_FIND_PACKAGE_Protobuf=ON)
  hidden(images "libjpeg-turbo (Debian: libjpeg62-turbo-dev)" -D CMAKE_DISABLE_FIND_PACKAGE_JPEG=ON)
  hidden(images "libpng (Debian: libpng-dev)" -D CMAKE_DISABLE_FIND_PACKAGE_PNG=ON)
  hidden(gloo "Gloo (Debian: libgloo-dev)" -D CMAKE_DISABLE_FIND_PACKAGE_Gloo=ON)
  hidden(gloo "OpenSSL 3.0 or newer (Debian: libssl-dev)" -D CMAKE_DISABLE_FIND_PACKAGE_OpenSSL=ON)
  hidden(mpi "an MPI library (Debian: libopenmpi-dev or libmpich-dev)" -D CMAKE_DISABLE_FIND_PACKAGE_MPI=ON)
  hidden(cuda "the CUDA toolkit 12.4 or newer" -D CMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON)
  hidden(cudnn "plait::cuda, that is the CUDA toolkit" -D CMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON)
  # A dependency that is found, or whose target exists, but whose files are missing.
  file(WRITE "${scratch}/left/FindMPI.cmake" "add_library(MPI::MPI_CXX INTERFACE IMPORTED)
    set(MPI_CXX_FOUND FALSE)\n")
  hidden(mpi "an MPI library (Debian: libopenmpi-dev or libmpich-dev)" -D "CMAKE_MODULE_PATH=${scratch}/left")
  file(WRITE "${scratch}/lies/FindMPI.cmake" "add_library(MPI::MPI_CXX INTERFACE IMPORTED)
    target_include_directories(MPI::MPI_CXX INTERFACE \"${scratch}/lies\")
    set(MPI_CXX_FOUND TRUE)\n")
  file(WRITE "${scratch}/lies/mpi.h" "#error no MPI\n")
  hidden(mpi "an MPI library (Debian: libopenmpi-dev or libmpich-dev)${does_not_build}"
    -D "CMAKE_MODULE_PATH=${scratch}/lies")
  file(WRITE "${scratch}/cblas.h" "int wrong;\n")
  hidden(blas "OpenBLAS with cblas.h (Debian: libopenblas-dev)${does_not_build}"
    -D PLAIT_CBLAS_INCLUDE_DIR=${scratch} -D PLAIT_CBLAS_LIBRARY=m)
  file(WRITE "${scratch}/isa-l/crc.h" "int wrong;\n")
  hidden(checkpoint "ISA-L (Debian: libisal-dev)${does_not_build}"
    -D PLAIT_ISAL_INCLUDE_DIR=${scratch} -D PLAIT_ISAL_LIBRARY=m)

elseif(MODE STREQUAL "wrong_version")
  refused("requested version \"999.0\"" -D CONSUMER_VERSION=999.0)

elseif(MODE STREQUAL "vendored")
  # The headers alone and one compiler line; or the runtime once, and one line for each file.
  file(COPY "${SOURCE}/include" DESTINATION "${scratch}")
  file(COPY "${SOURCE}/tests/package/vendored.cpp" DESTINATION "${scratch}")
  run(${COMPILER} -std=c++20 -I include vendored.cpp -o vendored -pthread)
  run(${scratch}/vendored)
  run(${COMPILER} -std=c++20 -I include -c include/plait/runtime.cpp)
  run(${COMPILER} -std=c++20 -I include -DPLAIT_HEADER_ONLY=0 vendored.cpp runtime.o -o linked -pthread)
  run(${scratch}/linked)

else()
  message(FATAL_ERROR "unknown MODE '${MODE}'")
endif()
