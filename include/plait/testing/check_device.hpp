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
  /// The distance that elements may have from the host's, in roundings of the element type (2^-23
  /// for float, 2^-52 for double) of the largest element of the operand, or of 1 if that is larger.
  /// 0 is for a device that calls the host's kernels: the values are the same.
  double tolerance = 0;
};

/// Runs a device and reports what does not hold of `ext::device`:
///
/// - allocate() gives memory of the size that is asked for, aligned to 64 bytes;
/// - bytes come back from the device as they were uploaded, and nothing next to them changes; the
///   host may change what it has uploaded as soon as upload() returns;
/// - operations of one stream run in order; a stream that waits for an event goes on after what the
///   other stream was given before the event was recorded, each time that it is recorded;
/// - replay() does what its body does, each time, with the values that memory has then;
/// - discard() changes nothing next to what it is given, marks may be nested, kind() gives the same
///   text each time, and workspace_bytes(), if the device has it, never falls;
/// - each row of operation/rows.hpp that the queue has a kernel for gives what host_queue gives, in
///   float and double, with extents of several elements and of one, and with gaps between rows
///   where layers have them. Operands that are read stay as they are. Operands that are only
///   written begin as nan, which must not count. Bytes next to operands stay as they are.
///
/// The report's `checked` begins with "no kernel for: " and the rows for which the queue has none;
/// layers that call them do not compile for the device. adamw, sgd and sums_of_squares, whose
/// operands are lists of ranges, are not run, nor are kernels in bfloat16. If memory or the order
/// of a stream is wrong, nothing more is run.
///
/// Cost:    one instantiation of each kernel for each type, about five seconds of the compiler.
/// Threads: used by the calling thread.
template <class Device>
[[nodiscard]] check_report check_device(Device device, check_device_options const& options = {}) {
  static_assert(ext::device<Device>,
                "check_device(device): this type is no device; plait/backend/device.hpp says at "
                "ext::device what it needs, and the compiler says below what is missing: write "
                "that, as examples/own_device.cpp does");
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
