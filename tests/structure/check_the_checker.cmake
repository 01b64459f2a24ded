# SPDX-License-Identifier: Apache-2.0
# check_includes.cmake must accept a proper tree and report each planted violation. Needs SCRATCH.
cmake_minimum_required(VERSION 3.24)
set(checker "${CMAKE_CURRENT_LIST_DIR}/check_includes.cmake")
set(top "// SPDX-License-Identifier: Apache-2.0\n#pragma once\n")

# Writes a tree whose header `file` has `body`; `report` is what must be said, "" for nothing.
function(expect report file body)
  file(REMOVE_RECURSE "${SCRATCH}")
  foreach(other core/name plan/plan tensor/view backend/device backend/host/device
      backend/simulated/device io/safetensors testing/layer version plait)
    file(WRITE "${SCRATCH}/plait/${other}.hpp" "${top}")
  endforeach()
  file(WRITE "${SCRATCH}/plait/${file}" "${body}")

  execute_process(COMMAND ${CMAKE_COMMAND} -D INCLUDE=${SCRATCH} -P "${checker}"
    RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(report STREQUAL "")
    if(NOT code EQUAL 0)
      message(SEND_ERROR "should be accepted: ${file}\n${body}\nbut:\n${output}")
    endif()
  elseif(code EQUAL 0)
    message(SEND_ERROR "should be reported (${report}): ${file}\n${body}")
  else()
    string(FIND "${output}" "${report}" position)
    if(position EQUAL -1)
      message(SEND_ERROR "${file} should be reported as '${report}', but:\n${output}")
    endif()
  endif()
endfunction()

expect("" tensor/good.hpp "${top}\n#include <vector>\n#include <unistd.h>\n
#include \"plait/core/name.hpp\"\n#include \"plait/plan/plan.hpp\"\n#include \"plait/version.hpp\"\n
namespace plait { int a[2]; /* [ ; #include \"plait/testing/layer.hpp\" */ }\n")
expect("" backend/host/good.hpp
  "${top}#if PLAIT_USE_CBLAS\n#  include <cblas.h>\n#endif\n#include \"plait/backend/device.hpp\"\n")
expect("" io/safetensors.hpp "${top}#include <nlohmann/json.hpp>\n#include \"plait/core/name.hpp\"\n")
expect("" plait.hpp "${top}#include \"plait/testing/layer.hpp\"\n#include \"plait/core/name.hpp\"\n")

expect("plait/core/bad.hpp:4: core/ may not include plan/: the arrow goes up"
  core/bad.hpp "${top}\n#include \"plait/plan/plan.hpp\"\n")
expect("plan/ may not include tensor/: the arrow goes up"
  plan/bad.hpp "${top}struct a {};\n  #  include \"plait/tensor/view.hpp\" // why\n")
expect("\"plait/plan/plan.hpp\" is above this header within plan/: the arrow goes up"
  plan/model/bad.hpp "${top}#include \"plait/plan/plan.hpp\"\n")
expect("this folder has no place in the order of the folders of plan/"
  plan/other/bad.hpp "${top}#include \"plait/plan/plan.hpp\"\n")
expect("io/ may not include testing/: the arrow goes up"
  io/deep/down/bad.hpp "${top}#include \"plait/testing/layer.hpp\"\n")
expect("belongs to another backend"
  backend/host/bad.hpp "${top}#include \"plait/backend/simulated/device.hpp\"\n")
expect("belongs to another backend"
  backend/simulated/bad.hpp "${top}#include \"plait/backend/cuda/device/cuda_device.hpp\"\n")
expect("" backend/simulated/good.hpp "${top}#include \"plait/backend/host/host_queue.hpp\"\n")
expect("belongs to another backend"
  backend/bad.hpp "${top}#include \"plait/backend/host/device.hpp\"\n")
expect("belongs to the component 'safetensors'"
  plait.hpp "${top}#include \"plait/io/safetensors.hpp\"\n")
expect("belongs to the component 'safetensors'"
  io/checkpoint.hpp "${top}#include \"plait/io/safetensors.hpp\"\n")
expect("" checkpoint/good.hpp "${top}#include \"plait/io/safetensors.hpp\"\n")
expect("belongs to the component 'checkpoint'"
  observe/bad.hpp "${top}#include \"plait/checkpoint/manifest.hpp\"\n")
expect("<cblas.h> is outside the standard library"
  tensor/bad.hpp "${top}#include <cblas.h>\n")
expect("<nlohmann/json.hpp> is outside the standard library"
  io/bad.hpp "${top}#include <nlohmann/json.hpp>\n")
expect("is for users; include what is used"
  core/bad.hpp "${top}#include \"plait/plait.hpp\"\n")
expect("is written \"plait/core/name.hpp\" inside plait"
  tensor/bad.hpp "${top}#include <plait/core/name.hpp>\n")
expect("is not written from the root"
  core/bad.hpp "${top}#include \"name.hpp\"\n")
expect("the folder 'attic' is not in the order"
  attic/bad.hpp "${top}")
expect("the first two lines are not the licence and #pragma once"
  core/bad.hpp "#include <vector>\n")
expect("calls all_reduce(): what ranks exchange is a row of the plan's list"
  train/bad.hpp "${top}void f(auto& comm, auto x) { comm.all_reduce(x); }\n")
expect("calls send()"
  run/bad.hpp "${top}void f(auto* comm, auto x) { comm->send(x, 1, 0); }\n")
expect("" run/move.hpp "${top}void f(auto& comm, auto x) { comm.all_reduce(x); }\n")
expect("" backend/good.hpp "${top}void f(auto& comm, auto x) { comm.all_reduce(x); }\n")
string(REPEAT "auto a = axis::data | axis::stage;\n" 11 names)
expect("axes are named 22 times outside policy/ and testing/, more than 20"
  train/bad.hpp "${top}${names}")
expect("" policy/good.hpp "${top}${names}")
expect("uses std::ranges" plan/bad.hpp "${top}bool has(auto const& all) { return std::ranges::find(all, 1) != all.end(); }\n")
expect("" io/good.hpp "${top}bool has(auto const& all) { return std::ranges::find(all, 1) != all.end(); }\n")
expect("calls std::is_constant_evaluated" io/bad.hpp "${top}constexpr int f() { return std::is_constant_evaluated() ? 1 : 2; }\n")
expect("" plan/good.hpp "${top}constexpr int f() { return __builtin_is_constant_evaluated() ? 1 : 2; }\n")
expect("has a std::vector<bool>" plan/bad.hpp "${top}inline std::vector<bool> none;\n")
expect("has a std::vector<exchange>" train/bad.hpp "${top}std::vector<exchange> rows;\n")
expect("has a std::vector<slice_tree::sum>" run/bad.hpp "${top}std::vector<slice_tree::sum> sums;\n")
expect("has a std::vector<exchange const*>" plan/bad.hpp "${top}std::vector<exchange const*> rows;\n")
expect("has a std::vector<typename Device::event>" run/bad.hpp "${top}std::vector<typename Device::event> all;\n")
expect("" train/good.hpp "${top}std::vector<double> a; std::vector<std::uint64_t> b; std::vector<ext::saved_tensor> c;\n")
expect("adds a text to another" data/bad.hpp "${top}auto text(auto a) { return a +\n  \" rows\"; }\n")
expect("" data/good.hpp "${top}auto text(auto a) { return concat({a, \" + 1\"}); }\n")
expect("" elastic/good.hpp "${top}std::vector<exchange> rows;\n")
expect("<chrono> brings the calendar" io/bad.hpp "${top}#include <chrono>\n")
expect("<filesystem> would come with plait.hpp" plait.hpp "${top}#include <filesystem>\n")
expect("" io/good.hpp "${top}#include <filesystem>\n")
expect("has `using enum axis`"
  train/bad.hpp "${top}void f() { using enum axis; }\n")
string(REPEAT "\n" 600 long)
expect("more than 600 lines"
  core/bad.hpp "${top}${long}")

# Definitions: in one file of the runtime, and at the end of the header that declares them.
expect("0 files of plait/runtime include it" core/lost.ipp "${top}#include \"plait/core/name.hpp\"\n")
expect("plait/core/lost.hpp does not include it at its end" core/lost.ipp "${top}#include \"plait/core/name.hpp\"\n")
expect("\"plait/core/name.ipp\" has definitions; include \"plait/core/name.hpp\""
  tensor/bad.hpp "${top}#include \"plait/core/name.ipp\"\n")
expect("there is no \"plait/tensor/bad.ipp\""
  tensor/bad.hpp "${top}#if PLAIT_HEADER_ONLY\n#include \"plait/tensor/bad.ipp\"\n#endif\n")
expect("has host_maths::, which depends on the program's library" core/lost.ipp
  "${top}PLAIT_DECL void f() { host_maths::say_if_products_are_slow(); }\n")
