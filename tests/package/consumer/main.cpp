// SPDX-License-Identifier: Apache-2.0
#include <plait/version.hpp>
#if __has_include(<plait/plait.hpp>)
#include <plait/plait.hpp>
#endif

#include <cstdio>

int main() {
  std::printf("plait %d.%d.%d\n", PLAIT_VERSION_MAJOR, PLAIT_VERSION_MINOR, PLAIT_VERSION_PATCH);
}
