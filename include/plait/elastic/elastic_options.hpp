// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "plait/backend/process/processes.hpp"
#include "plait/core/clock.hpp"
#include "plait/elastic/etcd_security.hpp"

namespace plait {

/// The backend that trains on processes which can join and leave while the job runs:
/// `launch<job>(elastic{.engine = plait::gloo(), .at = "etcd://a:2379,b:2379", .job = "name", .min
/// = 2, .max = 8}, program)`. The job's policy must be reproducible<Slices> with a data axis whose
/// size is chosen at the launch. The weights are therefore bit-identical to the weights of an
/// undisturbed run.
///
/// The program is called once for each generation, a time in which the set of ranks does not
/// change. If one of 8 ranks dies in step 120, generation 1 ends; generation 2 begins with 7 ranks
/// at the same step. A surviving process keeps its trained state in memory from one generation to
/// the next: `checkpoints::resume` and `import_parameters` then do nothing, and the loop continues
/// at `trainer.step_number()`.
///
/// Cost:   no call of etcd within a step. If a rank fails, only the step in which it failed is
///         lost.
/// Errors: an exception of the program ends its process, and the job if the same step fails twice.
/// Safety: as for gloo(); a program with write access to etcd can end the job, see `security`.
struct elastic {
  /// The engine that transfers data between the processes: plait::gloo(...).
  std::shared_ptr<ext::process_engine> engine{};
  /// The addresses of etcd's servers, "etcds://..." with TLS; if empty, the value of
  /// PLAIT_ELASTIC_AT.
  std::string at{};
  /// The job's name in etcd, of letters, digits, '-', '_' and '.'; if empty, the value of
  /// PLAIT_JOB.
  std::string job{};
  /// The least and the greatest number of replicas, which is the size of the data axis; if 0, the
  /// values of PLAIT_ELASTIC, such as "2:8". Further processes are spares, which wait until they
  /// are needed.
  int min = 0, max = 0;
  /// The time for which the first generation waits for more than `min` replicas.
  std::chrono::milliseconds gather{5'000};
  /// The longest wait for another rank of the running generation.
  std::chrono::milliseconds timeout{60'000};
  /// The time for which a job with fewer than `min` replicas waits for processes.
  std::chrono::milliseconds wait_for_members{300'000};
  /// If no process with the trained state is left, the time for which a job waits for such a
  /// process before it continues from a checkpoint. This time and the three times above do not
  /// advance while etcd does not answer.
  std::chrono::milliseconds wait_for_state{30'000};
  /// The time for which a job waits for an answer of etcd before the job ends.
  std::chrono::milliseconds store_wait{600'000};
  /// These options have the same meaning as in processes.
  process_reduction reduction = process_reduction::ranked;
  process_streams streams = process_streams::concurrent;
  bool compare_calls = true;
  std::string token{};
  ext::axis_set require_local{};
  /// The folder for flight records, see processes::flight_record; if empty, no records are written.
  std::string flight_record{};
  /// Certificates, user and password for etcd.
  etcd_security security{};

  using rank_type = processes::rank_type;
};

}  // namespace plait
