# SPDX-License-Identifier: Apache-2.0
# plait::elastic: ranks that join and leave while a job trains; they find each other by etcd, over HTTP in JSON.
plait_look_for(json curl)
if(NOT plait_needs)
  plait_add_component(elastic nlohmann_json::nlohmann_json CURL::libcurl)
endif()
