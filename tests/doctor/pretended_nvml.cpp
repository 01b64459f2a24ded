// SPDX-License-Identifier: Apache-2.0
// The functions of NVML that plait calls. With PRETENDED_NVML_IS_OLD the library lacks most of
// them.
#include "doctor/pretended_nvml.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <string>

using pretended_nvml::device;

namespace {

pretended_nvml::state& all() {
  static pretended_nvml::state of;
  return of;
}

constexpr int invalid_argument = 2, not_found = 6, insufficient_size = 7;

int put(std::string const& text, char* out, unsigned size) {
  if (text.size() + 1 > size) return insufficient_size;
  std::copy_n(text.c_str(), text.size() + 1, out);
  return all().error_of_all;
}

template <class Number>
int put(Number value, Number* out) {
  *out = value;
  return all().error_of_all;
}

}  // namespace

extern "C" {

pretended_nvml::state* pretended_nvml_state() { return &all(); }

int nvmlInit_v2() { return ++all().starts, all().error_of_start; }
int nvmlShutdown() { return ++all().stops, 0; }
int nvmlDeviceGetHandleByPciBusId_v2(char const* bus, device** out) {
  for (auto& each : all().devices)
    if (each.bus == bus) return *out = &each, 0;
  return not_found;
}
int nvmlDeviceGetUUID(device* of, char* out, unsigned size) { return put(of->uuid, out, size); }

#if !defined(PRETENDED_NVML_IS_OLD)
char const* nvmlErrorString(int code) {
  return code == not_found ? "Not Found" : code == 3 ? "Not Supported" : "Other Error";
}
int nvmlSystemGetDriverVersion(char* out, unsigned size) { return put("550.54.14", out, size); }
int nvmlDeviceGetCount_v2(unsigned* out) { return put(unsigned(all().devices.size()), out); }
int nvmlDeviceGetHandleByIndex_v2(unsigned number, device** out) {
  if (number >= all().devices.size()) return invalid_argument;
  *out = &all().devices[number];
  return 0;
}
int nvmlDeviceGetName(device* of, char* out, unsigned size) { return put(of->name, out, size); }
int nvmlDeviceGetCurrPcieLinkWidth(device* of, unsigned* out) { return put(of->lanes, out); }
int nvmlDeviceGetMaxPcieLinkWidth(device* of, unsigned* out) { return put(of->most_lanes, out); }
int nvmlDeviceGetCurrPcieLinkGeneration(device* of, unsigned* out) {
  return put(of->generation, out);
}
int nvmlDeviceGetMaxPcieLinkGeneration(device* of, unsigned* out) {
  return put(of->most_generation, out);
}
int nvmlDeviceGetPersistenceMode(device* of, unsigned* out) { return put(of->is_persistent, out); }
// The library has only the older name of this function, as drivers before 2023.
int nvmlDeviceGetCurrentClocksThrottleReasons(device* of, unsigned long long* out) {
  return put(of->clock_causes, out);
}
int nvmlDeviceGetTotalEccErrors(device* of, int type, int counter, unsigned long long* out) {
  if (counter != 0) return invalid_argument;
  return put(type == 0 ? of->corrected_errors : of->uncorrected_errors, out);
}
int nvmlDeviceGetMigMode(device* of, unsigned* now, unsigned* later) {
  *now = *later = of->is_cut;
  return all().error_of_mig;
}

struct process_of_version_3 {
  unsigned process;
  unsigned long long bytes;
  unsigned gpu_instance, compute_instance;
};
int nvmlDeviceGetComputeRunningProcesses_v3(device* of, unsigned* count,
                                            process_of_version_3* out) {
  auto const room = *count;
  if (all().is_growing) of->processes.resize(room + 10);
  *count = static_cast<unsigned>(of->processes.size());
  if (*count > room) return insufficient_size;
  for (std::size_t i = 0; i < *count; ++i)
    out[i] = {static_cast<unsigned>(of->processes[i][0]), of->processes[i][1], ~0u, ~0u};
  return all().error_of_all;
}
int nvmlDeviceGetP2PStatus(device* of, device* other, int what, int* out) {
  auto const number = static_cast<std::size_t>(other - all().devices.data());
  auto const& list = what == 0 ? of->read_status : of->write_status;
  return put(number < list.size() ? list[number] : 0, out);
}
#endif

}  // extern "C"
