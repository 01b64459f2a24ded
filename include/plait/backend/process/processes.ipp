// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/process/processes.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <numeric>

#include "plait/backend/process/lone_process.hpp"
#include "plait/backend/process/process_messages.hpp"
#include "plait/backend/process/start_check.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/number_range.hpp"
#include "plait/mesh/stream.hpp"

namespace plait {

PLAIT_DECL int processes::processors() const {
  checked_engine().set_timeout(in_bounds(start_timeout));
  return place().world_size;
}

PLAIT_DECL void processes::run_all(ext::mesh_groups const& groups,
                                   std::function<void(rank_type&)> const& program,
                                   void (*say_of_products)()) const {
  auto& with = checked_engine();
  with.set_timeout(in_bounds(start_timeout));
  bool const wants_two =
      streams == process_streams::concurrent && groups.grid().size(ext::batch_axes) > 1;
  auto const here = place_in(with, wants_two);
  auto const why_one = wants_two ? with.why_one_thread() : std::string();
  auto world = or_abandon(with, [&] { return group_of_all(with, here.world_size); });
  auto const met = or_abandon(with, [&] {
    return detail::meet_at_start(*world, here.world_size,
                                 {.groups = groups,
                                  .reduction = static_cast<int>(reduction),
                                  .streams = static_cast<int>(streams),
                                  .is_one_thread = !why_one.empty(),
                                  .compares_calls = compare_calls,
                                  .token = token,
                                  .require_local = require_local,
                                  .first_here = here.first_here});
  });
  // Up to the creation of the groups, all processes do the same with equal values, so that all of
  // them throw the same error.
  if (!met.difference.empty()) throw input_error(met.difference);
  check_world_size(here, groups.grid().world_size());
  detail::process_places const places(groups.grid(), met.hosts, here.rank, require_local,
                                      keep_numbers);
  places.check(groups.grid(), require_local);
  if (places.rank() == 0) say_of_products();
  if (places.rank() == 0 && met.of_one_thread >= 0) say_in_turn(why_one, met.of_one_thread);
  bool const has_two = wants_two && met.of_one_thread < 0;
  auto record = or_abandon(with, [&] {
    return std::make_unique<detail::flight_record>(flight_record, here, places.rank(), *world,
                                                   groups, has_two ? 2 : 1);
  });
  auto const on_rank = [&] {
    std::shared_ptr<detail::second_thread> second;
    if (has_two) second = std::make_shared<detail::second_thread>([&with] { with.abandon(); });
    process_groups made{{{false, everybody(here.world_size)}, std::move(world)}};
    auto const messages = std::make_shared<detail::process_messages>();
    std::vector<ext::process_communicator> members;
    for (int i = 0; i < groups.sets().size(); ++i) {
      members.push_back(member(with, groups, i, places, made, second, *record));
      members.back().post_by(messages);
    }
    for (auto& one : members)
      if (one.size() == here.world_size) one.wait_less_after_barrier(with, in_bounds(timeout));
    rank_type handle(groups, places.rank(), ext::process_device(second, messages),
                     std::move(members), places.hosts());
    ends_first const guard_of_members{second.get()};
    detail::leaves_messages const guard_of_messages{messages.get()};
    // An error is caught here, so that the engine is abandoned before its groups are destroyed.
    try {
      program(handle);
      handle.device().synchronize();
      handle.world().barrier();  // no rank ends while another rank still waits for it
    } catch (job_ended const&) {
      throw;
    } catch (...) {
      if (second != nullptr) second->give_up();  // also calls with.abandon()
      else with.abandon();
      throw;
    }
    return 0;
  };
  record->during(on_rank);
}

PLAIT_DECL std::chrono::milliseconds processes::in_bounds(std::chrono::milliseconds time) {
  using std::chrono::milliseconds;
  return std::clamp<milliseconds>(time, milliseconds{1}, std::chrono::hours{24 * 365});
}

PLAIT_DECL ext::process_engine& processes::checked_engine() const {
  detail::require_range("processes::timeout", timeout, number_ranges::above_0);
  detail::require_range("processes::start_timeout", start_timeout, number_ranges::above_0);
  if (engine == nullptr)
    throw input_error(
        "processes: there is no engine; write processes{.engine = plait::mpi()} or plait::gloo(), "
        "and include the engine's header");
  return *engine;
}

PLAIT_DECL ext::process_ranks processes::place_in(ext::process_engine& with,
                                                  bool second_thread) const {
  with.want_second_thread(second_thread);
  return or_abandon(with, [&] { return with.ranks(ranks ? &*ranks : nullptr); });
}

PLAIT_DECL void processes::say_in_turn(std::string const& why_here, int process) {
  auto const why = why_here.empty()
                       ? ext::concat({"the engine of process ", process, " serves only one thread"})
                       : why_here;
  std::fprintf(stderr, "plait: processes: %s; calls over batch axes and computations run in turn\n",
               why.c_str());
}

PLAIT_DECL std::vector<int> processes::everybody(int processes) {
  std::vector<int> all(static_cast<std::size_t>(processes));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

PLAIT_DECL std::unique_ptr<ext::process_group> processes::group_of_all(ext::process_engine& with,
                                                                       int processes) {
  if (processes == 1) return std::make_unique<detail::lone_process>(0);
  return with.make_group(everybody(processes));
}

PLAIT_DECL ext::process_communicator processes::member(
    ext::process_engine& with, ext::mesh_groups const& groups, int index,
    detail::process_places const& places, process_groups& made,
    std::shared_ptr<detail::second_thread> const& second, detail::flight_record& record) const {
  auto const over = groups.sets()[index];
  auto all = groups.grid().group_of(places.rank(), over);
  auto names = places.names(all, groups.grid(), over);
  auto const place = names.member;
  auto const numbers = places.processes(all);
  bool const is_handed =
      second != nullptr && all.size() > 1 && ext::stream_of(over) == ext::stream::data;
  auto& group = made[{is_handed, numbers}];
  if (group == nullptr)
    group = all.size() == 1 ? std::make_unique<detail::lone_process>(places.rank())
            : is_handed     ? with.make_group_of_second_thread(numbers, *second)
                            : with.make_group(numbers);
  group->name(std::move(names));
  ext::process_communicator out(group, std::move(all), place, over, reduction, compare_calls,
                                record.log(index, is_handed ? 1 : 0));
  if (second != nullptr) out.share_rank_with(second, is_handed);
  return out;
}

}  // namespace plait
