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
#include "plait/core/header_only.hpp"
#include "plait/elastic/etcd.hpp"
#include "plait/elastic/etcd_access.hpp"

namespace plait::detail {

/// The store through which the processes of one generation exchange addresses: keys in etcd, each
/// attached to the lease of the process that wrote it.
class etcd_rendezvous_store final : public rendezvous_store {
 public:
  etcd_rendezvous_store(std::shared_ptr<etcd_access> access, std::chrono::milliseconds timeout,
                        std::string prefix, std::int64_t lease)
      : etcd_(std::move(access), timeout), prefix_(std::move(prefix)), lease_(lease) {}

  [[nodiscard]] std::string name() const override;
  [[nodiscard]] std::string what_to_check() const override {
    return "do all processes reach the same etcd?";
  }
  void make() override {}
  [[nodiscard]] bool put(std::string const& key, std::string_view value) override;
  [[nodiscard]] std::optional<std::string> get(std::string const& key) override;
  void remove(std::string const& key) noexcept override { erase(prefix_ + key, false); }
  void clear(bool) noexcept override { erase(prefix_, true); }

 private:
  void erase(std::string const& key, bool is_prefix) noexcept;

  etcd etcd_;
  std::string prefix_;
  std::int64_t lease_;
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/elastic/etcd_rendezvous_store.ipp"
#endif
