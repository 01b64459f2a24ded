// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "plait/backend/collective_call.hpp"
#include "plait/backend/cuda/device/cuda_error.hpp"
#include "plait/backend/cuda/device/cuda_headers.hpp"
#include "plait/backend/cuda/device/cuda_state.hpp"
#include "plait/backend/cuda/device/device_scope.hpp"
#include "plait/core/clock.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/mesh/ranks_text.hpp"

namespace plait::ext {

/// Thrown if a call of NCCL fails; `what()` names the rank, the call, the group and NCCL's error.
struct nccl_error : cuda_error {
  using cuda_error::cuda_error;
};

}  // namespace plait::ext

namespace plait::detail {

[[gnu::cold]] inline void check_nccl(ncclResult_t code, std::string const& call, cuda_place at) {
  if (code == ncclSuccess || code == ncclInProgress) return;
  throw nccl_error({place_text(at), call, " failed: ", ncclGetErrorString(code), " (",
                    ncclGetLastError(nullptr), ")"});
}

// One rank's NCCL communicator. It is created as non-blocking, so that it can be aborted at any
// time: every call returns at once, and plait polls until the call has ended, has failed or has
// taken too long.
//
// If one rank aborts, all ranks must. The destructor therefore aborts if the job's signal is raised
// or an exception is being thrown; otherwise it finalizes and destroys the communicator.
// Threads: the rank's thread.
class nccl_link final : public stream_user {
 public:
  // Creates the communicator of the world. All its ranks call it, with the id that one of them has
  // made.
  nccl_link(cuda_state& state, std::vector<int> members, int rank, ncclUniqueId id)
      : state_(state), members_(std::move(members)) {
    auto config = make_config();
    device_scope const scope(state_.place);
    register_with_device([&] {
      state_.check_signal();
      settle(
          ncclCommInitRankConfig(comm_.get(), static_cast<int>(members_.size()), id, rank, &config),
          "ncclCommInitRankConfig");
    });
  }

  // Creates a communicator of some members of `world`; all ranks of the world create such a
  // communicator, or call take_no_part(), at the same time. `rank`: this rank's index in `members`.
  nccl_link(nccl_link& world, std::vector<int> members, int rank)
      : state_(world.state_), members_(std::move(members)) {
    auto config = make_config();
    config.splitShare = 1;  // so that all communicators of a rank are aborted together
    device_scope const scope(state_.place);
    register_with_device([&] {
      state_.check_signal();
      world.settle(ncclCommSplit(*world.comm_, members_.front(), rank, comm_.get(), &config),
                   "ncclCommSplit");
      settle(ncclSuccess, "ncclCommSplit");
    });
  }

  /// Takes part in an ncclCommSplit in which the other ranks of this world create communicators
  /// that do not contain this rank.
  void take_no_part() {
    auto config = make_config();
    config.splitShare = 1;
    device_scope const scope(state_.place);
    ncclComm_t none = nullptr;
    settle(ncclCommSplit(*comm_, NCCL_SPLIT_NOCOLOR, 0, &none, &config), "ncclCommSplit");
  }

  nccl_link(nccl_link const&) = delete;
  nccl_link& operator=(nccl_link const&) = delete;

  ~nccl_link() {
    bool const in_order = !state_.signal->is_raised() && std::uncaught_exceptions() == exceptions_;
    if (*comm_ != nullptr && in_order) try {
        device_scope const scope(state_.place);
        settle(ncclCommFinalize(*comm_), "ncclCommFinalize");
        (void)ncclCommDestroy(std::exchange(*comm_, nullptr));
      } catch (...) {  // leave() aborts the communicator
      }
    leave();
  }

  [[nodiscard]] std::vector<int> const& members() const { return members_; }
  // Returns the communicator for calls between ncclGroupStart and ncclGroupEnd, or null after an
  // abort.
  [[nodiscard]] ncclComm_t handle() const { return *comm_; }
  [[nodiscard]] std::string where() const {
    return concat({"NCCL group ", ranks_in_braces(members_)});
  }

  // Makes one call of NCCL: calls work(communicator), which returns an ncclResult_t.
  template <class Work>
  void issue(collective_call const& call, Work work) {
    begin(call);
    device_scope const scope(state_.place);
    settle(work(*comm_), nullptr);
  }

  // The functions that the base class stream_user requires.
  void check() override {
    if (*comm_ == nullptr) return;
    ncclResult_t now = ncclSuccess;
    auto const code = ncclCommGetAsyncError(*comm_, &now);
    if (code != ncclSuccess) now = code;
    if (now != ncclSuccess && now != ncclInProgress) fail(now, nullptr);
  }
  std::string pending() const override {
    return has_call_ ? call_text(last_, members_) : std::string{};
  }
  // Aborts in a separate thread, because the abort may hang if other ranks have died.
  void abandon() noexcept override {
    auto* const comm = std::exchange(*comm_, nullptr);
    if (comm == nullptr) return;
    try {
      std::promise<void> done;
      auto ended = done.get_future();
      std::thread([comm, done = std::move(done), at = state_.place]() mutable {
        (void)cudaSetDevice(at.device);  // the current device is per thread
        (void)ncclCommAbort(comm);
        done.set_value();
      }).detach();
      ended_ = std::move(ended);
    } catch (std::exception const&) {  // no further thread can be started
    }
  }
  bool is_ending() const noexcept override {
    return ended_.valid() && ended_.wait_for(std::chrono::seconds{0}) != std::future_status::ready;
  }

 private:
  static ncclConfig_t make_config() {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    return config;
  }

  // Calls make() to create the communicator, and registers it with the device. If make() fails, the
  // communicator is aborted here, since no destructor will run.
  template <class Make>
  void register_with_device(Make make) {
    try {
      make();
    } catch (...) {
      state_.users.push_back(this);
      leave();
      // The communicator is leaked, because NCCL may still write to it.
      if (gpu_is_stuck) (void)comm_.release();
      throw;
    }
    state_.users.push_back(this);
  }
  void leave() noexcept {
    if (*comm_ != nullptr) state_.abandon_all();
    std::erase(state_.users, static_cast<stream_user*>(this));
  }

  void begin(collective_call const& call) {
    state_.check_signal();
    last_ = call;
    has_call_ = true;
    if (*comm_ == nullptr)
      throw nccl_error({place_text(state_.place), call_text(call, members_),
                        ": the communicator has been aborted after an earlier error"});
  }

  // Waits until NCCL has accepted the call. `name`: the name of a function that moves no data, null
  // for a collective or message.
  void settle(ncclResult_t code, char const* name) {
    if (code != ncclSuccess && code != ncclInProgress) fail(code, name);
    ncclResult_t now = ncclInProgress;
    state_.wait_until(
        [&] {
          if (auto const asked = ncclCommGetAsyncError(*comm_, &now); asked != ncclSuccess)
            now = asked;
          return now != ncclInProgress;
        },
        [&] { return concat({name_of(name), " on ", where()}); });
    if (now != ncclSuccess) fail(now, name);
  }

  std::string name_of(char const* name) const {
    return name != nullptr ? std::string(name) : std::string(to_string(last_.kind));
  }

  [[noreturn, gnu::cold]] void fail(ncclResult_t code, char const* name) {
    std::string message =
        concat({place_text(state_.place),
                (name != nullptr ? concat({name, " on ", where()}) : call_text(last_, members_)),
                " failed in NCCL: ", ncclGetErrorString(code)});
    if (char const* const more = ncclGetLastError(*comm_); more != nullptr && *more != '\0')
      message += concat({" (", more, ")"});
    if (code == ncclRemoteError || code == ncclSystemError)
      message += "; a rank has probably ended: look at the first message of the other ranks";
    state_.abandon_all();
    throw nccl_error(message);
  }

  cuda_state& state_;
  std::vector<int> members_;
  std::unique_ptr<ncclComm_t> comm_ = std::make_unique<ncclComm_t>(nullptr);
  collective_call last_{};
  bool has_call_ = false;
  std::future<void> ended_;  // ready when an abort has ended
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace plait::detail
