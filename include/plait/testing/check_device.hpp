// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "plait/backend/device.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/number_range.hpp"
#include "plait/testing/device_laws.hpp"
#include "plait/testing/device_rows.hpp"
#include "plait/testing/report.hpp"

namespace plait::testing {

/// The options of `check_device`.
struct check_device_options {
  /// The largest allowed difference between an element and the host's result, in units of epsilon *
  /// max(1, largest element of the operand), where epsilon belongs to the element type (2^-23 for
  /// float, 2^-52 for double). Use 0 for a device that calls the host's kernels, because its
  /// results are then equal to the host's results.
  double tolerance = 0;
};

/// Runs a device and reports each violation of the laws of `ext::device`:
///
/// - allocate() returns memory of the requested size, aligned to 64 bytes;
/// - download() returns the bytes that upload() copied to the device, and no byte next to them
///   changes; the host may change the bytes that it has uploaded as soon as upload() returns;
/// - operations of one stream run in order; a stream that waits for an event continues only after
///   all operations that were issued to the other stream before the event was recorded, also if the
///   event is recorded again;
/// - each replay() has the effect of the recorded calls on the values that are in memory then;
/// - discard() changes no byte next to its range, marks may be nested, kind() returns the same text
///   each time, and workspace_bytes(), if the device has it, never falls;
/// - for each operation of operation/rows.hpp for which the queue has a kernel, the results equal
///   the results of host_queue, in float and double, with several elements and with one element
///   along each index of the operation, and with gaps between the rows of the operands that layers
///   store with gaps. Operands that are read do not change. Operands that are only written begin as
///   NaN, which must not affect the result. Bytes next to operands do not change.
///
/// The report's `checked` begins with "no kernel for: " and the operations for which the queue has
/// no kernel; layers that call these operations do not compile for the device. Kernels in bfloat16
/// are not run, nor are adamw, sgd and sums_of_squares, whose operands are lists of ranges. If
/// memory or the order of a stream is wrong, the check ends without running the other laws.
///
/// Cost:    one instantiation of each kernel for each type, about five seconds of compile time.
/// Threads: used by the calling thread.
template <class Device>
[[nodiscard]] check_report check_device(Device device, check_device_options const& options = {}) {
  static_assert(ext::device<Device>,
                "check_device(device): this type is not a device. The concept ext::device in "
                "plait/backend/device.hpp lists the members of a device, and the compiler names "
                "the missing member below; define it as in examples/own_device.cpp");
  require_range("check_device_options::tolerance", options.tolerance, number_ranges::at_least_0);
  check_report report;
  if constexpr (ext::device<Device>) {
    detail::device_laws<Device> laws(device, report);
    if (!laws.check()) return report;
    std::vector<std::string> without;
    detail::device_rows<Device, float>(device, options.tolerance, report, without).check();
    laws.check_workspace();
    detail::device_rows<Device, double>(device, options.tolerance, report, without).check();
    laws.check_workspace();
    std::string names;
    for (auto const& name : without) names += ext::concat({names.empty() ? "" : ", ", name});
    if (!names.empty())
      report.checked.insert(report.checked.begin(), ext::concat({"no kernel for: ", names}));
  }
  return report;
}

}  // namespace plait::testing
