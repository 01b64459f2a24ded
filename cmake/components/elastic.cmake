# SPDX-License-Identifier: Apache-2.0
# plait::elastic: ranks that come and go; they find each other by etcd, which they ask over HTTP in JSON.
plait_look_for(json curl)
if(NOT plait_needs)
  plait_add_component(elastic nlohmann_json::nlohmann_json CURL::libcurl)
endif()
