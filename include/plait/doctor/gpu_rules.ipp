// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/doctor/gpu_rules.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "plait/core/concat.hpp"
#include "plait/core/quote.hpp"
#include "plait/doctor/rule_parts.hpp"
#include "plait/mesh/ranks_text.hpp"

namespace plait::detail::doctor {

// Calls `rule` for each rank that uses a GPU, with the settings of the GPU.
PLAIT_DECL std::vector<finding> of_each_gpu(
    all_settings const& all, std::string_view id, std::string_view what,
    function_reference<finding_words(gpu_settings const&, host_settings const&)> rule) {
  return of_each_rank(all, id, [&](host_settings const& of) {
    if (!of.uses_gpu) return finding_words{};
    if (!of.gpu.is_known()) return finding_words::unread(what, of.gpu.problem());
    return rule(of.gpu.value(), of);
  });
}

PLAIT_DECL std::string name_of(gpu_settings const& of) { return concat({"the GPU at ", of.bus}); }

// Returns the text for NVML's number of the cause of missing access.
PLAIT_DECL std::string cause_of_no_access(std::uint64_t status) {
  constexpr std::array<char const*, 6> texts{"",
                                             "the chipset does not support it",
                                             "a GPU does not support it",
                                             "the GPUs are on different I/O hubs",
                                             "the driver's registry turns it off",
                                             "it is not supported"};
  return status > 0 && status < texts.size() ? texts[status] : concat({"NVML's status ", status});
}

// Makes the finding about two ranks whose GPUs cannot access each other's memory; the finding has
// no id if they can.
PLAIT_DECL finding access_of_pair(host_settings const& a, host_settings const& b,
                                  std::string_view id) {
  auto const& peers = a.gpu.value().peers;
  constexpr auto what = "access to the memory of other GPUs";
  auto const& wanted = b.gpu.value().uuid;
  if (!peers.is_known()) return about({&a, &b}, id, finding_words::unread(what, peers.problem()));
  auto const found = std::find_if(peers.value().begin(), peers.value().end(),
                                  [&](gpu_peer const& each) { return each.uuid == wanted; });
  if (found == peers.value().end())
    return about({&a, &b}, id,
                 finding_words::unread(what, concat({"NVML does not list ", wanted})));
  if (!found->status.is_known())
    return about({&a, &b}, id, finding_words::unread(what, found->status.problem()));
  if (found->status.value() == 0) return {};
  return about({&a, &b}, id,
               {.measured = concat({name_of(a.gpu.value()), " cannot access the memory of ",
                                    name_of(b.gpu.value()), ": ",
                                    cause_of_no_access(found->status.value())}),
                .expected = "access to each other's memory",
                .what_to_do = "place the ranks on GPUs with access (`nvidia-smi topo -p2p r`), or "
                              "turn off ACS in the BIOS"});
}

// Returns the reason why the numbers of processes that NVML reports may differ from the numbers of
// the job's processes; "" if they are the same. NVML's numbers are the numbers outside of
// containers.
PLAIT_DECL std::string problem_of_process_numbers(host_settings const& of) {
  if (!of.pid_namespace.is_known()) return of.pid_namespace.problem();
  if (of.pid_namespace.value() == initial_pid_namespace) return "";
  return "the rank runs in a container that has its own numbers of processes";
}

}  // namespace plait::detail::doctor

namespace plait::ext::setting_rules {

PLAIT_DECL std::vector<finding> gpu_peers(std::vector<host_settings> const& all) {
  auto out = detail::doctor::of_each_gpu(
      all, "gpu-peers", "access to the memory of other GPUs",
      [](auto const&, auto const&) { return detail::doctor::finding_words{}; });
  for (auto const& ranks : detail::doctor::by_host(all)) {
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      for (std::size_t j = i + 1; j < ranks.size(); ++j) {
        auto const &a = *ranks[i], &b = *ranks[j];
        if (!a.uses_gpu || !b.uses_gpu || !a.gpu.is_known() || !b.gpu.is_known()) continue;
        if (a.gpu.value().uuid == b.gpu.value().uuid) continue;
        auto found = detail::doctor::access_of_pair(a, b, "gpu-peers");
        if (!found.id.empty()) out.push_back(std::move(found));
      }
    }
  }
  return out;
}

PLAIT_DECL std::vector<finding> gpu_lanes(std::vector<host_settings> const& all) {
  constexpr auto what = "lanes of the GPU's link";
  return detail::doctor::of_each_gpu(
      all, "gpu-lanes", what,
      [](gpu_settings const& gpu, auto const&) -> detail::doctor::finding_words {
        if (!gpu.lanes.is_known())
          return detail::doctor::finding_words::unread(what, gpu.lanes.problem());
        if (!gpu.most_lanes.is_known())
          return detail::doctor::finding_words::unread(what, gpu.most_lanes.problem());
        if (gpu.lanes.value() >= gpu.most_lanes.value()) return {};
        return {.measured = concat({"the PCI Express link of ", detail::doctor::name_of(gpu),
                                    " has ", gpu.lanes.value(), " lanes"}),
                .expected = concat({gpu.most_lanes.value()}),
                .what_to_do =
                    "check that the card is firmly in its slot, and check the slot's lanes in the "
                    "BIOS"};
      });
}

PLAIT_DECL std::vector<finding> gpu_generation(std::vector<host_settings> const& all) {
  constexpr auto what = "generation of the GPU's link";
  return detail::doctor::of_each_gpu(
      all, "gpu-generation", what,
      [](gpu_settings const& gpu, auto const&) -> detail::doctor::finding_words {
        using words = detail::doctor::finding_words;
        if (!gpu.generation.is_known()) return words::unread(what, gpu.generation.problem());
        if (!gpu.most_generation.is_known())
          return words::unread(what, gpu.most_generation.problem());
        if (gpu.generation.value() >= gpu.most_generation.value()) return {};
        bool const may_be_idle = !gpu.clock_causes.is_known() ||
                                 (gpu.clock_causes.value() & gpu_clock_causes::idle) != 0;
        return {.measured = concat({"the PCI Express link of ", detail::doctor::name_of(gpu),
                                    " is of generation ", gpu.generation.value(),
                                    may_be_idle ? ", and the device may be idle" : ""}),
                .expected = concat({"generation ", gpu.most_generation.value()}),
                .what_to_do = may_be_idle ? "look again while the device works"
                                          : "check the generation of the slot in the BIOS",
                .severity = may_be_idle ? finding_severity::note : finding_severity::slow};
      });
}

PLAIT_DECL std::vector<finding> gpu_clock(std::vector<host_settings> const& all) {
  constexpr auto what = "causes of a lower clock of the GPU";
  return detail::doctor::of_each_gpu(
      all, "gpu-clock", what,
      [](gpu_settings const& gpu, auto const&) -> detail::doctor::finding_words {
        if (!gpu.clock_causes.is_known())
          return detail::doctor::finding_words::unread(what, gpu.clock_causes.problem());
        namespace causes = gpu_clock_causes;
        struct cause {
          std::uint64_t bit;
          char const *text, *what_to_do;
          finding_severity severity;
        };
        constexpr std::array all_causes{
            cause{causes::thermal_by_hardware, "it is too hot (hardware)", "improve the cooling",
                  finding_severity::slow},
            cause{causes::thermal_by_software, "it is too hot (driver)", "improve the cooling",
                  finding_severity::slow},
            cause{causes::power_brake, "the power supply demands it", "check the power supply",
                  finding_severity::slow},
            cause{causes::hardware_slowdown, "the hardware demands it",
                  "check the cooling and the power supply", finding_severity::slow},
            cause{causes::sync_boost, "it keeps the clock of a group of GPUs",
                  "remove the group (sync boost)", finding_severity::slow},
            cause{causes::power_cap, "it is at its power limit",
                  "compare the limit with other hosts (`nvidia-smi -q -d POWER`)",
                  finding_severity::note},
            cause{causes::applications_clocks, "a user has set its clock",
                  "reset the clock (`nvidia-smi -rac`) if that is not intended",
                  finding_severity::note},
            cause{causes::display, "a display limits it", "remove the display",
                  finding_severity::note}};
        std::string texts;
        cause const* first = nullptr;
        for (auto const& each : all_causes) {
          if ((gpu.clock_causes.value() & each.bit) == 0) continue;
          texts += concat({texts.empty() ? "" : "; ", each.text});
          if (first == nullptr) first = &each;
        }
        if (first == nullptr) return {};
        return {.measured =
                    concat({"the clock of ", detail::doctor::name_of(gpu), " is lowered: ", texts}),
                .expected = "the full clock",
                .what_to_do = first->what_to_do,
                .severity = first->severity};
      });
}

PLAIT_DECL std::vector<finding> gpu_errors(std::vector<host_settings> const& all) {
  constexpr auto what = "memory errors (ECC) of the GPU";
  return detail::doctor::of_each_gpu(
      all, "gpu-errors", what,
      [](gpu_settings const& gpu, auto const&) -> detail::doctor::finding_words {
        using words = detail::doctor::finding_words;
        auto const text = [&](std::uint64_t count, char const* kind) {
          return concat({detail::doctor::name_of(gpu), " had ", count, " ", kind,
                         count == 1 ? " memory error" : " memory errors",
                         " since its driver was loaded"});
        };
        if (!gpu.uncorrected_errors.is_known())
          return words::unread(what, gpu.uncorrected_errors.problem());
        if (auto const count = gpu.uncorrected_errors.value(); count > 0)
          return {.measured = text(count, "uncorrected"),
                  .expected = "0",
                  .what_to_do = "reset the GPU, and replace it if the errors come again",
                  .severity = finding_severity::fails};
        if (!gpu.corrected_errors.is_known())
          return words::unread(what, gpu.corrected_errors.problem());
        if (auto const count = gpu.corrected_errors.value(); count > 0)
          return {.measured = text(count, "corrected"),
                  .expected = "0",
                  .what_to_do = "watch whether the number grows",
                  .severity = finding_severity::note};
        return {};
      });
}

PLAIT_DECL std::vector<finding> gpu_instances(std::vector<host_settings> const& all) {
  constexpr auto what = "instances (MIG) of the GPU";
  return detail::doctor::of_each_gpu(
      all, "gpu-instances", what,
      [](gpu_settings const& gpu, auto const&) -> detail::doctor::finding_words {
        if (!gpu.is_cut.is_known())
          return detail::doctor::finding_words::unread(what, gpu.is_cut.problem());
        if (gpu.is_cut.value() == 0) return {};
        return {.measured =
                    concat({detail::doctor::name_of(gpu), " is partitioned into instances (MIG)"}),
                .expected = "a whole GPU",
                .what_to_do =
                    "turn MIG off (`nvidia-smi -mig 0` as root), or expect the speed of an "
                    "instance; NCCL does not connect instances"};
      });
}

PLAIT_DECL std::vector<finding> gpu_memory(std::vector<host_settings> const& all) {
  constexpr auto what = "memory of the GPU in use";
  return detail::doctor::of_each_gpu(
      all, "gpu-memory", what,
      [&](gpu_settings const& gpu, host_settings const& of) -> detail::doctor::finding_words {
        if (!gpu.processes.is_known())
          return detail::doctor::finding_words::unread(what, gpu.processes.problem());
        auto const why_not = detail::doctor::problem_of_process_numbers(of);
        std::uint64_t bytes = 0;
        std::string others;
        for (auto const& each : gpu.processes.value()) {
          bool const is_rank = std::any_of(all.begin(), all.end(), [&](auto const& rank) {
            return rank.host == of.host && rank.process == each.process;
          });
          if (is_rank && why_not.empty()) continue;
          bytes += std::min(each.bytes, no_limit - bytes);
          others += concat({others.empty() ? "" : ", ", each.process});
        }
        if (others.empty()) return {};
        auto const use = concat({"processes (", others, ") use ", detail::doctor::bytes_text(bytes),
                                 " of ", detail::doctor::name_of(gpu)});
        if (!why_not.empty())
          return {.measured = concat({use, ", and may be the job's own (", why_not, ")"}),
                  .expected = "no other process",
                  .what_to_do = "look for other programs outside of the container (`nvidia-smi`)",
                  .severity = finding_severity::note};
        return {.measured = concat({"other ", use}),
                .expected = "no other process",
                .what_to_do = "end them, or use another GPU (CUDA_VISIBLE_DEVICES)"};
      });
}

PLAIT_DECL std::vector<finding> gpu_shared(std::vector<host_settings> const& all) {
  auto out = detail::doctor::of_each_gpu(
      all, "gpu-shared", "device of the rank",
      [](auto const&, auto const&) { return detail::doctor::finding_words{}; });
  std::vector<char> is_done(all.size(), 0);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!all[i].uses_gpu || !all[i].gpu.is_known() || is_done[i] != 0) continue;
    std::vector<host_settings const*> together;
    for (std::size_t j = i; j < all.size(); ++j) {
      if (!all[j].uses_gpu || !all[j].gpu.is_known()) continue;
      if (all[j].gpu.value().uuid != all[i].gpu.value().uuid) continue;
      together.push_back(&all[j]);
      is_done[j] = 1;
    }
    if (together.size() < 2) continue;
    out.push_back(detail::doctor::about(
        together, "gpu-shared",
        {.measured =
             concat({together.size(), " ranks use ", detail::doctor::name_of(all[i].gpu.value())}),
         .expected = "a GPU for each rank",
         .what_to_do = "start as many ranks on a host as it has GPUs, and let each rank choose its "
                       "own; NCCL refuses two ranks on one GPU",
         .severity = finding_severity::fails}));
  }
  return out;
}

PLAIT_DECL std::vector<finding> gpu_persistence(std::vector<host_settings> const& all) {
  constexpr auto what = "persistence mode of the GPU";
  return detail::doctor::of_each_gpu(
      all, "gpu-persistence", what,
      [](gpu_settings const& gpu, auto const&) -> detail::doctor::finding_words {
        if (!gpu.is_persistent.is_known())
          return detail::doctor::finding_words::unread(what, gpu.is_persistent.problem());
        if (gpu.is_persistent.value() != 0) return {};
        return {.measured =
                    concat({"the persistence mode of ", detail::doctor::name_of(gpu), " is off"}),
                .expected = "on",
                .what_to_do = "start nvidia-persistenced, so that programs start faster",
                .severity = finding_severity::note};
      });
}

}  // namespace plait::ext::setting_rules
