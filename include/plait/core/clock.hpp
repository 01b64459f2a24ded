// SPDX-License-Identifier: Apache-2.0
#pragma once

// The clocks and durations of std::chrono. <chrono> brings the calendar and the streams that print
// it, a fortieth of what a compiler does for a program; those who wait need none of them.
#include <condition_variable>
