// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "plait/backend/backend.hpp"
#include "plait/backend/host/host_device.hpp"
#include "plait/backend/host/run_ranks.hpp"
#include "plait/backend/host/thread_communicator.hpp"
#include "plait/backend/host/thread_world.hpp"
#include "plait/backend/rank.hpp"
#include "plait/core/clock.hpp"
#include "plait/mesh/groups.hpp"
#include "plait/mesh/hosts.hpp"

namespace plait_test {

/// The faults of links between the ranks of planted_threads: slow messages, and a lost rank.
struct link_faults {
  /// Returns true if the link between two ranks of the job has the faults.
  std::function<bool(int, int)> are_between = [](int, int) { return false; };
  std::chrono::microseconds delay{0};  ///< added to the time of each message
  bool half_bandwidth = false;         ///< true if messages above 4096 bytes take twice as long
  /// The sender calls it at each message. It may throw, as a backend does that has lost a rank.
  std::function<void()> at_message = [] {};
};

/// A communicator of threads whose messages between some pairs of ranks are slow.
class planted_communicator : public plait::ext::communicator_calls<planted_communicator> {
 public:
  planted_communicator(plait::ext::thread_communicator inner, std::vector<int> members, int own,
                       std::shared_ptr<link_faults const> faults, plait::ext::axis_set over)
      : communicator_calls(over),
        inner_(std::move(inner)),
        members_(std::move(members)),
        own_(own),
        faults_(std::move(faults)) {}

  [[nodiscard]] int rank() const noexcept { return inner_.rank(); }
  [[nodiscard]] int size() const noexcept { return inner_.size(); }
  void wait_for_all() { inner_.wait_for_all(); }

  template <plait::ext::collective Kind, class T>
  void carry_out(plait::detail::collective_call const& call, std::size_t tensor_bytes) {
    auto const begin = std::chrono::steady_clock::now();
    inner_.template carry_out<Kind, T>(call, tensor_bytes);
    if constexpr (Kind == plait::ext::collective::send) {
      faults_->at_message();
      if (!faults_->are_between(own_, members_[static_cast<std::size_t>(call.other)])) return;
      if (faults_->half_bandwidth && call.bytes > 4096)
        std::this_thread::sleep_for(std::chrono::steady_clock::now() - begin);
      if (faults_->delay.count() > 0) std::this_thread::sleep_for(faults_->delay);
    }
  }

 private:
  plait::ext::thread_communicator inner_;
  std::vector<int> members_;
  int own_;
  std::shared_ptr<link_faults const> faults_;
};

/// A backend whose ranks are threads, which pretend to be on several hosts, and whose links have
/// planted faults.
struct planted_threads {
  int data_ranks = 0;
  std::vector<std::string> hosts{};  ///< the host of each rank; empty: all ranks on this host
  std::shared_ptr<link_faults const> faults = std::make_shared<link_faults>();

  using concept_tag = plait::ext::backend_tag;
  using rank_type = plait::ext::rank_handle<plait::ext::host_device, planted_communicator>;

  [[nodiscard]] int processors() const { return 2; }

  void run(plait::ext::mesh_groups const& groups,
           std::function<void(rank_type&)> const& program) const {
    auto const& grid = groups.grid();
    plait::ext::thread_world world(grid.world_size());
    auto const ids =
        plait::ext::declare_groups(groups, [&](std::vector<int> members, plait::ext::axis_set) {
          return world.add_group(std::move(members));
        });
    plait::ext::run_ranks(world, [&](int rank) {
      std::vector<planted_communicator> members;
      for (int i = 0; i < groups.sets().size(); ++i) {
        auto const over = groups.sets()[i];
        auto const of_group = grid.group_of(rank, over);
        members.emplace_back(
            plait::ext::thread_communicator(world, ids[std::size_t(rank)][std::size_t(i)], of_group,
                                            rank, over),
            of_group, rank, faults, over);
      }
      rank_type handle(groups, rank, plait::ext::host_device(rank), std::move(members),
                       hosts.empty() ? plait::host_map() : plait::host_map(hosts));
      program(handle);
    });
  }
};

}  // namespace plait_test
