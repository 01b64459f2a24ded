// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "plait/backend/process/rendezvous_store.hpp"
#include "plait/core/clock.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/quote.hpp"
#include "plait/elastic/etcd.hpp"
#include "plait/elastic/etcd_access.hpp"

namespace plait::detail {

/// Where the processes of one generation leave each other notes, on the lease of who writes.
class etcd_rendezvous_store final : public rendezvous_store {
 public:
  etcd_rendezvous_store(std::shared_ptr<etcd_access> access, std::chrono::milliseconds timeout,
                        std::string prefix, std::int64_t lease)
      : etcd_(std::move(access), timeout), prefix_(std::move(prefix)), lease_(lease) {}

  [[nodiscard]] std::string name() const override {
    return concat({"etcd, keys ", in_quotes(prefix_)});
  }
  [[nodiscard]] std::string what_to_check() const override {
    return "do all processes reach the same etcd?";
  }
  void make() override {}
  [[nodiscard]] bool put(std::string const& key, std::string_view value) override {
    return etcd_
        .change({{prefix_ + key, etcd_condition::of::created, 0}},
                {{.key = prefix_ + key, .value = std::string(value), .lease = lease_}})
        .done;
  }
  [[nodiscard]] std::optional<std::string> get(std::string const& key) override {
    for (auto& one : etcd_.read(prefix_ + key).entries)
      if (one.key == prefix_ + key) return std::move(one.value);
    return std::nullopt;
  }
  void remove(std::string const& key) noexcept override { erase(prefix_ + key, false); }
  void clear(bool) noexcept override { erase(prefix_, true); }

 private:
  void erase(std::string const& key, bool is_prefix) noexcept {
    try {
      etcd_.change({}, {{.key = key, .is_prefix = is_prefix}});
    } catch (etcd_error const&) {  // the next generation removes what is left
    }
  }

  etcd etcd_;
  std::string prefix_;
  std::int64_t lease_;
};

}  // namespace plait::detail
