# SPDX-License-Identifier: Apache-2.0
# plait::doctor: reads the settings of the machines of a job, and measures the machines. It needs the system's loader of
# libraries, since NVML is loaded at run time.
plait_look_for(json)
if(NOT plait_needs)
  plait_find_component(machine)
  plait_add_component(doctor plait::machine ${CMAKE_DL_LIBS})
endif()
