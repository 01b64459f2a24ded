// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace plait::detail {

/// Where processes leave each other notes until they are connected. Keys are short words of
/// letters, digits and dots.
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
  /// What a user may have told ranks differently, for "do all ranks ...?".
  [[nodiscard]] virtual std::string what_to_check() const = 0;
  /// Rank 0 makes the place, or takes the one that is there.
  virtual void make() = 0;
  /// False, and nothing has changed, if the key is there.
  [[nodiscard]] virtual bool put(std::string const& key, std::string_view value) = 0;
  [[nodiscard]] virtual std::optional<std::string> get(std::string const& key) = 0;
  virtual void remove(std::string const& key) noexcept = 0;
  /// Removes all keys; at the end also the place.
  virtual void clear(bool at_end) noexcept = 0;
  /// Whether no later job comes to the place: then a rank that is left when rank 0 has ended clears
  /// it.
  [[nodiscard]] virtual bool is_of_one_start() const { return false; }
};

}  // namespace plait::detail
