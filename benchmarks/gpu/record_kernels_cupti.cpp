// SPDX-License-Identifier: Apache-2.0
// CUPTI records kernels. This file reads records as the oldest type with these members.
#include <cupti.h>
#include <cxxabi.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <stdexcept>

#include "device_measurements.hpp"

namespace device_measurements {
namespace {

struct timed_run {
  step_figures::kernel_run run;
  std::uint64_t begin;
};
std::mutex mutex;  // CUPTI hands buffers over on a thread of its own
std::vector<timed_run> recorded;
std::size_t dropped = 0;

void check(CUptiResult code, char const* call) {
  if (code == CUPTI_SUCCESS) return;
  char const* text = "";
  (void)cuptiGetResultString(code, &text);
  throw std::runtime_error(std::string("CUPTI: ") + call + " failed: " + text);
}

std::string name_of(char const* mangled) {
  if (mangled == nullptr) return "unnamed";
  int code = 0;
  std::unique_ptr<char, decltype(&std::free)> const demangled(
      abi::__cxa_demangle(mangled, nullptr, nullptr, &code), &std::free);
  return step_figures::short_name(code == 0 ? demangled.get() : mangled);
}

void keep(CUpti_Activity const* record) {
  auto const add = [](std::string name, std::uint64_t begin, std::uint64_t end) {
    recorded.push_back({{std::move(name), end - begin}, begin});
  };
  if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
    auto const* const kernel = reinterpret_cast<CUpti_ActivityKernel9 const*>(record);
    add(name_of(kernel->name), kernel->start, kernel->end);
  } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
    auto const* const copy = reinterpret_cast<CUpti_ActivityMemcpy5 const*>(record);
    add(copy->copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD   ? "copy to the device"
        : copy->copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOH ? "copy to the host"
                                                            : "copy on the device",
        copy->start, copy->end);
  } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
    auto const* const set = reinterpret_cast<CUpti_ActivityMemset4 const*>(record);
    add("memory set", set->start, set->end);
  }
}

constexpr std::size_t buffer_bytes = std::size_t{8} << 20, buffer_alignment = 8;

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(buffer_alignment, buffer_bytes));
  *size = *buffer == nullptr ? 0 : buffer_bytes;
  *most_records = 0;  // as many as fit
}

void CUPTIAPI take_buffer(CUcontext context, std::uint32_t stream, std::uint8_t* buffer,
                          std::size_t, std::size_t valid_bytes) {
  std::scoped_lock const lock(mutex);
  for (CUpti_Activity* record = nullptr;
       valid_bytes > 0 &&
       cuptiActivityGetNextRecord(buffer, valid_bytes, &record) == CUPTI_SUCCESS;)
    keep(record);
  std::size_t lost = 0;
  if (cuptiActivityGetNumDroppedRecords(context, stream, &lost) == CUPTI_SUCCESS) dropped += lost;
  std::free(buffer);
}

}  // namespace

void start_recording() {
  check(cuptiActivityRegisterCallbacks(give_buffer, take_buffer), "cuptiActivityRegisterCallbacks");
  for (auto const kind : {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                          CUPTI_ACTIVITY_KIND_MEMSET})
    check(cuptiActivityEnable(kind), "cuptiActivityEnable");
}

std::vector<step_figures::kernel_run> recorded_since(std::uint64_t since) {
  check(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "cuptiActivityFlushAll");
  std::scoped_lock const lock(mutex);
  if (dropped > 0)
    throw std::runtime_error("CUPTI dropped " + std::to_string(dropped) + " records");
  std::vector<step_figures::kernel_run> out;
  for (auto const& each : recorded)
    if (each.begin >= since) out.push_back(each.run);
  return out;
}

std::uint64_t time_now() {
  std::uint64_t now = 0;
  check(cuptiGetTimestamp(&now), "cuptiGetTimestamp");
  return now;
}

}  // namespace device_measurements
