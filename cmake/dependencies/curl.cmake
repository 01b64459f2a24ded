# SPDX-License-Identifier: Apache-2.0
if(NOT TARGET CURL::libcurl)
  find_package(CURL 7.88 QUIET)
endif()
set(plait_needs "libcurl 7.88 or newer (Debian: libcurl4-openssl-dev)")
if(TARGET CURL::libcurl)
  plait_try_dependency(curl "#include <curl/curl.h>
    int main() { curl_easy_cleanup(curl_easy_init()); }"
    LIBRARIES CURL::libcurl)
endif()
