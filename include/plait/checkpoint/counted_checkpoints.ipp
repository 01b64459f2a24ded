// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/checkpoint/counted_checkpoints.hpp"

#include <algorithm>
#include <cerrno>
#include <span>

#include "plait/checkpoint/checksum.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/file.hpp"

namespace plait::detail {

PLAIT_DECL std::string lease_text::text() const {
  auto out = json();
  out["crc32"] = crc_of(out);
  return concat({dumped(out), "\n"});
}

PLAIT_DECL lease_text lease_text::read(std::filesystem::path const& path, disk& on) {
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
        "is damaged; if no process uses the folder, remove this file; then all checkpoints in the "
        "folder can be used");
  out.job = in["job"].template get<std::string>();
  out.id = in["id"].template get<std::string>();
  out.generation = in["generation"].template get<std::int64_t>();
  for (auto const& one : in["names"]) out.names.push_back(one.template get<std::string>());
  return out;
}

PLAIT_DECL std::uint32_t lease_text::crc_of(nlohmann::json const& of) {
  auto const text = dumped(of);
  return checkpoint_crc(std::as_bytes(std::span(text)));
}

PLAIT_DECL counted_checkpoints::counted_checkpoints(std::filesystem::path const& folder, disk& on) {
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
    } catch (input_error const&) {  // a newer owner has replaced the list
      if (seen == number_) throw;
      seen = number_;
    }
  }
}

PLAIT_DECL std::int64_t counted_checkpoints::newest(std::string_view start) const {
  std::int64_t out = 0;
  for (auto const& name : names_) out = std::max(out, number_behind(start, name).value_or(0));
  return out;
}

PLAIT_DECL std::int64_t counted_checkpoints::greatest_lease() const {
  auto out = std::max(newest(lock_start), newest(list_start));
  for (auto const& name : names_)
    if (auto const parts = checkpoint_name::from(name)) out = std::max(out, parts->lease);
  return out;
}

PLAIT_DECL std::vector<std::string> counted_checkpoints::own_names() const {
  std::vector<std::string> out;
  for (auto const& name : names_)
    if (checkpoint_name::from(name) || number_behind(list_start, name) ||
        number_behind(lock_start, name))
      out.push_back(name);
  std::ranges::sort(out);
  return out;
}

PLAIT_DECL bool counted_checkpoints::has(checkpoint_name const& name) const {
  return name.lease == 0 || !list_ || name.lease == number_ ||
         std::ranges::find(list_->names, name.text()) != list_->names.end();
}

PLAIT_DECL std::tuple<int, std::int64_t, std::int64_t, int, std::string_view>
counted_checkpoints::place(checkpoint_name const& of) const {
  bool const is_owners = list_ && of.lease == (list_->id.empty() ? 0 : number_);
  return {is_owners ? 0 : of.lease > 0 ? 1 : 2, -of.lease, -of.save, of.what, of.digits};
}

}  // namespace plait::detail
