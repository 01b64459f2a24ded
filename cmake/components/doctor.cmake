# SPDX-License-Identifier: Apache-2.0
# plait::doctor: reads the settings of the machines of a job. It needs the system's loader of libraries, since NVML is
# loaded at run time.
set(plait_needs "")
plait_add_component(doctor ${CMAKE_DL_LIBS})
