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
///         certificate without its key or a user without a password, and the reverse; with etcd://,
///         which is not encrypted, for certificates, and for a password except on the loopback.
struct etcd_security {
  /// The authorities that have signed the servers' certificates, in PEM; if empty,
  /// PLAIT_ELASTIC_CA, else the authorities that the system trusts.
  std::filesystem::path ca{};
  /// The certificate of this job and its key, in PEM; if empty, PLAIT_ELASTIC_CERT and
  /// PLAIT_ELASTIC_KEY, else none.
  std::filesystem::path certificate{}, key{};
  /// A user of etcd; if empty, PLAIT_ELASTIC_USER, else none.
  std::string user{};
  /// The file of the password, readable by its owner only; if empty, PLAIT_ELASTIC_PASSWORD_FILE.
  /// It is read each time that etcd asks for the password.
  std::filesystem::path password_file{};
};

}  // namespace plait
