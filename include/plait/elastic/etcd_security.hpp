// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace plait {

/// The credentials by which an elastic job and etcd prove their identity to each other. The
/// servers' certificates, and the names in them, are always verified for an address that begins
/// with etcds://.
///
/// Errors: input_error for a missing file; for a password or a key that others may read; for a
///         certificate without its key or a key without a certificate; for a user without a
///         password or a password without a user; with etcd://, which is not encrypted, for
///         certificates, and for a password unless all servers are on this machine.
struct etcd_security {
  /// A file of the authorities that have signed the servers' certificates, in PEM; if empty, the
  /// value of PLAIT_ELASTIC_CA, else the authorities that the system trusts.
  std::filesystem::path ca{};
  /// The files of this process's certificate and of its key, in PEM; if empty, the values of
  /// PLAIT_ELASTIC_CERT and PLAIT_ELASTIC_KEY, else none.
  std::filesystem::path certificate{}, key{};
  /// The name of a user of etcd; if empty, the value of PLAIT_ELASTIC_USER, else none.
  std::string user{};
  /// The file of the user's password, which only its owner may read; if empty, the value of
  /// PLAIT_ELASTIC_PASSWORD_FILE. It is read each time that etcd asks for the password.
  std::filesystem::path password_file{};
};

}  // namespace plait
