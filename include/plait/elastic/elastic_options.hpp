// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "plait/backend/process/processes.hpp"
#include "plait/core/clock.hpp"
#include "plait/elastic/etcd_security.hpp"

namespace plait {

/// Trains on processes that join and leave while the job runs: `launch<job>(elastic{.engine =
/// plait::gloo(), .at = "etcd://a:2379,b:2379", .job = "name", .min = 2, .max = 8}, program)`. The
/// job's policy is reproducible<Slices> with a data axis whose size is left to the launch. The
/// weights are therefore, bit for bit, the weights of an undisturbed run.
///
/// The program is called once for each generation, a time in which the set of ranks does not
/// change. If one of 8 ranks dies in step 120, generation 1 ends; generation 2 begins with 7 ranks
/// at the same step. The trained state of a surviving process outlives generations:
/// `checkpoints::resume` and `import_parameters` do nothing if there is such a state, and the loop
/// continues at `trainer.step_number()`.
///
/// Cost:   no call of etcd within a step. A rank that fails costs the step in which it failed.
/// Errors: an exception of the program ends its process, and the job if the same step fails twice.
/// Safety: as for gloo(); a program that may write to etcd can end the job, see `security`.
struct elastic {
  /// The carrier of the bytes: plait::gloo(...).
  std::shared_ptr<ext::process_engine> engine{};
  /// The servers of etcd, "etcds://..." for TLS; if empty, PLAIT_ELASTIC_AT.
  std::string at{};
  /// The job's name in etcd, of letters, digits, '-', '_' and '.'; if empty, PLAIT_JOB.
  std::string job{};
  /// Least and greatest number of replicas, which is the size of the data axis; 0: the values of
  /// PLAIT_ELASTIC, such as "2:8". Further processes wait until they are needed.
  int min = 0, max = 0;
  /// The time that the first generation waits for more than `min` replicas.
  std::chrono::milliseconds gather{5'000};
  /// The longest wait for another rank.
  std::chrono::milliseconds timeout{60'000};
  /// The time that a job with fewer than `min` replicas waits for processes.
  std::chrono::milliseconds wait_for_members{300'000};
  /// The time that a job waits for a process with the trained state if none is left, before it
  /// continues from a checkpoint. These four times do not run while etcd does not answer.
  std::chrono::milliseconds wait_for_state{30'000};
  /// The time that a job waits for etcd before it ends.
  std::chrono::milliseconds store_wait{600'000};
  /// \see processes for these options
  process_reduction reduction = process_reduction::ranked;
  process_streams streams = process_streams::concurrent;
  bool compare_calls = true;
  std::string token{};
  ext::axis_set require_local{};
  /// \see processes::flight_record; no records if empty
  std::string flight_record{};
  /// Certificates, user and password for etcd.
  etcd_security security{};

  using rank_type = processes::rank_type;
};

}  // namespace plait
