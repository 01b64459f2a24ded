// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The version of the library; CMake reads these three lines, nothing else states it.
#define PLAIT_VERSION_MAJOR 0
#define PLAIT_VERSION_MINOR 1
#define PLAIT_VERSION_PATCH 0
