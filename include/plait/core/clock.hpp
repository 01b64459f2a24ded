// SPDX-License-Identifier: Apache-2.0
#pragma once

// The clocks and durations of std::chrono without <chrono>. That header includes the calendar and
// its stream output, which take a fortieth of a program's compile time; code that only waits needs
// none of them.
#include <condition_variable>
