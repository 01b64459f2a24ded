// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/elastic/elastic_run.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "plait/backend/process/processes.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/hash.hpp"
#include "plait/core/number_range.hpp"
#include "plait/core/quote.hpp"
#include "plait/elastic/etcd.hpp"
#include "plait/elastic/etcd_http.hpp"
#include "plait/elastic/etcd_rendezvous_store.hpp"
#include "plait/train/options/stop_on_signals.hpp"
#include "plait/version.hpp"

namespace plait::detail {

PLAIT_DECL running_generation::running_generation(elastic_member& member, generation_record of,
                                                  carried_state& carried, int rank,
                                                  std::vector<int> member_of, int block)
    : member_(member),
      of_(std::move(of)),
      kept_(carried),
      rank_(rank),
      member_of_(std::move(member_of)),
      block_(block) {}

PLAIT_DECL void running_generation::end_job(std::int64_t step) {
  if (of_.signal != 0) throw stopped_by_signal(of_.signal, step);
  throw job_ended({"elastic: ", (of_.closing.empty() ? member_.why_lost() : of_.closing),
                   "; the job has ended after step ", step});
}

PLAIT_DECL void running_generation::refuse(std::vector<std::string> const& why) {
  std::vector<std::pair<std::string, std::string>> members;
  for (std::size_t rank = 0; rank < why.size(); ++rank)
    if (!why[rank].empty())
      members.emplace_back(of_.members[std::size_t(member_of_[rank])], why[rank]);
  member_.refuse(members);
  if (auto const& mine = why[std::size_t(rank_)]; !mine.empty())
    throw refused_rank(member_.refusal(mine));
  bool const is_first = std::ranges::find(why, "") - why.begin() == rank_;
  for (auto const& [uid, text] : members)
    if (is_first)
      std::fprintf(stderr, "plait: elastic: member %s is refused, and the job continues: %s\n",
                   uid.c_str(), text.c_str());
  end("members are refused");
}

PLAIT_DECL replica_ranks::replica_ranks(mesh const& grid)
    : replica_(grid.world_size() / grid.size(batch_axes)) {
  axis_set within;
  for (axis const which : all_axes)
    if (!batch_axes.contains(which)) within = within | which;
  for (int rank = 0; rank < grid.world_size(); ++rank) {
    auto const place = grid.coordinates_of(rank);
    member_of_.push_back(grid.place_in_group(place, batch_axes) * replica_ +
                         grid.place_in_group(place, within));
  }
}

PLAIT_DECL elastic_run::elastic_run(elastic const& options, elastic_job const& terms)
    : options_(options),
      terms_(terms),
      here_(process_mark::here()),
      member_(
          at(), access(), job(), uid(), concat({here_.host, " ", here_.boot}), job_terms_now(),
          times(), options_.store_wait, [this] { options_.engine->interrupt(); },
          [this](bool on) { options_.engine->hold_timeouts(on); }) {}

PLAIT_DECL void elastic_run::run(function_reference<void(elastic::rank_type&)> program) {
  for (;;) {
    auto const next =
        member_.next({.step = kept_.step, .block = kept_.step > 0 ? kept_.block : -1});
    switch (next.what) {
      case membership::act::leave: throw stopped_by_signal(member_.leaving(), kept_.step - 1);
      case membership::act::end:
        if (next.is_refused) throw refused_rank(member_.refusal(next.why));
        if (next.why.empty()) return say_if_late();
        throw job_ended({"elastic: the job has ended: ", next.why,
                         (member_.comes_late() ? concat({"; ", how_to_begin_anew()}) : "")});
      default: break;
    }
    if (run_generation(next, program)) return;
  }
}

PLAIT_DECL bool elastic_run::run_generation(membership::action const& now,
                                            function_reference<void(elastic::rank_type&)> program) {
  auto const& members = now.next.members;
  auto const groups = terms_.groups(static_cast<int>(members.size()) / terms_.replica);
  replica_ranks const ranks(groups.grid());
  int const rank = ranks.rank_of(now.rank);
  std::vector<char> accepted;
  try {
    process_ranks const here{.rank = rank,
                             .world_size = groups.grid().world_size(),
                             .job = job(),
                             .source = concat({"generation ", now.next.number, " of job ", job()})};
    options_.engine->begin_anew(
        here, std::make_unique<etcd_rendezvous_store>(member_.access(), store_time,
                                                      member_.keys().rendezvous(now.next.number),
                                                      member_.lease()));
    processes const backend{
        .engine = options_.engine,
        .ranks = here,
        .timeout = options_.timeout,
        .start_timeout = options_.timeout,
        .reduction = options_.reduction,
        .streams = options_.streams,
        .compare_calls = options_.compare_calls,
        .token = options_.token,
        .require_local = options_.require_local,
        .keep_numbers = true,
        .flight_record = options_.flight_record.empty() ? "off" : options_.flight_record};
    backend.run(groups, [&](elastic::rank_type& handle) {
      running_generation generation(member_, now.next, kept_, rank, ranks.members_of(),
                                    now.rank % terms_.replica);
      handle.belong_to(&generation);
      try {
        program(handle);
      } catch (collective_mismatch const&) {
        accepted = generation.accepted();
        throw;
      }
      generation.require_running();
    });
    member_.finish("", now.next);
    return true;
  } catch (generation_ended const&) {
    return false;
  } catch (refused_rank const&) {
    throw;
  } catch (job_ended const& end) {
    member_.finish(end.what(), now.next);
    throw;
  } catch (engine_error const& problem) {
    fail(problem, members, ranks, problem.rank, problem.rank >= 0);
  } catch (communication_timeout const& problem) {
    fail(problem, members, ranks, -1, true);
  } catch (wait_stopped_by_signal const& problem) {
    fail(problem, members, ranks, -1, true);
  } catch (collective_mismatch const& problem) {
    // The ranks' programs differ. The program of members that have trained the job before is taken
    // as the right one, if there are such members.
    bool const are_some = std::ranges::find(accepted, true) != accepted.end();
    bool const are_all = std::ranges::find(accepted, false) == accepted.end();
    if (!are_some || are_all || kept_.step > now.next.step) {
      note_failed_program(now.next, problem);
      throw;
    }
    options_.engine->abandon();
    std::string const why = std::string("its program calls other collectives: ") + problem.what();
    std::vector<std::pair<std::string, std::string>> joining;
    for (std::size_t one = 0; one < accepted.size(); ++one)
      if (!accepted[one])
        joining.emplace_back(members[std::size_t(ranks.member_of(int(one)))], why);
    member_.refuse(joining);
    if (!accepted[std::size_t(rank)]) throw refused_rank(member_.refusal(why));
  } catch (std::exception const& problem) {
    note_failed_program(now.next, problem);
    throw;
  }
  return false;
}

PLAIT_DECL void elastic_run::note_failed_program(generation_record const& in,
                                                 std::exception const& problem) {
  if (in.step == 0 || kept_.is_accepted)
    member_.note_failed_program(kept_.step, problem.what(), in);
}

PLAIT_DECL void elastic_run::fail(std::exception const& problem,
                                  std::vector<std::string> const& members,
                                  replica_ranks const& ranks, int named, bool has_noticed) {
  options_.engine->abandon();
  bool const is_known = named >= 0 && named < static_cast<int>(members.size());
  member_.report_failure(is_known ? members[std::size_t(ranks.member_of(named))] : "");
  if (has_noticed) std::fprintf(stderr, "plait: elastic: %s\n", problem.what());
}

PLAIT_DECL void elastic_run::say_if_late() const {
  if (!member_.comes_late()) return;
  std::fprintf(stderr,
               "plait: elastic: job '%s' is done: it has ended within the last ten minutes, and "
               "nothing is trained; %s\n",
               job().c_str(), how_to_begin_anew().c_str());
}

PLAIT_DECL std::string elastic_run::how_to_begin_anew() const {
  return concat({"to start it again, give it another name (PLAIT_JOB, .job), or delete the key ",
                 in_quotes(member_.keys().done()), " in etcd"});
}

PLAIT_DECL std::string elastic_run::variable(char const* name) {
  char const* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

PLAIT_DECL std::string elastic_run::at() const {
  auto out = options_.at.empty() ? variable("PLAIT_ELASTIC_AT") : options_.at;
  if (out.empty())
    throw input_error(
        "elastic: the address of etcd is not set; write .at = \"etcd://host:2379\", set "
        "PLAIT_ELASTIC_AT, or start the program by scripts/launch --elastic MIN:MAX");
  return out;
}

PLAIT_DECL std::shared_ptr<etcd_access> elastic_run::access() const {
  auto out = std::make_shared<etcd_access>(at(), with_environment(options_.security));
  for (int tries = 0;; ++tries) try {
      static_cast<void>(etcd(out, store_time).read(job_keys(job()).all()));
      return out;
    } catch (etcd_refusal const& problem) {
      if (tries > 0) throw input_error({"elastic: ", problem.what()});
    } catch (etcd_error const&) {
      return out;
    }
}

PLAIT_DECL std::string elastic_run::job() const {
  auto out = options_.job.empty() ? variable("PLAIT_JOB") : options_.job;
  bool const is_word = !out.empty() && out.find_first_not_of(
                                           "0123456789abcdefghijklmnopqrstuvwxyz"
                                           "ABCDEFGHIJKLMNOPQRSTUVWXYZ-_.") == std::string::npos;
  if (!is_word)
    throw input_error({"elastic: the job's name is ", in_quotes(out),
                       "; .job, or PLAIT_JOB, must have only letters, digits, '-', '_' and '.'"});
  return out;
}

PLAIT_DECL std::string elastic_run::uid() {
  if (auto out = variable("PLAIT_MEMBER"); !out.empty()) {
    if (out.size() > 64 || out.find_first_not_of("0123456789abcdef") != std::string::npos)
      throw input_error(
          {"elastic: PLAIT_MEMBER is ", in_quotes(out),
           "; it must be up to 64 hexadecimal digits, which differ between processes"});
    return out;
  }
  std::uint64_t number = 0;
  if (::getentropy(&number, sizeof number) != 0)
    throw engine_error("elastic: the system provides no random numbers");
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(number));
  return digits;
}

PLAIT_DECL std::pair<int, int> elastic_run::bounds() const {
  auto out = std::pair{options_.min, options_.max};
  auto const said = variable("PLAIT_ELASTIC");
  if (out.first == 0 && out.second == 0 && !said.empty()) {
    char rest = 0;
    if (std::sscanf(said.c_str(), "%d:%d%c", &out.first, &out.second, &rest) != 2)
      throw input_error(
          {"elastic: PLAIT_ELASTIC is ", in_quotes(said),
           "; it must be the least and the greatest number of replicas, such as 2:8"});
  }
  auto const [min, max] = out;
  if (min < 1 || max < min || max > terms_.slices)
    throw input_error({"elastic: .min is ", min, " and .max ", max,
                       "; they are numbers of replicas of a job that is reproducible<",
                       terms_.slices, ">, so 1 <= .min <= .max <= ", terms_.slices, " must hold"});
  return out;
}

PLAIT_DECL membership_terms elastic_run::times() const {
  auto const [min, max] = bounds();
  require_range("elastic::gather", options_.gather, number_ranges::from_0);
  require_range("elastic::timeout", options_.timeout, number_ranges::above_0);
  require_range("elastic::wait_for_members", options_.wait_for_members, number_ranges::from_0);
  require_range("elastic::wait_for_state", options_.wait_for_state, number_ranges::from_0);
  require_range("elastic::store_wait", options_.store_wait, number_ranges::from_0);
  return {.replica = terms_.replica,
          .min = min,
          .max = max,
          .gather = options_.gather,
          .timeout = options_.timeout,
          .wait_for_members = options_.wait_for_members,
          .wait_for_state = options_.wait_for_state};
}

PLAIT_DECL job_keys::terms elastic_run::job_terms_now() const {
  if (options_.engine == nullptr)
    throw input_error(
        "elastic: there is no engine; write elastic{.engine = plait::gloo()}, and include the "
        "engine's header");
  auto const [min, max] = bounds();
  auto const token = hash().add(options_.token).value();
  return {
      .plan = terms_.plan,
      .version = concat({PLAIT_VERSION_MAJOR, ".", PLAIT_VERSION_MINOR, ".", PLAIT_VERSION_PATCH}),
      .token = token,
      .min = min,
      .max = max};
}

}  // namespace plait::detail
