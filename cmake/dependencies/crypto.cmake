# SPDX-License-Identifier: Apache-2.0
# The part of OpenSSL without TLS.
if(NOT TARGET OpenSSL::Crypto)
  find_package(OpenSSL 3.0 QUIET COMPONENTS Crypto)
endif()
set(plait_needs "OpenSSL 3.0 or newer (Debian: libssl-dev)")
if(TARGET OpenSSL::Crypto)
  plait_try_dependency(crypto "#include <openssl/hmac.h>
    int main() { return EVP_sha256() == nullptr; }"
    LIBRARIES OpenSSL::Crypto)
endif()
