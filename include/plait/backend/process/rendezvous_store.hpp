// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace plait::detail {

/// A key-value store through which processes exchange addresses until they are connected, such as a
/// folder. Keys are short words of letters, digits and dots.
///
/// Errors: input_error, with a text that names the store.
class rendezvous_store {
 public:
  rendezvous_store() = default;
  rendezvous_store(rendezvous_store const&) = delete;
  rendezvous_store& operator=(rendezvous_store const&) = delete;
  virtual ~rendezvous_store() = default;

  /// Returns text such as "rendezvous folder '/shared/job'".
  [[nodiscard]] virtual std::string name() const = 0;
  /// Returns the question that tells a user what to check if ranks do not meet, such as "do all
  /// ranks see this path (PLAIT_RENDEZVOUS)?".
  [[nodiscard]] virtual std::string what_to_check() const = 0;
  /// Creates the store, or uses an existing one; only rank 0 calls this.
  virtual void make() = 0;
  /// Stores a value under a new key. Returns false, and changes nothing, if the key exists.
  [[nodiscard]] virtual bool put(std::string const& key, std::string_view value) = 0;
  [[nodiscard]] virtual std::optional<std::string> get(std::string const& key) = 0;
  virtual void remove(std::string const& key) noexcept = 0;
  /// Removes all keys; if `at_end`, also the store itself.
  virtual void clear(bool at_end) noexcept = 0;
  /// True if no later job can use the same store. In this case, if rank 0 has ended, another rank
  /// clears the store.
  [[nodiscard]] virtual bool is_of_one_start() const { return false; }
};

}  // namespace plait::detail
