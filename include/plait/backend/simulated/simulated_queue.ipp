// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/simulated/simulated_queue.hpp"

namespace plait::ext {

PLAIT_DECL void simulated_queue::copy_bytes(void const* from, void* to, std::size_t bytes) const {
  if (bytes == 0 || from == to) return;
  put("copy_bytes", [=](operation& now) {
    now.read_bytes(from, bytes);
    now.write_bytes(to, bytes);
    now.run([&] { host_queue{}.copy_bytes(from, to, bytes); });
  });
}

PLAIT_DECL void simulated_queue::divide(double number, double const* count, double* out) const {
  put("divide", [=](operation& now) {
    now.reads(count, 1);
    now.writes(out, 1);
    now.run([&] { host_queue{}.divide(number, count, out); });
  });
}

PLAIT_DECL void simulated_queue::clip(double const* squares, std::size_t count, double limit,
                                      double* norm, double* factor) const {
  put("clip", [=](operation& now) {
    now.reads(squares, count);
    now.writes(norm, 1);
    now.writes(factor, 1);
    now.run([&] { host_queue{}.clip(squares, count, limit, norm, factor); });
  });
}

PLAIT_DECL void simulated_queue::check_finite(double const* loss, double const* norm,
                                              double* factor) const {
  put("check_finite", [=](operation& now) {
    now.reads(loss, 1);
    now.reads(norm, 1);
    now.reads(factor, 1);
    now.writes(factor, 1);
    now.run([&] { host_queue{}.check_finite(loss, norm, factor); });
  });
}

}  // namespace plait::ext
