// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/doctor/gpu_settings.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <utility>

#include "plait/core/concat.hpp"
#include "plait/core/quote.hpp"

namespace plait::detail::doctor {

struct nvml_device_state;
using nvml_device = nvml_device_state*;

/// A running process, in the layout of versions 2 and 3 of NVML's function.
struct nvml_process {
  unsigned process = 0;
  unsigned long long bytes = 0;
  unsigned gpu_instance = 0, compute_instance = 0;
};

/// The functions of NVML that plait calls. A pointer is null if the library lacks the function.
struct nvml_functions {
  using number_of_device = int (*)(nvml_device, unsigned*);
  using text_of_device = int (*)(nvml_device, char*, unsigned);

  int (*start)() = nullptr;
  int (*stop)() = nullptr;
  char const* (*error_text)(int) = nullptr;
  int (*driver)(char*, unsigned) = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*by_number)(unsigned, nvml_device*) = nullptr;
  int (*by_bus)(char const*, nvml_device*) = nullptr;
  text_of_device name = nullptr, uuid = nullptr;
  number_of_device lanes = nullptr, most_lanes = nullptr, generation = nullptr,
                   most_generation = nullptr, persistence = nullptr;
  int (*clock_causes)(nvml_device, unsigned long long*) = nullptr;
  int (*errors)(nvml_device, int, int, unsigned long long*) = nullptr;
  int (*instances)(nvml_device, unsigned*, unsigned*) = nullptr;
  int (*processes)(nvml_device, unsigned*, nvml_process*) = nullptr;
  int (*peer)(nvml_device, nvml_device, int, int*) = nullptr;
};

struct close_library {
  void operator()(void* of) const { ::dlclose(of); }
};

/// NVML, loaded and started; the destructor stops it.
class nvml_library {
 public:
  static constexpr int not_supported = 3, insufficient_size = 7;
  static constexpr char const* no_function = "NVML lacks the function";

  explicit nvml_library(std::string const& path);
  nvml_library(nvml_library const&) = delete;
  nvml_library& operator=(nvml_library const&) = delete;
  ~nvml_library() {
    if (is_started_ && call.stop != nullptr) call.stop();
  }

  /// The reason why the library cannot be used; "" if it can.
  [[nodiscard]] std::string const& problem() const { return problem_; }
  [[nodiscard]] std::string error_text(int code) const;

  /// Calls `function(arguments..., &number)`.
  template <class Number, class Function, class... Arguments>
  [[nodiscard]] reading<std::uint64_t> number(Function function, Arguments... arguments) const {
    using result = reading<std::uint64_t>;
    Number out = 0;
    if (function == nullptr) return result::unknown(no_function);
    if (int const code = function(arguments..., &out); code != 0)
      return result::unknown(error_text(code));
    return static_cast<std::uint64_t>(out);
  }

  /// Calls `function(arguments..., text, size)`.
  template <class Function, class... Arguments>
  [[nodiscard]] reading<std::string> text(Function function, Arguments... arguments) const {
    using result = reading<std::string>;
    std::array<char, 128> out{};
    if (function == nullptr) return result::unknown(no_function);
    if (int const code = function(arguments..., out.data(), unsigned(out.size() - 1)); code != 0)
      return result::unknown(error_text(code));
    out.back() = '\0';
    return escaped(out.data());
  }

  nvml_functions call;

 private:
  template <class Function>
  void find(Function& function, char const* name, char const* older = nullptr) {
    void* found = ::dlsym(library_.get(), name);
    if (found == nullptr && older != nullptr) found = ::dlsym(library_.get(), older);
    function = reinterpret_cast<Function>(found);
  }

  std::unique_ptr<void, close_library> library_;
  std::string problem_;
  bool is_started_ = false;
};

PLAIT_DECL nvml_library::nvml_library(std::string const& path)
    : library_(::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (library_ == nullptr) {
    char const* const why = ::dlerror();  // NOLINT: text of this thread
    problem_ = concat({"NVML cannot be loaded: ", escaped(why == nullptr ? path : why)});
    return;
  }
  find(call.start, "nvmlInit_v2", "nvmlInit");
  find(call.stop, "nvmlShutdown");
  find(call.error_text, "nvmlErrorString");
  find(call.driver, "nvmlSystemGetDriverVersion");
  find(call.count, "nvmlDeviceGetCount_v2", "nvmlDeviceGetCount");
  find(call.by_number, "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex");
  find(call.by_bus, "nvmlDeviceGetHandleByPciBusId_v2", "nvmlDeviceGetHandleByPciBusId");
  find(call.name, "nvmlDeviceGetName");
  find(call.uuid, "nvmlDeviceGetUUID");
  find(call.lanes, "nvmlDeviceGetCurrPcieLinkWidth");
  find(call.most_lanes, "nvmlDeviceGetMaxPcieLinkWidth");
  find(call.generation, "nvmlDeviceGetCurrPcieLinkGeneration");
  find(call.most_generation, "nvmlDeviceGetMaxPcieLinkGeneration");
  find(call.persistence, "nvmlDeviceGetPersistenceMode");
  find(call.clock_causes, "nvmlDeviceGetCurrentClocksEventReasons",
       "nvmlDeviceGetCurrentClocksThrottleReasons");
  find(call.errors, "nvmlDeviceGetTotalEccErrors");
  find(call.instances, "nvmlDeviceGetMigMode");
  find(call.processes, "nvmlDeviceGetComputeRunningProcesses_v3",
       "nvmlDeviceGetComputeRunningProcesses_v2");
  find(call.peer, "nvmlDeviceGetP2PStatus");
  if (call.start == nullptr || call.by_bus == nullptr) {
    problem_ = concat({"'", escaped(path), "' lacks functions of NVML"});
  } else if (int const code = call.start(); code != 0) {
    problem_ = concat({"NVML cannot start: ", error_text(code)});
  } else {
    is_started_ = true;
  }
}

PLAIT_DECL std::string nvml_library::error_text(int code) const {
  char const* const text = call.error_text == nullptr ? nullptr : call.error_text(code);
  return concat({"NVML: ", text == nullptr ? "error" : escaped(text), " (", code, ")"});
}

// Returns 1 if the device is partitioned (MIG), and 0 if it is not or does not support MIG.
PLAIT_DECL reading<std::uint64_t> nvml_is_cut(nvml_library const& nvml, nvml_device device) {
  using result = reading<std::uint64_t>;
  if (nvml.call.instances == nullptr) return result::unknown(nvml_library::no_function);
  unsigned now = 0, later = 0;
  int const code = nvml.call.instances(device, &now, &later);
  if (code == nvml_library::not_supported) return std::uint64_t{0};
  if (code != 0) return result::unknown(nvml.error_text(code));
  return std::uint64_t{now};
}

PLAIT_DECL reading<std::vector<gpu_process>> nvml_processes(nvml_library const& nvml,
                                                            nvml_device device) {
  using result = reading<std::vector<gpu_process>>;
  if (nvml.call.processes == nullptr) return result::unknown(nvml_library::no_function);
  // More processes may start between two calls, so each call has room for more than NVML reported.
  std::vector<nvml_process> found(64);
  for (int i = 0; i < 4; ++i) {
    auto count = static_cast<unsigned>(found.size());
    int const code = nvml.call.processes(device, &count, found.data());
    if (code == 0) {
      std::vector<gpu_process> out;
      for (unsigned each = 0; each < count && each < found.size(); ++each) {
        // NVML writes the greatest number if it does not know the memory, for example under WSL.
        bool const is_known = found[each].bytes != ~0ull;
        out.push_back({found[each].process, is_known ? found[each].bytes : 0});
      }
      return out;
    }
    if (code != nvml_library::insufficient_size || found.size() >= 65'536)
      return result::unknown(nvml.error_text(code));
    found.resize(std::max<std::size_t>(found.size() * 2, std::min(count, 32'768u) * 2u));
  }
  return result::unknown(nvml.error_text(nvml_library::insufficient_size));
}

PLAIT_DECL reading<std::vector<gpu_peer>> nvml_peers(nvml_library const& nvml, nvml_device device,
                                                     std::string const& uuid) {
  using result = reading<std::vector<gpu_peer>>;
  auto const count = nvml.number<unsigned>(nvml.call.count);
  if (!count.is_known()) return result::unknown(count.problem());
  if (nvml.call.by_number == nullptr) return result::unknown(nvml_library::no_function);
  constexpr std::uint64_t most = 1024;
  std::vector<gpu_peer> out;
  for (unsigned i = 0; i < std::min(count.value(), most); ++i) {
    nvml_device other = nullptr;
    if (int const code = nvml.call.by_number(i, &other); code != 0)
      return result::unknown(nvml.error_text(code));
    auto const name = nvml.text(nvml.call.uuid, other);
    if (!name.is_known()) return result::unknown(name.problem());
    if (name.value() == uuid) continue;
    auto status = nvml.number<int>(nvml.call.peer, device, other, 0);  // to read
    if (status.is_known() && status.value() == 0)
      status = nvml.number<int>(nvml.call.peer, device, other, 1);  // to write
    out.push_back({name.value(), std::move(status)});
  }
  return out;
}

}  // namespace plait::detail::doctor

namespace plait::ext {

PLAIT_DECL reading<gpu_settings> read_gpu(std::string const& bus, std::string const& library) {
  using result = reading<gpu_settings>;
  detail::doctor::nvml_library const nvml(library);
  if (!nvml.problem().empty()) return result::unknown(nvml.problem());
  auto const& call = nvml.call;
  detail::doctor::nvml_device device = nullptr;
  if (int const code = call.by_bus(bus.c_str(), &device); code != 0)
    return result::unknown(
        concat({"there is no GPU at ", detail::in_quotes(bus), ": ", nvml.error_text(code)}));

  gpu_settings out;
  out.bus = detail::escaped(bus);
  auto const uuid = nvml.text(call.uuid, device);
  if (!uuid.is_known()) return result::unknown(uuid.problem());
  out.uuid = uuid.value();
  out.name = nvml.text(call.name, device);
  out.driver = nvml.text(call.driver);
  out.lanes = nvml.number<unsigned>(call.lanes, device);
  out.most_lanes = nvml.number<unsigned>(call.most_lanes, device);
  out.generation = nvml.number<unsigned>(call.generation, device);
  out.most_generation = nvml.number<unsigned>(call.most_generation, device);
  out.clock_causes = nvml.number<unsigned long long>(call.clock_causes, device);
  constexpr int corrected = 0, uncorrected = 1, since_load = 0;
  out.corrected_errors =
      nvml.number<unsigned long long>(call.errors, device, corrected, since_load);
  out.uncorrected_errors =
      nvml.number<unsigned long long>(call.errors, device, uncorrected, since_load);
  out.is_cut = detail::doctor::nvml_is_cut(nvml, device);
  out.is_persistent = nvml.number<unsigned>(call.persistence, device);
  out.processes = detail::doctor::nvml_processes(nvml, device);
  out.peers = detail::doctor::nvml_peers(nvml, device, out.uuid);
  return out;
}

}  // namespace plait::ext
