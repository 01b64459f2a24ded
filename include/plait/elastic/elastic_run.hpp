// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plait/backend/generation.hpp"
#include "plait/backend/process/process_mark.hpp"
#include "plait/core/clock.hpp"
#include "plait/core/function_reference.hpp"
#include "plait/core/header_only.hpp"
#include "plait/elastic/elastic_member.hpp"
#include "plait/elastic/elastic_options.hpp"
#include "plait/elastic/etcd_access.hpp"
#include "plait/elastic/job_keys.hpp"
#include "plait/mesh/groups.hpp"

namespace plait::detail {

/// The properties of a job that launch() knows from its plan.
struct elastic_job {
  std::string plan{};  ///< the fingerprint of the plan
  int replica = 1;     ///< the number of ranks of a replica
  int slices = 0;
  std::function<mesh_groups(int data_ranks)> groups{};
};

/// The running generation, as the trainer of this process sees it.
class running_generation final : public generation {
 public:
  /// Rank r of the plan is member number `member_of[r]` of the generation.
  running_generation(elastic_member& member, generation_record of, carried_state& carried, int rank,
                     std::vector<int> member_of, int block);

  [[nodiscard]] std::string job_id() const override { return member_.job_id(); }
  [[nodiscard]] int number() const override { return of_.number; }
  double stop_votes() override {
    return member_.is_lost() ? job_cannot_go_on : member_.has_announced() ? 1 : 0;
  }
  [[nodiscard]] bool is_last() const override { return !of_.closing.empty(); }
  void require_membership(bool parts) override { member_.require_lease(parts); }
  [[nodiscard]] bool is_alone() override { return member_.is_alone(); }
  [[noreturn]] void end_job(std::int64_t step) override;
  [[noreturn]] [[gnu::cold]] void refuse(std::vector<std::string> const& why) override;
  carried_state& carried() override { return kept_; }
  [[nodiscard]] int block() const override { return block_; }

 private:
  elastic_member& member_;
  generation_record of_;
  carried_state& kept_;
  int rank_;
  std::vector<int> member_of_;
  int block_;
};

/// Maps members of a generation to ranks of a plan. Member i has block i % B (a part of the model)
/// of replica i / B, where B is the number of ranks of a replica. The plan may number its ranks in
/// another order.
class replica_ranks {
 public:
  explicit replica_ranks(mesh const& grid);
  /// Returns the rank of the plan that a member has; member_of() is the inverse.
  [[nodiscard]] int rank_of(int member) const {
    return static_cast<int>(std::ranges::find(member_of_, member) - member_of_.begin());
  }
  [[nodiscard]] int member_of(int rank) const { return member_of_[std::size_t(rank)]; }
  [[nodiscard]] std::vector<int> const& members_of() const { return member_of_; }

 private:
  int replica_;
  std::vector<int> member_of_;
};

/// Runs the program in this process for an elastic job, one generation after the other.
class elastic_run {
 public:
  elastic_run(elastic const& options, elastic_job const& terms);

  void run(function_reference<void(elastic::rank_type&)> program);

 private:
  /// Runs the program in one generation; returns false if another generation follows.
  bool run_generation(membership::action const& now,
                      function_reference<void(elastic::rank_type&)> program);
  /// Counts an exception against the job, which ends if the same step fails twice. If this process
  /// has joined recently and its state was never accepted, the exception is not counted, because a
  /// new process must not end a job that others train.
  [[gnu::cold]] void note_failed_program(generation_record const& in,
                                         std::exception const& problem);
  /// Reports a failed call. It blames rank `named`, unless that is -1. `has_noticed`: this process
  /// itself has found that a rank is gone; otherwise it was informed that the generation is over.
  [[gnu::cold]] void fail(std::exception const& problem, std::vector<std::string> const& members,
                          replica_ranks const& ranks, int named, bool has_noticed);

  /// Writes to stderr that nothing is trained, if the user has started a job that had already
  /// ended.
  [[gnu::cold]] void say_if_late() const;
  [[nodiscard]] std::string how_to_begin_anew() const;

  // These functions read the user's settings, from the options or the environment.

  static std::string variable(char const* name);
  [[nodiscard]] std::string at() const;
  /// Signs in to etcd before the job is joined, since a process that etcd refuses would wait in
  /// vain.
  ///
  /// Errors: input_error if etcd refuses this process. No error if etcd does not answer, since it
  ///         may answer later.
  [[nodiscard]] std::shared_ptr<etcd_access> access() const;
  [[nodiscard]] std::string job() const;
  static std::string uid();
  /// Returns the least and the greatest number of replicas.
  [[nodiscard]] std::pair<int, int> bounds() const;
  [[nodiscard]] membership_terms times() const;
  [[nodiscard]] job_keys::terms job_terms_now() const;

  static constexpr std::chrono::milliseconds store_time{1'500};

  elastic const& options_;
  elastic_job const& terms_;
  process_mark here_;
  generation::carried_state kept_{};
  elastic_member member_;
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/elastic/elastic_run.ipp"
#endif
