// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plait/backend/host/host_device.hpp"
#include "plait/backend/host/thread_communicator.hpp"
#include "plait/backend/rank.hpp"
#include "plait/core/header_only.hpp"
#include "plait/data/batches.hpp"
#include "plait/data/in_memory.hpp"
#include "plait/run/forward_watch.hpp"
#include "plait/run/synchronizer.hpp"
#include "plait/run/transfer_runner.hpp"
#include "plait/train/checks/consistency_check.hpp"
#include "plait/train/checks/set_up_checks.hpp"
#include "plait/train/export.hpp"
#include "plait/train/options/optimizer.hpp"
#include "plait/train/state/parameter_store.hpp"
#include "plait/train/state/step_memory.hpp"
#include "plait/train/work_between_steps.hpp"

// Instances of templates for ranks that are threads of one process. Nearly every program needs
// them, and they contain no type of the program, so they are compiled once, in the runtime. A
// program that links the runtime declares them extern. docs/benchmarks.md lists their sizes.
#if !defined(PLAIT_INSTANCE)
#define PLAIT_INSTANCE extern template
#endif

#if !PLAIT_HEADER_ONLY

namespace plait::execution {

using thread_rank = ext::rank_handle<ext::host_device, ext::thread_communicator>;

PLAIT_INSTANCE class transfer_runner<thread_rank>;
PLAIT_INSTANCE class synchronizer<ext::host_device>;
PLAIT_INSTANCE void number_gather::sum<thread_rank>(number_gather const&,
                                                    std::vector<std::uint64_t>&);
PLAIT_INSTANCE void compare_batches<host_memory>(number_gather const&,
                                                 device_batch<host_memory> const&,
                                                 std::string const&);

using float_elements = element_types<float, float, float>;
using double_elements = element_types<double, double, double>;

PLAIT_INSTANCE class parameter_store<float_elements, thread_rank>;
PLAIT_INSTANCE class parameter_store<double_elements, thread_rank>;
PLAIT_INSTANCE class export_work<parameter_store<float_elements, thread_rank>, thread_rank, float>;
PLAIT_INSTANCE class export_work<parameter_store<double_elements, thread_rank>, thread_rank,
                                 double>;
PLAIT_INSTANCE class step_memory<ext::host_device, sgd, 1>;
PLAIT_INSTANCE class step_memory<ext::host_device, adamw, 1>;
PLAIT_INSTANCE void transfer_runner<thread_rank>::sum<double>(int, double*) const;
PLAIT_INSTANCE void compare_trainers<sgd>(number_gather const&, plan_numbers const&, std::uint64_t,
                                          sgd const&, trainer_options const&, std::string const&);
PLAIT_INSTANCE void compare_trainers<adamw>(number_gather const&, plan_numbers const&,
                                            std::uint64_t, adamw const&, trainer_options const&,
                                            std::string const&);
PLAIT_INSTANCE void forward_watch::look<ext::host_device, float>(ext::host_device&, float const*,
                                                                 std::size_t,
                                                                 recorded_value const&);
PLAIT_INSTANCE void forward_watch::look<ext::host_device, double>(ext::host_device&, double const*,
                                                                  std::size_t,
                                                                  recorded_value const&);
}  // namespace plait::execution

PLAIT_INSTANCE class plait::in_memory<float, int>;
PLAIT_INSTANCE class plait::ext::loader<plait::in_memory<float, int>, void>;
PLAIT_INSTANCE class plait::ext::batch_range<plait::in_memory<float, int> const&,
                                             plait::execution::thread_rank, void>;
#endif
