// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/gloo/gloo.hpp"

#include <exception>
#include <numeric>
#include <string_view>

#include "plait/backend/gloo/gloo_device.hpp"
#include "plait/backend/gloo/gloo_group.hpp"
#include "plait/backend/gloo/gloo_store.hpp"
#include "plait/backend/process/job_secret.hpp"
#include "plait/backend/process/store_place.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"

namespace plait::detail {

PLAIT_DECL process_ranks gloo_engine::ranks(process_ranks const* told) {
  if (told != nullptr) here_ = *told;
  if (!here_) here_ = read_process_ranks();
  auto const [rank, size] = std::pair{here_->rank, here_->world_size};
  if (rank < 0 || rank >= size)
    throw input_error(
        {"processes: .ranks has the rank ", rank, " of ", size,
         " processes; the rank must be at least 0 and below the number of processes"});
  return *here_;
}

PLAIT_DECL void gloo_engine::set_timeout(std::chrono::milliseconds timeout) {
  timeout_ = timeout;
  for (auto* const each : {with_.get(), second_.get()}) {
    if (each == nullptr) continue;
    each->timeout = timeout;
    each->watch->forget_waits();
  }
}

PLAIT_DECL std::unique_ptr<process_group> gloo_engine::make_group(std::vector<int> const& members) {
  if (with_ == nullptr) connect();
  return std::make_unique<gloo_group>(with_, members, groups_++);
}

PLAIT_DECL std::unique_ptr<process_group> gloo_engine::make_group_of_second_thread(
    std::vector<int> const& members, call_pause&) {
  if (with_ == nullptr) connect();
  if (second_ == nullptr) connect_second();
  return std::make_unique<gloo_group>(second_, members, groups_++);
}

PLAIT_DECL void gloo_engine::begin_anew(process_ranks const& now,
                                        std::unique_ptr<rendezvous_store> where) {
  abandon();
  std::scoped_lock const lock{mutex_};
  with_.reset();
  second_.reset();
  groups_ = 0;
  here_ = now;
  store_ = std::move(where);
  interrupted_ = false;
}

PLAIT_DECL void gloo_engine::interrupt() noexcept {
  std::scoped_lock const lock{mutex_};
  interrupted_ = true;
  for (auto const* const each : {with_.get(), second_.get()})
    if (each != nullptr) each->watch->interrupt();
}

PLAIT_DECL void gloo_engine::hold_timeouts(bool on) noexcept {
  std::scoped_lock const lock{mutex_};
  held_ = on;
  for (auto const* const each : {with_.get(), second_.get()})
    if (each != nullptr) each->watch->hold(on);
}

PLAIT_DECL void gloo_engine::connect() {
  auto const here = ranks(nullptr);
  // The secret is read only once, although an elastic job connects several times.
  if (!secret_) secret_ = read_job_secret();
  gloo_rendezvous rendezvous(store_ != nullptr ? std::move(store_) : store(here), here, timeout_,
                             interrupted_, *secret_);
  try {
    auto const marks = rendezvous.meet();
    auto with = std::make_shared<gloo_connections>(
        gloo_device(options_.interface, marks, here.rank), rendezvous.identity(), here.rank,
        here.world_size, timeout_, rendezvous.left());
    connect_all(rendezvous, *with, here.rank);
    hold(with_, std::move(with));
    gloo_group(with_, everybody(), groups_++).barrier();
    rendezvous.end();
  } catch (error const& problem) {
    abandon();
    rendezvous.fail(problem.what());
    throw;
  } catch (std::exception const& problem) {  // thrown by Gloo when it opens its ports
    auto const text =
        concat({"gloo: rank ", here.rank, " cannot open its connections: ", gloo_words(problem)});
    rendezvous.fail(text);
    throw engine_error(text);
  }
}

PLAIT_DECL void gloo_engine::connect_all(gloo_rendezvous& rendezvous, gloo_connections& with,
                                         int rank) {
  auto addresses = rendezvous.show("at", with.world->address());
  try {
    with.world->connect(with.identity, std::move(addresses), [&](auto const& now) {
      rendezvous.look(now.missing, now.text(with.world->address()));
    });
  } catch (engine_error const& problem) {
    if (problem.rank < 0) throw;
    throw engine_error(concat(
        {"gloo: rank ", rank, " cannot connect to rank ", problem.rank, ": ", problem.what()}));
  }
}

PLAIT_DECL void gloo_engine::hold(std::shared_ptr<gloo_connections>& as,
                                  std::shared_ptr<gloo_connections> with) {
  std::scoped_lock const lock{mutex_};
  if (interrupted_)
    throw engine_error("gloo: the start was aborted because the ranks of the job are changing");
  with->watch->hold(held_);
  as = std::move(with);
}

PLAIT_DECL std::vector<int> gloo_engine::everybody() const {
  std::vector<int> all(static_cast<std::size_t>(with_->world->size));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

PLAIT_DECL void gloo_engine::connect_second() {
  auto watch = std::make_shared<gloo_watch>();
  auto world = gloo_group(with_, everybody(), groups_++).connect_anew("second thread", watch);
  hold(second_, std::make_shared<gloo_connections>(*with_, std::move(watch), std::move(world)));
  second_->beside = with_;
  with_->beside = second_;
}

PLAIT_DECL std::unique_ptr<rendezvous_store> gloo_engine::store(process_ranks const& here) const {
  auto const place =
      find_store_place(here, options_.rendezvous, "gloo", "folder",
                       "let the ranks meet in etcd (plait::elastic), or by MPI (plait::mpi())");
  std::string_view const path = place.path.native();
  if (path.starts_with("redis://") || path.starts_with("rediss://"))
    throw input_error(
        "gloo: PLAIT_RENDEZVOUS, or .rendezvous, names a server of Redis, where ranks can no "
        "longer meet; write the path of a folder that all processes see, or let the ranks meet in "
        "etcd (plait::elastic), or by MPI (plait::mpi())");
  return std::make_unique<gloo_folder>(place.path, place.is_of_one_start);
}

}  // namespace plait::detail
