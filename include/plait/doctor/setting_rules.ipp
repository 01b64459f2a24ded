// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/doctor/setting_rules.hpp"

#include "plait/doctor/rule_parts.hpp"

namespace plait::ext {

PLAIT_DECL std::vector<finding> check_settings(std::vector<host_settings> const& all) {
  namespace rules = setting_rules;
  std::vector<finding> out;
  for (auto* const rule :
       {rules::blas_code,     rules::blas_threads,   rules::shared_cpu,    rules::throttled,
        rules::governor,      rules::steal_time,     rules::swap,          rules::numa_memory,
        rules::memory_limit,  rules::unlike_plait,   rules::unlike_build,  rules::unlike_blas,
        rules::unlike_mpi,    rules::unlike_nccl,    rules::unlike_cuda,   rules::unlike_driver,
        rules::unlike_clock,  rules::shared_memory,  rules::loopback,      rules::unlike_mtu,
        rules::unlike_speed,  rules::open_files,     rules::locked_memory, rules::gpu_peers,
        rules::gpu_lanes,     rules::gpu_generation, rules::gpu_clock,     rules::gpu_errors,
        rules::gpu_instances, rules::gpu_memory,     rules::gpu_shared,    rules::gpu_persistence})
    detail::doctor::append(out, rule(all));
  return out;
}

}  // namespace plait::ext
