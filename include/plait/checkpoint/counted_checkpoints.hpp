// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "plait/checkpoint/checkpoint_name.hpp"
#include "plait/checkpoint/checksum.hpp"
#include "plait/checkpoint/disk.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/file.hpp"

namespace plait::detail {

inline constexpr std::string_view lock_start = "plait.lock-", list_start = "plait.list-";
inline constexpr std::size_t most_lease_bytes = 16'000'000;

/// Who has a folder of checkpoints, and which of those before are the owner's: what stands in
/// plait.lock-N and plait.list-N. Neither file is ever changed.
struct lease_text {
  std::string job{};
  std::string id{};             ///< of an elastic job; "" of one whose ranks do not change
  std::int64_t generation = 0;  ///< of that
  std::vector<std::string> names{};

  [[nodiscard]] std::string text() const {
    auto out = json();
    out["crc32"] = crc_of(out);
    return concat({dumped(out), "\n"});
  }
  /// Errors: input_error that names the file.
  [[nodiscard]] static lease_text read(std::filesystem::path const& path, disk& on) {
    constexpr char const* kind = "lease of a folder of checkpoints";
    file_name const name(kind, path);
    auto in = nlohmann::json::parse(on.read_file(path, most_lease_bytes, kind), nullptr, false);
    auto const is = [&](char const* key, auto kind_of) {
      return in.contains(key) && (in[key].*kind_of)();
    };
    using json = nlohmann::json;
    bool holds = in.is_object() && in.size() == 5 && is("job", &json::is_string) &&
                 is("id", &json::is_string) && is("generation", &json::is_number_integer) &&
                 is("crc32", &json::is_number_unsigned) && is("names", &json::is_array);
    lease_text out;
    if (holds) {
      auto const crc = in["crc32"].template get<std::uint64_t>();
      in.erase("crc32");
      holds = crc == crc_of(in) && std::ranges::all_of(in["names"], &json::is_string);
    }
    if (!holds)
      name.refuse(
          "is damaged; where nobody uses the folder it may be removed, and all checkpoints "
          "in the folder count then");
    out.job = in["job"].template get<std::string>();
    out.id = in["id"].template get<std::string>();
    out.generation = in["generation"].template get<std::int64_t>();
    for (auto const& one : in["names"]) out.names.push_back(one.template get<std::string>());
    return out;
  }

 private:
  [[nodiscard]] nlohmann::json json() const {
    return {{"job", job}, {"id", id}, {"generation", generation}, {"names", names}};
  }
  static std::string dumped(nlohmann::json const& of) {
    return of.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  }
  static std::uint32_t crc_of(nlohmann::json const& of) {
    auto const text = dumped(of);
    return checkpoint_crc(std::as_bytes(std::span(text)));
  }
};

/// What is in a folder of checkpoints, and which of it counts.
///
/// A folder that a fixed job has written counts always. One of an elastic job counts if the newest
/// list has it or if it is of the owner who has written that list: what an owner before it has
/// renamed since does not.
class counted_checkpoints {
 public:
  /// Errors: input_error if the folder or its newest list cannot be read; nothing is in a folder
  ///         that is not there.
  counted_checkpoints(std::filesystem::path const& folder, disk& on) {
    for (std::int64_t seen = -1;;) {
      names_.clear();
      int const code = on.names(folder, disk::links::followed, names_);
      if (code == ENOENT) return;
      if (code != 0) file_name("folder of checkpoints", folder).fail("cannot be read", code);
      number_ = newest(list_start);
      if (number_ == 0) return;
      try {
        list_ = lease_text::read(folder / (std::string(list_start) + std::to_string(number_)), on);
        return;
      } catch (input_error const&) {  // a newer one has taken its place
        if (seen == number_) throw;
        seen = number_;
      }
    }
  }

  [[nodiscard]] std::vector<std::string> const& names() const { return names_; }
  /// The greatest number of those behind `start`, 0 if there is none.
  [[nodiscard]] std::int64_t newest(std::string_view start) const {
    std::int64_t out = 0;
    for (auto const& name : names_) out = std::max(out, number_behind(start, name).value_or(0));
    return out;
  }
  /// The greatest number that any lease has had, also where a user has removed its lock.
  [[nodiscard]] std::int64_t greatest_lease() const {
    auto out = std::max(newest(lock_start), newest(list_start));
    for (auto const& name : names_)
      if (auto const parts = checkpoint_name::from(name)) out = std::max(out, parts->lease);
    return out;
  }
  /// Names of plait's, sorted: what changes while somebody else works there.
  [[nodiscard]] std::vector<std::string> own_names() const {
    std::vector<std::string> out;
    for (auto const& name : names_)
      if (checkpoint_name::from(name) || number_behind(list_start, name) ||
          number_behind(lock_start, name))
        out.push_back(name);
    std::ranges::sort(out);
    return out;
  }

  [[nodiscard]] bool has(checkpoint_name const& name) const {
    return name.lease == 0 || !list_ || name.lease == number_ ||
           std::ranges::find(list_->names, name.text()) != list_->names.end();
  }
  /// Whether the first is to be taken before the second, of the same step.
  [[nodiscard]] bool is_before(checkpoint_name const& one, checkpoint_name const& other) const {
    return place(one) < place(other);
  }

 private:
  /// Of a step what the owner has written comes first, then what elastic jobs have written before.
  [[nodiscard]] std::tuple<int, std::int64_t, std::int64_t, int, std::string_view> place(
      checkpoint_name const& of) const {
    bool const is_owners = list_ && of.lease == (list_->id.empty() ? 0 : number_);
    return {is_owners ? 0 : of.lease > 0 ? 1 : 2, -of.lease, -of.save, of.what, of.digits};
  }

  std::vector<std::string> names_{};
  std::int64_t number_ = 0;
  std::optional<lease_text> list_{};
};

}  // namespace plait::detail
