// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "plait/backend/process/processes.hpp"
#include "plait/core/clock.hpp"
#include "plait/elastic/etcd_security.hpp"

namespace plait {

/// Processes that come and go while a job runs: `launch<job>(elastic{.engine = plait::gloo(), .at =
/// "etcd://a:2379,b:2379", .job = "name", .min = 2, .max = 8}, program)`. The job's policy is
/// reproducible<Slices> with a data axis whose size is left to the launch, so that the weights are
/// those of a run that nothing has disturbed, bit for bit.
///
/// The program is called once for each generation, the time in which the ranks stay the same. What
/// its trainer has trained outlives generations; `checkpoints::resume` and `import_parameters` do
/// nothing where there is such a state, and the loop goes on at `trainer.step_number()`.
///
/// Cost:   etcd is asked nothing within a step. A rank that is gone costs the step in which it
///         went.
/// Errors: an exception of the program ends its process, and the job if the same step fails twice.
/// Safety: as gloo(); who may write into etcd can end the job, see `security`.
struct elastic {
  /// Who carries the bytes: plait::gloo(...).
  std::shared_ptr<ext::process_engine> engine{};
  /// The servers of etcd, "etcds://..." where they are reached by TLS; if empty, PLAIT_ELASTIC_AT.
  std::string at{};
  /// The job's name in etcd, of letters, digits, '-', '_' and '.'; if empty, PLAIT_JOB.
  std::string job{};
  /// How many replicas, which is ranks of the data axis, the job has at least and at most; 0: as
  /// PLAIT_ELASTIC says, "2:8". Processes beyond the most wait until they are needed.
  int min = 0, max = 0;
  /// For how long the first generation waits for more than `min`,
  std::chrono::milliseconds gather{5'000};
  /// every wait for another rank lasts at most,
  std::chrono::milliseconds timeout{60'000};
  /// a job waits while it has fewer than `min`, and
  std::chrono::milliseconds wait_for_members{300'000};
  /// when no process is left that has what was trained, before it goes on from a checkpoint. None
  /// of these runs while etcd does not answer:
  std::chrono::milliseconds wait_for_state{30'000};
  /// for so long a job waits for etcd; then it ends.
  std::chrono::milliseconds store_wait{600'000};
  /// As processes have them.
  process_reduction reduction = process_reduction::ranked;
  process_streams streams = process_streams::concurrent;
  bool compare_calls = true;
  std::string token{};
  ext::axis_set require_local{};
  /// As processes have it, but that there are no records if it is empty.
  std::string flight_record{};
  /// Certificates, user and password for etcd.
  etcd_security security{};

  using rank_type = processes::rank_type;
};

}  // namespace plait
