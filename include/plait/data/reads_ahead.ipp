// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/data/reads_ahead.hpp"

#include <pthread.h>

#include <algorithm>
#include <csignal>
#include <initializer_list>
#include <string>
#include <system_error>
#include <utility>

#include "plait/core/error.hpp"

namespace plait::detail {

PLAIT_DECL reads_ahead::reads_ahead(shape const& how, source from)
    : how_(how),
      piece_(std::clamp<std::size_t>(how.places / (4 * std::size_t(how.readers)), 1, 16)),
      source_(std::move(from)),
      buffers_(how.ahead + 1) {
  threads_.reserve(static_cast<std::size_t>(how.readers));
  // The readers block all signals, so that the threads of the ranks handle them. Signals of faults
  // are not blocked, such as the signal of a read past the end of a mapped file.
  sigset_t others, before;
  sigfillset(&others);
  for (int const own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) sigdelset(&others, own);
  pthread_sigmask(SIG_SETMASK, &others, &before);
  std::optional<std::string> problem;
  try {
    for (int reader = 0; reader < how.readers; ++reader)
      threads_.push_back(std::jthread([this, reader] { read(reader); }));
  } catch (std::system_error const& none) {
    problem.emplace(none.what());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!problem) return;
  end();
  throw error({"batches: the system could start only ", threads_.size(), " of the ", how.readers,
               " threads of batch_options::readers: ", *problem});
}

PLAIT_DECL std::size_t reads_ahead::take(std::uint64_t step) {
  std::unique_lock lock(mutex_);
  if (!runs_ || step != taken_ + 1) restart(lock, step);
  else open(step + how_.ahead);
  taken_ = step;
  work_.notify_all();
  auto& mine = buffer_of(step);
  over_.wait(lock, [&] { return mine.is_over(how_.places); });
  if (mine.failure != nullptr) {
    runs_ = false;
    std::rethrow_exception(std::exchange(mine.failure, nullptr));
  }
  return step % buffers_.size();
}

PLAIT_DECL void reads_ahead::open(std::uint64_t step) {
  buffer_of(step) = {};
  if (source_.is_past_end(step)) return;
  buffer_of(step).is_open = true;
  buffer_of(step).step = step;
}

PLAIT_DECL void reads_ahead::restart(std::unique_lock<std::mutex>& lock, std::uint64_t step) {
  runs_ = false;
  is_dropped_ = true;
  over_.wait(lock, [&] { return active_ == 0; });
  is_dropped_ = false;
  for (std::uint64_t next = step; next <= step + how_.ahead; ++next) open(next);
  taken_ = step;
  runs_ = true;
}

PLAIT_DECL void reads_ahead::end() {
  {
    std::scoped_lock const lock(mutex_);
    ends_ = true;
    is_dropped_ = true;
  }
  work_.notify_all();
  for (auto& thread : threads_) thread.join();
}

PLAIT_DECL auto reads_ahead::next_piece() -> std::optional<piece> {
  if (!runs_) return std::nullopt;
  for (std::uint64_t step = taken_; step <= taken_ + how_.ahead; ++step) {
    auto& of = buffer_of(step);
    if (!of.is_open || of.has_failed) return std::nullopt;
    if (of.given == how_.places) continue;
    std::size_t const first = of.given;
    of.given = std::min(first + piece_, how_.places);
    return piece{&of, first, of.given};
  }
  return std::nullopt;
}

PLAIT_DECL void reads_ahead::read(int reader) {
  std::unique_lock lock(mutex_);
  std::optional<piece> mine;
  while (true) {
    work_.wait(lock, [&] { return ends_ || (mine = next_piece()); });
    if (ends_) return;
    auto const [of, first, end] = *mine;
    std::uint64_t const step = of->step;
    ++active_;
    lock.unlock();
    std::size_t place = first;
    std::exception_ptr failure;
    try {
      for (; place < end && !is_dropped_.load(std::memory_order_relaxed); ++place)
        source_.fill(reader, step % buffers_.size(), step, place);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    --active_;
    of->done += end - first;
    if (failure != nullptr && (!of->has_failed || place < of->failed)) {
      of->has_failed = true;
      of->failed = place;
      of->failure = std::move(failure);
    }
    if (active_ == 0 || of->is_over(how_.places)) over_.notify_one();
  }
}

}  // namespace plait::detail
