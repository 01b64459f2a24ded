# SPDX-License-Identifier: Apache-2.0
# plait::machine: the measurements of a machine in a JSON file, and the costs that follow from them.
plait_look_for(json)
if(NOT plait_needs)
  plait_find_component(safetensors)
  plait_add_component(machine plait::safetensors)
endif()
