// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace plait::detail {

/// A place in which processes leave each other notes until they are connected. Keys are short words
/// of letters, digits and dots.
///
/// Errors: input_error that names the place.
class rendezvous_store {
 public:
  rendezvous_store() = default;
  rendezvous_store(rendezvous_store const&) = delete;
  rendezvous_store& operator=(rendezvous_store const&) = delete;
  virtual ~rendezvous_store() = default;

  /// "rendezvous folder '/shared/job'"
  [[nodiscard]] virtual std::string name() const = 0;
  /// The setting that ranks may have been given differently, for "do all ranks ...?".
  [[nodiscard]] virtual std::string what_to_check() const = 0;
  /// Creates the place, or takes an existing one; rank 0 calls it.
  virtual void make() = 0;
  /// Returns false, and changes nothing, if the key exists.
  [[nodiscard]] virtual bool put(std::string const& key, std::string_view value) = 0;
  [[nodiscard]] virtual std::optional<std::string> get(std::string const& key) = 0;
  virtual void remove(std::string const& key) noexcept = 0;
  /// Removes all keys; `at_end` also the place.
  virtual void clear(bool at_end) noexcept = 0;
  /// True if no later job uses the place. If rank 0 has ended, a rank that is left then clears it.
  [[nodiscard]] virtual bool is_of_one_start() const { return false; }
};

}  // namespace plait::detail
