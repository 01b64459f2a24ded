# SPDX-License-Identifier: Apache-2.0
# TLS by OpenSSL.
if(NOT TARGET OpenSSL::SSL)
  find_package(OpenSSL 3.0 QUIET COMPONENTS SSL)
endif()
set(plait_needs "OpenSSL 3.0 or newer (Debian: libssl-dev)")
if(TARGET OpenSSL::SSL)
  plait_try_dependency(ssl "#include <openssl/ssl.h>
    int main() { return SSL_CTX_new(TLS_client_method()) == nullptr; }"
    LIBRARIES OpenSSL::SSL)
endif()
