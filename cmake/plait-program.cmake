# SPDX-License-Identifier: Apache-2.0
# Programs whose error messages begin with the fault. plait's own build and the installed package include this file.

# Options of g++ and clang++ with which an error is one sentence after few lines: the first error only, and only the
# first and the last of the templates on the way to it.
set(plait_message_options_of_GNU -fmax-errors=1 -ftemplate-backtrace-limit=1)
set(plait_message_options_of_Clang -ferror-limit=1 -ftemplate-backtrace-limit=1)
set(plait_message_options_of_AppleClang ${plait_message_options_of_Clang})
set(plait_message_options "")
foreach(plait_compiler IN ITEMS GNU Clang AppleClang)
  foreach(plait_option IN LISTS plait_message_options_of_${plait_compiler})
    list(APPEND plait_message_options "$<$<COMPILE_LANG_AND_ID:CXX,${plait_compiler}>:${plait_option}>")
  endforeach()
endforeach()
# A function sees the variables of its caller, which may be in another folder.
set_property(GLOBAL PROPERTY plait_message_options "${plait_message_options}")

# plait_use_runtime(<target>): links the target to plait::runtime and to the runtimes of its components. Its files then
# do not compile functions that do not depend on its own types.
function(plait_use_runtime target)
  set_target_properties(${target} PROPERTIES PLAIT_RUNTIME ON)
endfunction()

# plait_add_program(<name> SOURCES <file>... [COMPONENTS <component>...] [HEADER_ONLY] [PRECOMPILE])
#
# An executable of `SOURCES` that is linked to plait::plait and to plait::<component> of each of `COMPONENTS`, which
# find_package(plait COMPONENTS ...) or PLAIT_COMPONENTS must have requested. Its C++ is compiled with the options above.
# It is an ordinary target, so you may add more to it. It links the runtime, which all programs of a build share; with
# HEADER_ONLY each of its files compiles everything itself. PRECOMPILE compiles plait.hpp once for all of its files,
# which pays from two files on.
function(plait_add_program name)
  cmake_parse_arguments(PARSE_ARGV 1 program "HEADER_ONLY;PRECOMPILE" "" "SOURCES;COMPONENTS")
  if(program_UNPARSED_ARGUMENTS OR NOT program_SOURCES)
    message(FATAL_ERROR "plait_add_program(${name}): write plait_add_program(<name> SOURCES <file>... "
      "[COMPONENTS <component>...] [HEADER_ONLY] [PRECOMPILE])")
  endif()
  foreach(component IN LISTS program_COMPONENTS)
    if(NOT TARGET plait::${component})
      message(FATAL_ERROR "plait_add_program(${name}): there is no plait::${component}; write "
        "find_package(plait REQUIRED COMPONENTS ${component}) before it, or set PLAIT_COMPONENTS to ${component} where "
        "plait is a subdirectory")
    endif()
  endforeach()
  list(TRANSFORM program_COMPONENTS PREPEND "plait::")
  get_property(options GLOBAL PROPERTY plait_message_options)
  add_executable(${name} ${program_SOURCES})
  target_link_libraries(${name} PRIVATE plait::plait ${program_COMPONENTS})
  target_compile_options(${name} PRIVATE ${options})
  if(NOT program_HEADER_ONLY)
    plait_use_runtime(${name})
  endif()
  if(program_PRECOMPILE)
    target_precompile_headers(${name} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:<plait/plait.hpp$<ANGLE-R>>")
  endif()
endfunction()

# plait_add_doctor(<name> <backend>)
#
# The program plait-doctor (docs/doctor.md) as the executable <name>. Its ranks are threads, processes of MPI (mpi) or
# of Gloo (gloo), or GPUs (cuda). It needs the component doctor and, for another backend than threads, the component
# <backend>. It multiplies matrices with plait::blas if find_package or PLAIT_COMPONENTS requested that, too. The
# language CUDA must be enabled for cuda.
function(plait_add_doctor name backend)
  set(components doctor)
  set(language cpp)
  set(includes "plait/doctor/doctor.hpp")
  if(backend STREQUAL "threads")
    list(APPEND includes "plait/backend/host/threads.hpp")
    set(value "plait::threads{}")
    set(facts "")
  elseif(backend STREQUAL "mpi" OR backend STREQUAL "gloo")
    list(APPEND components ${backend})
    list(APPEND includes "plait/backend/${backend}/${backend}.hpp" "plait/backend/process/processes.hpp")
    set(value "plait::processes{.engine = plait::${backend}(),
                                .timeout = options.timeout,
                                .start_timeout = options.timeout,
                                .flight_record = \"off\"}")
    # The variables from which plait::gloo() takes the interface.
    set(facts "
    for (char const* const name : {\"GLOO_SOCKET_IFNAME\", \"PLAIT_INTERFACE\"})
      if (char const* const text = std::getenv(name); text != nullptr && text[0] != 0)
        request.interface = text;
    ")
    if(backend STREQUAL "mpi")
      set(facts "
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = \"\";
    int length = 0;
    MPI_Get_library_version(version, &length);
    std::string_view const text(version);
    request.mpi = text.substr(0, text.find_first_of(\"\\n\\r\"));
    ")
    endif()
  elseif(backend STREQUAL "cuda")
    list(APPEND components cuda)
    list(APPEND includes "plait/backend/cuda/cuda.hpp")
    set(language cu)
    set(value "plait::cuda{}")
    set(facts "
    int cuda = 0, nccl = 0, device = 0;
    char bus[32] = \"\";
    if (cudaRuntimeGetVersion(&cuda) == cudaSuccess) request.cuda = std::to_string(cuda / 1000) + \".\" + std::to_string(cuda % 1000 / 10);
    if (ncclGetVersion(&nccl) == ncclSuccess) request.nccl = std::to_string(nccl / 10000) + \".\" + std::to_string(nccl / 100 % 100) +
                     \".\" + std::to_string(nccl % 100);
    if (cudaGetDevice(&device) == cudaSuccess &&
        cudaDeviceGetPCIBusId(bus, sizeof bus, device) == cudaSuccess)
      request.gpu_bus = bus;
    std::size_t free_bytes = 0, bytes = 0;
    if (cudaMemGetInfo(&free_bytes, &bytes) == cudaSuccess) request.device_memory_bytes = bytes;
    ")
  else()
    message(FATAL_ERROR "plait_add_doctor(${name} ${backend}): the backends are threads, mpi, gloo and cuda")
  endif()
  if(TARGET plait::blas)
    list(APPEND components blas)
  endif()

  list(SORT includes)
  list(TRANSFORM includes REPLACE "^(.+)$" "#include \"\\1\"\n")
  list(JOIN includes "" includes)
  set(source "${CMAKE_CURRENT_BINARY_DIR}/${name}.${language}")
  file(CONFIGURE OUTPUT "${source}" @ONLY CONTENT "// plait_add_doctor has written this file.
#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>

@includes@
int main(int count, char** words) {
  // The facts about a rank that only a program of this backend knows.
  auto const facts = []([[maybe_unused]] auto& rank, [[maybe_unused]] auto& request) {@facts@};
  return plait::ext::doctor_main(
      count, words, [&]([[maybe_unused]] plait::ext::doctor_options const& options) {
        return plait::ext::doctor_backend{\"@backend@\", @value@, facts};
      });
}
")
  plait_add_program(${name} SOURCES "${source}" COMPONENTS ${components})
  # Without a build type, the program would not be optimised, and its speeds would be too low.
  target_compile_options(${name} PRIVATE "$<$<CONFIG:>:-O2>")
endfunction()
