# SPDX-License-Identifier: Apache-2.0
# plait::elastic: ranks that come and go; they find each other by etcd, which they ask over HTTP in JSON.
if(NOT TARGET nlohmann_json::nlohmann_json)
  find_package(nlohmann_json 3.9 QUIET)
endif()
if(NOT TARGET CURL::libcurl)
  find_package(CURL 7.88 QUIET)
endif()
if(TARGET nlohmann_json::nlohmann_json AND TARGET CURL::libcurl)
  plait_add_component(elastic nlohmann_json::nlohmann_json CURL::libcurl)
else()
  set(plait_needs "nlohmann_json 3.9 or newer and libcurl 7.88 or newer (Debian: nlohmann-json3-dev and "
    "libcurl4-openssl-dev)")
endif()
