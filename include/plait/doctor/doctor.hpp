// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <unistd.h>
#include <thread>

#include "plait/backend/backend.hpp"
#include "plait/backend/process/process_engine.hpp"
#include "plait/backend/process/processes.hpp"
#include "plait/core/bfloat16.hpp"
#include "plait/core/error.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/doctor/activity_rules.hpp"
#include "plait/doctor/doctor_options.hpp"
#include "plait/doctor/doctor_progress.hpp"
#include "plait/doctor/doctor_results.hpp"
#include "plait/doctor/host_activity.hpp"
#include "plait/doctor/host_settings.hpp"
#include "plait/doctor/measure_collectives.hpp"
#include "plait/doctor/measure_links.hpp"
#include "plait/doctor/measure_work.hpp"
#include "plait/doctor/setting_rules.hpp"
#include "plait/doctor/settings_text.hpp"
#include "plait/doctor/speed_rules.hpp"
#include "plait/mesh/axis.hpp"
#include "plait/mesh/groups.hpp"
#include "plait/mesh/mesh.hpp"

namespace plait::ext {

/// A backend for plait-doctor: its name in the machine file, and a function that adds the facts
/// about a rank that only a program of this backend knows.
///
/// Syntax: `facts(rank, request)` is called on each rank. It fills in the members of the
///         settings_request that describe the backend: the versions of its libraries, and the
///         rank's GPU.
template <class Backend, class Facts>
struct doctor_backend {
  std::string name{};
  Backend backend{};
  Facts facts{};
};
template <class Backend, class Facts>
doctor_backend(char const*, Backend, Facts) -> doctor_backend<Backend, Facts>;

}  // namespace plait::ext

namespace plait::detail::doctor {

/// One run of plait-doctor with a backend.
///
/// Each phase is a launch of all ranks, because the groups and the streams of a launch are fixed.
/// In each phase, a rank measures, and gathers the measurements of all ranks. So all ranks have
/// equal results and equal findings, and each process knows without a message which phase is next.
/// Rank 0 sends its exit code to all processes.
template <class Backend, class Facts>
class doctor_run {
  using rank_type = typename Backend::rank_type;
  using exchange_type = rank_exchange<rank_type>;

 public:
  doctor_run(ext::doctor_backend<Backend, Facts> const& of, ext::doctor_options const& options)
      : of_(of), options_(options), only_(options.only) {}

  int run() {
    began_ = seconds_now();
    try {
      process_rank_ = own_rank();
      prints_ = process_rank_ == 0;
      ranks_ = number_of_ranks();
      ranks_of_process_.resize(static_cast<std::size_t>(ranks_));
      doctor_progress progress(only_.links ? 20 : 8, prints_);
      progress_ = &progress;
      measure_all();
    } catch (usage_error const& problem) {
      if (prints_) std::fprintf(stderr, "plait-doctor: %s\n", problem.what());
      return 2;
    } catch (ext::engine_error const& problem) {
      return report_failure(problem.rank, problem.what());
    } catch (communication_timeout const& problem) {
      return report_failure(rank_awaited_in(problem.what()), problem.what());
    } catch (std::exception const& problem) {
      return report_failure(-1, problem.what());
    }
    return code_;
  }

  /// Returns the results after run(): the results of rank 0 if it runs in this process, else the
  /// results of the process's own rank.
  [[nodiscard]] doctor_results const& results() { return own_state().results; }

 private:
  /// The results and the first settings of a rank. A process has an element for each rank of the
  /// job, and uses only the elements of its own ranks.
  struct rank_state {
    doctor_results results{};
    std::optional<ext::host_settings> at_begin{};
    std::vector<ext::product_shape> more_products{};
    bool is_quiet = false;
  };

  [[nodiscard]] int number_of_ranks() const {
    if constexpr (requires { requires Backend::processors_are_ranks; }) {
      int const started = of_.backend.processors();
      if (options_.ranks > 0 && options_.ranks != started)
        throw usage_error({"-n ", options_.ranks, ": the launcher has started ", started,
                           " processes, and each is a rank; leave -n out"});
      return started;
    } else {
      if (options_.ranks > 0) return options_.ranks;
      int most = std::max(1, of_.backend.processors());
      // A rank that computes on a processor needs one on which it may run.
      if constexpr (std::is_same_v<typename rank_type::device_type::memory, ext::host_memory>) {
        ext::settings_request const request;
        auto const own = ext::read_host_settings(files_, request);
        if (own.cpus.is_known()) most = std::min(most, static_cast<int>(own.cpus.value().size()));
      }
      return most;
    }
  }
  /// Returns the rank of this process, or 0 if all ranks run in this process.
  [[nodiscard]] int own_rank() const {
    if constexpr (requires { of_.backend.place(); }) return of_.backend.place().rank;
    else return 0;
  }
  [[nodiscard]] rank_state& state_of(rank_type& rank) {
    return ranks_of_process_[static_cast<std::size_t>(rank.world_rank())];
  }
  /// Returns the state of the first rank that runs in this process: rank 0 if it runs here.
  [[nodiscard]] rank_state& own_state() {
    for (auto& one : ranks_of_process_)
      if (one.at_begin) return one;
    return ranks_of_process_.front();
  }

  // ---- Phases -----------------------------------------------------------------------------------

  void measure_all() {
    ext::mesh all;
    all.add(axis::data, ranks_);
    launch(of_.backend, all, "while the ranks met", [&](rank_type& rank) { begin(rank); });
    measure_speeds(all, false);
    auto& own = own_state();
    auto const& found = own.results.findings;
    bool const is_slow = std::any_of(found.begin(), found.end(), [](auto const& one) {
      return one.severity == ext::finding_severity::slow;
    });
    if (own.is_quiet && is_slow) measure_again(all);
    auto& results = own.results;
    if (only_.settings) {
      auto settings = ext::check_settings(results.settings);
      settings.insert(settings.end(), results.findings.begin(), results.findings.end());
      results.findings = std::move(settings);
    }
    results.seconds = seconds_now() - began_;
    progress_->end();
    // Rank 0 reports while the others wait, because launchers end a job when a process has ended.
    launch(of_.backend, all, "while rank 0 reported", [&](rank_type& rank) {
      exchange_type exchange(rank);
      code_ = static_cast<int>(exchange.of_all(rank.is_root() ? double(report()) : 0.0)[0]);
    });
  }

  /// Launches a program on all ranks. `doing` describes the time of the launch, for a message about
  /// a failure: "while links were measured".
  template <class With>
  void launch(With const& with, ext::mesh_groups const& groups, std::string_view doing,
              std::function<void(rank_type&)> const& program) {
    doing_ = doing;
    with.run(groups, program);
  }

  /// Measures all parts that the options select, and adds the findings about speeds to the results.
  /// `again`: true for a second measurement, which has only the parts that rules compare.
  void measure_speeds(ext::mesh const& all, bool again) {
    bool const works = only_.products || only_.memory;
    bool const has_links = only_.links && ranks_ > 1;
    if (!works && !has_links) return;
    launch(of_.backend, all, "while products and collectives were measured", [&](rank_type& rank) {
      watch(rank, [&](exchange_type& exchange) {
        if (works) measure_work(rank, exchange, again);
        if (has_links && !again)
          measure_collectives(rank, exchange, rank.world(), ext::rank_group::world);
      });
    });
    if (!has_links) return judge();
    if constexpr (has_messages<rank_type>)
      launch(without_second_thread(), all, "while links were measured", [&](rank_type& rank) {
        watch(rank, [&](exchange_type& exchange) { measure_links(rank, exchange); });
      });
    else
      for (auto& one : ranks_of_process_)
        one.results.findings.push_back(
            not_measured("the backend has no messages between two ranks, so links between pairs "
                         "of ranks were not measured"));
    int const each = ranks_of_each_host(own_state().results.job.hosts);
    if (each > 0 && !again) {
      ext::mesh grid;
      grid.add(axis::replica, ranks_ / each);
      grid.add(axis::data, each);
      launch(of_.backend, grid, "while collectives of hosts were measured", [&](rank_type& rank) {
        watch(rank, [&](exchange_type& exchange) {
          auto const& axes = rank.grid().dimensions;
          measure_collectives(rank, exchange, rank.group(axes[1].which), ext::rank_group::host);
          measure_collectives(rank, exchange, rank.group(axes[0].which),
                              ext::rank_group::one_per_host);
        });
      });
    }
    judge();
  }

  /// Applies the rules about speeds. All ranks have equal results, so they have equal findings.
  void judge() {
    for (auto& one : ranks_of_process_) {
      if (!one.at_begin) continue;
      auto& results = one.results;
      one.is_quiet = ext::is_quiet(results.job);
      summarize(results, one.is_quiet);
      auto found = ext::activity_rules::busy_cpu(results.job);
      if (one.is_quiet) found = ext::check_speeds(results.job);
      results.findings.insert(results.findings.end(), found.begin(), found.end());
    }
  }

  /// Measures the speeds that the rules compare a second time, and applies the rules to the better
  /// number of both measurements for each rank and each pair; see better_of().
  void measure_again(ext::mesh const& all) {
    std::vector<doctor_results> first;
    for (auto& one : ranks_of_process_) {
      first.push_back(one.results);
      auto const hosts = one.results.job.hosts;
      auto const cpus = one.results.job.cpus;
      one.results.job = {.hosts = hosts, .cpus = cpus};
      one.results.of.element_types.clear();
      one.results.findings.clear();
    }
    measure_speeds(all, true);
    for (std::size_t i = 0; i < first.size(); ++i) {
      auto& one = ranks_of_process_[i];
      auto const better = ext::better_of(first[i].job, one.results.job);
      auto settings = std::move(one.results.settings);
      one.results = std::move(first[i]);
      one.results.settings = std::move(settings);
      one.results.job = better;
      auto& found = one.results.findings;
      found.erase(std::remove_if(found.begin(), found.end(),
                                 [](auto const& each) { return each.id != "not-measured"; }),
                  found.end());
    }
    judge();
  }

  // ---- Programs of a rank -----------------------------------------------------------------------

  /// Reads the settings and exchanges them.
  void begin(rank_type& rank) {
    auto& state = state_of(rank);
    auto own = read_settings(rank);
    state.at_begin = own;
    exchange_type exchange(rank);
    doctor_files files;
    if (rank.is_root()) files = read_files(options_, state.results);
    auto const problem = exchange.of_root(files.problem);
    if (!problem.empty()) throw usage_error({problem});
    auto const products = exchange.of_root(files.products);
    if (!products.empty())
      state.more_products = ext::product_shapes_of(products, options_.products);
    take_settings(exchange, state, own);
    require_room(state.more_products, state.results.settings);
    describe(state.results, options_, of_.name);
    if (!only_.products && !only_.memory && !only_.links && only_.settings) {
      // No measurement takes time here, so wait until the counters of quotas have counted.
      std::this_thread::sleep_for(std::chrono::milliseconds(1500));
      finish_settings(rank, exchange);
    }
  }

  void take_settings(exchange_type& exchange, rank_state& state, ext::host_settings const& own) {
    state.results.settings.clear();
    for (auto const& text : exchange.of_all(ext::to_text(own)))
      state.results.settings.push_back(ext::settings_from_text(text));
  }
  /// Reads the settings again, so that counters have counted since begin().
  void finish_settings(rank_type& rank, exchange_type& exchange) {
    auto& state = state_of(rank);
    auto own = read_settings(rank);
    own.count_from(*state.at_begin);
    take_settings(exchange, state, own);
  }

  ext::host_settings read_settings(rank_type& rank) {
    ext::settings_request request;
    request.rank = rank.world_rank();
    request.host = rank.hosts().name_of(rank.world_rank());
    if (request.host.empty()) request.host = host_name();
    request.build = ext::compiler_flags();
    request.blas = blas_;
    of_.facts(rank, request);
    return ext::read_host_settings(files_, request);
  }
  /// Returns the facts about the BLAS library, with the number of threads that the environment
  /// states; see stated_blas_threads(). The library's own number says nothing about the user's
  /// setting: if the user has set nothing, it is the number of processors, and a launch sets it to
  /// 1 for each rank.
  [[nodiscard]] static ext::blas_facts blas_of_job() {
    auto out = ext::blas_facts::of_program();
    if (out.threads.is_known()) out.threads = stated_blas_threads();
    return out;
  }
  [[nodiscard]] static std::string host_name() {
    char name[256] = "";
    if (::gethostname(name, sizeof name - 1) != 0) return "this host";
    return name;
  }

  /// Calls `measure`, and measures how much others use the processors of the ranks meanwhile. Then
  /// reads the settings again.
  template <class Measure>
  void watch(rank_type& rank, Measure measure) {
    auto& state = state_of(rank);
    exchange_type exchange(rank);
    auto const begin = seconds_now();
    auto const before = ext::read_host_activity(files_);
    measure(exchange);
    // In a shorter time, a tick more or less would decide whether others use more than 5 %.
    double const left = 1.2 - (seconds_now() - begin);
    if (left > 0) std::this_thread::sleep_for(std::chrono::duration<double>(left));
    exchange.meet();
    auto const after = ext::read_host_activity(files_);

    auto const& settings = state.results.settings;
    auto const own = static_cast<std::size_t>(rank.world_rank());
    auto const numbers = numbers_on_hosts(state.results.job.hosts);
    std::vector<ext::rank_place> places;
    bool sees_all = true;
    for (auto const& one : settings) {
      if (one.host != settings[own].host) continue;
      sees_all &= one.pid_namespace == settings[own].pid_namespace;
      // A place without processors makes the use unknown.
      places.push_back({one.process, one.cpus.is_known() ? one.cpus.value() : std::vector<int>()});
    }
    // All ranks of a host use the numbers from the snapshots of its first rank. Snapshots of other
    // ranks would differ a little, and ranks that share processors would have unequal numbers.
    std::vector<std::vector<ext::processor_use>> of_first;
    auto use = ext::use_between(before, after, places);
    if (!sees_all)
      for (auto& one : use)
        one.others = ext::reading<double>::unknown(
            "ranks of this host are in containers with process numbers of their own");
    for (auto const& text : exchange.of_all(numbers[own] == 0 ? ext::to_text(use) : std::string()))
      of_first.push_back(text.empty() ? std::vector<ext::processor_use>()
                                      : ext::processor_use_from_text(text));
    std::vector<ext::processor_use> of_ranks;
    for (std::size_t i = 0; i < settings.size(); ++i) {
      std::size_t first = 0;
      while (settings[first].host != settings[i].host) ++first;
      of_ranks.push_back(of_first.at(first).at(static_cast<std::size_t>(numbers[i])));
    }
    // The result has the use of the phase in which others used more.
    ext::measured_job phase;
    phase.use = std::move(of_ranks);
    state.results.job = ext::better_of(state.results.job, phase);
    finish_settings(rank, exchange);
  }

  void measure_work(rank_type& rank, exchange_type& exchange, bool again) {
    auto& state = state_of(rank);
    auto const numbers = numbers_on_hosts(state.results.job.hosts);
    work_measurement<rank_type> work(rank, exchange,
                                     numbers[static_cast<std::size_t>(rank.world_rank())],
                                     1 + *std::max_element(numbers.begin(), numbers.end()));
    std::vector<ext::product_shape> shapes;
    if (only_.products && !again) {
      shapes = usual_products(options_.full);
      for (auto const& one : state.more_products)
        if (std::find(shapes.begin(), shapes.end(), one) == shapes.end()) shapes.push_back(one);
    } else if (only_.products) {
      shapes = {{32, 32, 32}};
    }
    auto limits = options_.full ? turn_limits{9, 27, 1e-2} : turn_limits{};
    if (!options_.full) limits.more_seconds = 0.25;
    auto& job = state.results.job;
    auto& of = state.results.of;
    auto& progress = progress_of(rank);
    work.template measure<float>(shapes, only_.memory, limits, progress, of);
    work.template measure<double>(shapes, only_.memory, limits, progress, of);
    work.template measure<bfloat16>(shapes, only_.memory, limits, progress, of);
    if (only_.memory) work.measure_copies(limits, progress, of);
    job.work = work.work();
    if (only_.products) work.measure_turns(options_.full ? 10 : 2, progress, job);
  }

  void measure_collectives(rank_type& rank, exchange_type& exchange,
                           typename rank_type::communicator_type& group, ext::rank_group over) {
    collective_measurement<rank_type> of(rank, exchange, group);
    of.measure(over, options_.full ? turn_limits{15, 45, 2e-2} : turn_limits{5, 15, 4e-3, 1.0},
               options_.full ? 10.0 : 0.05, progress_of(rank),
               state_of(rank).results.of.collectives);
  }

  void measure_links(rank_type& rank, exchange_type& exchange) {
    progress_of(rank).begin("links");
    auto& results = state_of(rank).results;
    auto& links = results.job.links;
    auto const& hosts = results.job.hosts;
    link_measurement<rank_type> of(rank, exchange);
    auto rounds = rounds_of_job(hosts);
    if (has_too_few_processors(results.settings)) rounds = one_by_one(rounds);
    of.measure(rounds, links.latency_seconds, links.bytes_per_second);
    std::vector<pair_round> alone;
    auto const add = [&](std::vector<std::pair<int, int>> const& pairs) {
      for (auto const& [a, b] : pairs) {
        pair_round const round{{std::min(a, b), std::max(a, b)}};
        if (std::find(alone.begin(), alone.end(), round) == alone.end()) alone.push_back(round);
      }
    };
    add(ext::outliers(links, hosts));
    add(usual_pairs(hosts));
    of.measure(alone, links.latency_alone_seconds, links.bytes_alone_per_second);
  }

  // ---- Reports ----------------------------------------------------------------------------------

  /// Prints the report, writes the files, and returns the exit code: 2 if a file cannot be written.
  int report() {
    auto& results = own_state().results;
    int const code = ext::exit_code_of(results.findings, options_.strict);
    auto const text =
        options_.json ? report_json(results, code) : report_text(results, options_, code);
    if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0) {
      std::fprintf(stderr, "plait-doctor: the report cannot be written to standard output\n");
      return 2;
    }
    try {
      write_files(results, options_);
    } catch (usage_error const& problem) {
      std::fprintf(stderr, "plait-doctor: %s\n", problem.what());
      return 2;
    }
    return code;
  }

  /// Reports a job that has failed, with all results from before the failure, and returns 3.
  /// `rank`: the rank that is missing, or -1 if it is unknown. Each process prints the failure,
  /// because rank 0 may be the missing rank.
  int report_failure(int rank, std::string const& problem) {
    // If the rank is unknown, the finding is about the rank of this process, which has seen it.
    auto failure = rank_missing(rank >= 0 ? rank : process_rank_, rank >= 0, problem, doing_);
    if (rank < 0) failure.host = host_name();
    if (!ranks_of_process_.empty())
      for (auto const& one : own_state().results.settings)
        if (one.rank == failure.ranks[0]) failure.host = one.host;
    if (!prints_) {
      std::fprintf(stderr, "plait-doctor: [%s] %s\n", failure.id.c_str(), failure.text().c_str());
      return 3;
    }
    if (ranks_of_process_.empty()) ranks_of_process_.resize(1);
    auto& results = own_state().results;
    results.findings.push_back(failure);
    if (results.settings.empty()) {
      // The ranks have not met; the settings of this process are known.
      ext::settings_request request;
      request.host = host_name();
      request.build = ext::compiler_flags();
      request.blas = blas_;
      results.settings.push_back(ext::read_host_settings(files_, request));
    }
    if (results.of.ranks.empty()) describe(results, options_, of_.name);
    if (only_.settings) {
      auto const settings = ext::check_settings(results.settings);
      results.findings.insert(results.findings.end(), settings.begin(), settings.end());
    }
    results.seconds = seconds_now() - began_;
    auto const text = options_.json ? report_json(results, 3) : report_text(results, options_, 3);
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
    return 3;
  }

  [[nodiscard]] doctor_progress& progress_of(rank_type& rank) {
    return rank.is_root() ? *progress_ : silent_;
  }
  /// Returns the backend with all communication on a rank's own thread. A process carries out the
  /// communication of a batch axis, such as the axis of `all`, on a second thread. But the messages
  /// of a pipeline run on the rank's own thread, and so must the messages that are measured.
  [[nodiscard]] Backend without_second_thread() const {
    Backend out = of_.backend;
    if constexpr (requires { out.streams; }) out.streams = process_streams::in_turn;
    return out;
  }

  ext::doctor_backend<Backend, Facts> const& of_;
  ext::doctor_options const& options_;
  ext::doctor_options::parts only_;
  ext::system_files files_{};
  ext::blas_facts blas_ = blas_of_job();
  int ranks_ = 0;
  int process_rank_ = 0;
  bool prints_ = false;
  double began_ = 0;
  std::atomic<int> code_ = 0;
  std::string_view doing_ = "before the ranks met";
  std::vector<rank_state> ranks_of_process_{};
  doctor_progress silent_{1, false};
  doctor_progress* progress_ = nullptr;
};

}  // namespace plait::detail::doctor

namespace plait::ext {

/// Checks and measures the machines of a job, prints a report, and returns the exit code.
///
/// `of`: the backend, which launches the ranks several times. If the ranks are processes, a
/// launcher has started them, and each of them calls the function.
///
/// Errors: none. The function prints errors, and returns 2 for a wrong file and 3 for a failed job.
template <class Backend, class Facts>
int run_doctor(doctor_backend<Backend, Facts> const& of, doctor_options const& options) {
  return detail::doctor::doctor_run<Backend, Facts>(of, options).run();
}

/// The main function of plait-doctor: reads the options and calls run_doctor(). The function
/// plait_add_doctor of the CMake package writes a program that calls it.
///
/// `count`, `words`: the arguments of main(). `make(options)` returns a doctor_backend.
template <class Make>
int doctor_main(int count, char const* const* words, Make make) {
  doctor_options options;
  try {
    options = doctor_options_of(count, words);
  } catch (std::exception const& problem) {
    std::fprintf(stderr, "plait-doctor: %s\n", problem.what());
    return 2;
  }
  if (options.help) {
    std::fputs(std::string(doctor_help()).c_str(), stdout);
    return 0;
  }
  try {
    return run_doctor(make(options), options);
  } catch (std::exception const& problem) {
    std::fprintf(stderr, "plait-doctor: %s\n", problem.what());
    return 3;
  }
}

}  // namespace plait::ext
