// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>
#include <vector>

// A pretended NVML, which tests load in place of the library of NVIDIA's driver.
namespace pretended_nvml {

/// A device that the library pretends to have.
struct device {
  std::string uuid, bus, name = "Pretended GPU";
  unsigned lanes = 16, most_lanes = 16, generation = 5, most_generation = 5, is_persistent = 1,
           is_cut = 0;
  unsigned long long clock_causes = 0, corrected_errors = 0, uncorrected_errors = 0;
  /// The processes that use the device: pairs of the number of a process and its bytes.
  std::vector<std::array<unsigned long long, 2>> processes{};
  /// The results for access to the other devices, in the order of the devices.
  std::vector<int> read_status{}, write_status{};
};

/// The state of the library. A test gets it from the function pretended_nvml_state.
struct state {
  std::vector<device> devices{};
  int starts = 0, stops = 0;
  int error_of_start = 0, error_of_mig = 0, error_of_all = 0;
  bool is_growing = false;  ///< true: each query for processes finds more than the previous query
};

}  // namespace pretended_nvml
