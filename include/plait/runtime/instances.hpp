// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plait/backend/host/host_device.hpp"
#include "plait/backend/host/thread_communicator.hpp"
#include "plait/backend/rank.hpp"
#include "plait/core/header_only.hpp"
#include "plait/run/exchange_runner.hpp"
#include "plait/run/synchronizer.hpp"
#include "plait/train/not_finite.hpp"
#include "plait/train/set_up_checks.hpp"
#include "plait/train/work_between_steps.hpp"

// Instances of templates for ranks that are threads. Nearly every program needs them, and no type
// of the program is in them. The runtime defines them; a program that links the runtime declares
// them extern. docs/contributing.md has their sizes.
#if !defined(PLAIT_INSTANCE)
#define PLAIT_INSTANCE extern template
#endif

#if !PLAIT_HEADER_ONLY

namespace plait::execution {

using thread_rank = ext::rank_handle<ext::host_device, ext::thread_communicator>;

PLAIT_INSTANCE class exchange_runner<thread_rank>;
PLAIT_INSTANCE class synchronizer<ext::host_device>;
PLAIT_INSTANCE std::vector<std::uint64_t> numbers_of_all<thread_rank>(
    thread_rank&, agreement_room const&, std::vector<std::uint64_t> const&);
PLAIT_INSTANCE std::string not_finite_text<thread_rank>(thread_rank&, agreement_room const&,
                                                        std::vector<std::string> const&,
                                                        step_report const&,
                                                        std::optional<step_report> const&,
                                                        forward_watch const&);
PLAIT_INSTANCE void compare_text<thread_rank>(thread_rank&, agreement_room const&,
                                              std::string const&, std::string const&,
                                              std::string const&);
PLAIT_INSTANCE void compare_factors<thread_rank>(thread_rank&, agreement_room const&,
                                                 std::string const&,
                                                 lean_vector<named_factors> const&);
PLAIT_INSTANCE void compare_batches<thread_rank, host_memory>(thread_rank&, agreement_room const&,
                                                              device_batch<host_memory> const&,
                                                              std::string const&);
}  // namespace plait::execution
#endif
