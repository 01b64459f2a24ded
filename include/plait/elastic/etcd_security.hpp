// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace plait {

/// The credentials by which an elastic job and etcd prove to each other who they are. The servers'
/// certificates, and the names in them, are always verified where the address begins with etcds://.
///
/// Errors: input_error for a file that is not there; for a password or a key that others may read;
///         for one of two that belong together; for certificates with etcd://, where nothing is
///         encrypted, and for a password there, but on the loopback.
struct etcd_security {
  /// Who has signed the servers' certificates, in PEM; if empty, PLAIT_ELASTIC_CA, else those whom
  /// the system trusts.
  std::filesystem::path ca{};
  /// The certificate of this job and its key, in PEM; if empty, PLAIT_ELASTIC_CERT and
  /// PLAIT_ELASTIC_KEY, else none.
  std::filesystem::path certificate{}, key{};
  /// A user of etcd; if empty, PLAIT_ELASTIC_USER, else none.
  std::string user{};
  /// The password's file, for its owner only; if empty, PLAIT_ELASTIC_PASSWORD_FILE. It is read
  /// anew when etcd wants to hear it again.
  std::filesystem::path password_file{};
};

}  // namespace plait
