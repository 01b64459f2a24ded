# SPDX-License-Identifier: Apache-2.0
# plait::images: folders of JPEG and PNG files as data sets.
plait_look_for(jpeg png)
if(NOT plait_needs)
  plait_add_component(images JPEG::JPEG PNG::PNG)
endif()
