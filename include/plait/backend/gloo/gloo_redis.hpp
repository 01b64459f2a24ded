// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hiredis/hiredis.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "plait/backend/gloo/gloo_redis_address.hpp"
#include "plait/backend/gloo/gloo_redis_tls.hpp"
#include "plait/backend/process/rendezvous_store.hpp"
#include "plait/core/clock.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/header_only.hpp"

namespace plait::detail {

/// Notes in a Redis server, under a prefix of the job. They vanish by themselves if the job is
/// killed before rank 0 can remove them.
class gloo_redis final : public rendezvous_store {
 public:
  /// `address`: as gloo_redis_address says. No answer takes longer than `timeout`, nor than ten
  /// seconds, and notes stay for two of `timeout`.
  gloo_redis(std::string const& address, std::string_view job, std::chrono::milliseconds timeout);

  [[nodiscard]] std::string name() const override;
  [[nodiscard]] std::string what_to_check() const override {
    return "were all ranks given this server, and the same job name by their launcher?";
  }

  void make() override {}
  [[nodiscard]] bool put(std::string const& key, std::string_view value) override;
  [[nodiscard]] std::optional<std::string> get(std::string const& key) override;
  void remove(std::string const& key) noexcept override;
  /// The other ranks' keys are found by their prefix.
  void clear(bool) noexcept override;

 private:
  struct disconnect {
    void operator()(::redisContext* server) const { ::redisFree(server); }
  };
  redis_reply ask(std::vector<std::string> const& words);
  /// What the server says to it is not repeated, as that could have the password in it.
  void show_password(gloo_redis_address const& to);
  redis_reply send(std::vector<std::string> const& words);
  [[noreturn]] void refuse(std::string_view what) const;
  [[noreturn]] void fail(std::string_view what) const;

  std::string address_, prefix_, stays_;
  std::chrono::milliseconds longest_;
  std::unique_ptr<::redisContext, disconnect> server_;
  std::unique_ptr<gloo_redis_tls> tls_{};
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/gloo/gloo_redis.ipp"
#endif
