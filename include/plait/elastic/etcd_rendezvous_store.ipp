// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/elastic/etcd_rendezvous_store.hpp"

#include "plait/core/concat.hpp"
#include "plait/core/quote.hpp"

namespace plait::detail {

PLAIT_DECL std::string etcd_rendezvous_store::name() const {
  return concat({"etcd, keys ", in_quotes(prefix_)});
}

PLAIT_DECL bool etcd_rendezvous_store::put(std::string const& key, std::string_view value) {
  return etcd_
      .change({{prefix_ + key, etcd_condition::of::created, 0}},
              {{.key = prefix_ + key, .value = std::string(value), .lease = lease_}})
      .done;
}

PLAIT_DECL std::optional<std::string> etcd_rendezvous_store::get(std::string const& key) {
  for (auto& one : etcd_.read(prefix_ + key).entries)
    if (one.key == prefix_ + key) return std::move(one.value);
  return std::nullopt;
}

PLAIT_DECL void etcd_rendezvous_store::erase(std::string const& key, bool is_prefix) noexcept {
  try {
    etcd_.change({}, {{.key = key, .is_prefix = is_prefix}});
  } catch (etcd_error const&) {  // keys that remain are removed by the next generation
  }
}

}  // namespace plait::detail
