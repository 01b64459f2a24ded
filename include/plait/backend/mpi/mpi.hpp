// SPDX-License-Identifier: Apache-2.0
#pragma once

// Plait does not use the old C++ bindings of MPI.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plait/backend/process/process_engine.hpp"
#include "plait/backend/process/watchdog.hpp"
#include "plait/backend/process_ranks.hpp"
#include "plait/core/clock.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/header_only.hpp"

namespace plait::ext {

/// The options of `mpi`.
struct mpi_options {
  /// The communicator whose processes are the ranks, in the order of the communicator. Plait
  /// duplicates it and leaves it unchanged.
  MPI_Comm world = MPI_COMM_WORLD;
};

}  // namespace plait::ext

namespace plait {

namespace detail {

/// The state of MPI in this process: whether plait has started it, whether it may still be called,
/// and the watchdog that watches every call.
class mpi_library {
 public:
  mpi_library() : watch_(std::chrono::milliseconds{300'000}) {}
  mpi_library(mpi_library const&) = delete;
  mpi_library& operator=(mpi_library const&) = delete;
  /// Finalises MPI if plait has started it; MPI_Finalize waits for the other ranks. After a failed
  /// call of MPI, no further call is allowed, so MPI_Finalize is not called, and the launcher sees
  /// that the process has ended without MPI_Finalize. The other ranks may have work left after the
  /// job, so the wait may take as long as the longest time-out. After an error of the program it
  /// takes at most 2 s, in which the other ranks may report the same error; then the process is
  /// ended, and the launcher ends the others.
  ~mpi_library();

  /// Returns the only object of this process. It exists until the process ends, since MPI cannot be
  /// started twice.
  static mpi_library& here();

  void start();

  /// Requests support for two threads from MPI; called before start().
  void want_second_thread(bool wanted) { wants_second_thread_ = wanted; }
  /// Returns the reason why MPI supports only one thread, or ""; called after start().
  [[nodiscard]] [[gnu::cold]] static std::string why_one_thread();

  /// Calls work(), which calls one function of MPI, while the watchdog limits its time.
  template <class Work>
  void call(char const* function, Work work) {
    call(
        work,
        [function](std::string const& when) {
          return concat(
              {"plait: ", function, " has not ended", (when.empty() ? "" : concat({", ", when}))});
        },
        function);
  }
  /// `text`: writes the message if the time is over. `thread`: the index of the calling thread in
  /// the watchdog.
  template <class Work, class Text>
  void call(Work work, Text const& text, char const* function, std::size_t thread = 0) {
    if (is_finalized())
      throw engine_error(std::string("mpi: MPI was finalised while a job runs, before ") +
                         function);
    if (broken_)
      throw other_thread_failed(
          concat({"mpi: ", function, " cannot be called because another call has failed"}));
    int const code = watch_.during(work, text, thread);
    if (code == MPI_SUCCESS) return;
    broken_ = true;
    char words[MPI_MAX_ERROR_STRING] = {};
    int length = 0;
    MPI_Error_string(code, words, &length);
    throw engine_error(concat({"mpi: ", function, ": ", words}));
  }

  [[nodiscard]] static bool is_finalized();
  [[nodiscard]] bool is_usable() const { return !broken_ && !failed_ && !is_finalized(); }
  void give_up() noexcept { failed_ = second_gives_up_ = true; }
  /// Called when a second thread begins to call MPI; give_up() makes that thread abandon its call.
  void begin_second() { second_gives_up_ = false; }
  [[nodiscard]] bool second_gives_up() const { return second_gives_up_; }
  /// Called when the second thread abandons a call that has not ended. From then on no call of MPI
  /// is allowed, including MPI_Finalize.
  void leave_call() noexcept { broken_ = true; }
  void set_timeout(std::chrono::milliseconds timeout);
  [[nodiscard]] std::chrono::milliseconds timeout() const { return watch_.timeout(); }
  /// True if a machine of the job has more ranks than processors. A rank must then not block inside
  /// MPI, since some MPI libraries spin while they wait.
  [[nodiscard]] bool shares_processors() const { return shares_processors_; }
  void find_neighbours(MPI_Comm world, process_ranks& here);

 private:
  watchdog watch_;
  // The longest time-out of all jobs; the initial value is for a process that has run no job.
  std::atomic<std::chrono::milliseconds> longest_{std::chrono::milliseconds{2'000}};
  bool started_ = false, shares_processors_ = false, wants_second_thread_ = false;
  std::atomic<bool> broken_{false};  // a call of MPI has failed
  std::atomic<bool> failed_{false};  // the program has failed
  std::atomic<bool> second_gives_up_{false};
};

/// Describes `bytes` bytes, which may be more than an int can count, as a count and a datatype of
/// MPI. The beginnings of consecutive blocks are `stride` bytes apart.
class mpi_bytes {
 public:
  explicit mpi_bytes(std::size_t bytes) { take(bytes); }
  mpi_bytes(std::size_t bytes, std::size_t stride);
  mpi_bytes(mpi_bytes const&) = delete;
  mpi_bytes& operator=(mpi_bytes const&) = delete;
  ~mpi_bytes() {
    if (type_ != MPI_BYTE) MPI_Type_free(&type_);
  }
  [[nodiscard]] int count() const { return count_; }
  [[nodiscard]] MPI_Datatype type() const { return type_; }

 private:
  void take(std::size_t bytes);

  static constexpr std::size_t most = std::numeric_limits<int>::max();
  MPI_Datatype type_ = MPI_BYTE;
  int count_ = 0;
};

/// Returns MPI's datatype for an element type. It is MPI_DATATYPE_NULL for types that plait reduces
/// itself: bfloat16, and types that MPI libraries reduce wrongly (in Open MPI 4.1, sums of bytes
/// saturate at 255; MPICH 4.0 compares unsigned numbers as signed).
MPI_Datatype mpi_type_of(element_type type);

/// One member of a group, with its own communicator. `pause`: pauses between polls if the second
/// thread calls the group, else null.
class mpi_group final : public process_group {
 public:
  mpi_group(MPI_Comm comm, std::vector<int> const& members, int rank, call_pause* pause)
      : process_group(members, rank), comm_(comm), pause_(pause), rank_(rank) {}
  ~mpi_group() override {
    if (mpi_library::here().is_usable()) MPI_Comm_free(&comm_);
  }

  void barrier() override;
  void all_gather(void const* send, void* receive, std::size_t bytes) override;
  void all_to_all(void const* send, std::size_t stride, void* receive, std::size_t bytes) override;
  void broadcast(void* inout, std::size_t bytes, int root) override;
  void send(void const* data, std::size_t bytes, int to) override;
  void receive(void* data, std::size_t bytes, int from) override;
  std::size_t post_send(void const* data, std::size_t bytes, int to) override;
  std::size_t post_receive(void* data, std::size_t bytes, int from) override;
  void wait_for_posted(std::size_t place, int) override;
  void go_on() override;
  bool give_up_posted() noexcept override;
  bool all_reduce(void* inout, std::size_t count, element_type type, reduction operation) override;

 private:
  static void const* block(void const* all, int index, std::size_t bytes) {
    return static_cast<std::byte const*>(all) + static_cast<std::size_t>(index) * bytes;
  }

  /// Returns the index of a free element of posted_.
  std::size_t free_place();

  /// Calls work(), which makes a blocking call of MPI. If other threads need the processor, calls
  /// work(request) instead, which makes the non-blocking call, and polls the request with pauses.
  /// This is so if a machine has more ranks than processors, and for the second thread of a rank.
  template <class Work>
  void ask(char const* function, Work work) {
    auto& library = mpi_library::here();
    auto const text = [&](std::string const& when) {
      return waiting_text(*this, function, library.timeout(), when);
    };
    if (pause_ == nullptr && !library.shares_processors())
      return library.call(work, text, function);
    auto const poll = [&] {
      MPI_Request request = MPI_REQUEST_NULL;
      int done = 0;
      int code = work(&request);
      for (int looks = 0;; ++looks) {
        if (code == MPI_SUCCESS) code = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (code != MPI_SUCCESS || done != 0) return code;
        if (pause_ == nullptr) {
          let_others_run(looks);
          continue;
        }
        if (library.second_gives_up()) {
          library.leave_call();
          throw call_left(
              concat({call_text(function), " was aborted because the rank has failed"}));
        }
        pause_->pause(looks);
      }
    };
    library.call(poll, text, function, pause_ == nullptr ? 0 : 1);
  }
  /// Pauses between two polls: yields at first, later sleeps for 50 us. Ending a long wait 50 us
  /// late costs less than taking the processor from a rank that computes.
  static void let_others_run(int looks);
  static std::string waiting_text(mpi_group const& of, char const* function,
                                  std::chrono::milliseconds timeout, std::string const& when);

  MPI_Comm comm_;
  std::vector<MPI_Request> posted_{};
  call_pause* pause_;
  int rank_;
};

class mpi_engine final : public process_engine {
 public:
  explicit mpi_engine(ext::mpi_options const& options) : options_(options) {}
  ~mpi_engine() override {
    if (world_ != MPI_COMM_NULL && mpi_library::here().is_usable()) MPI_Comm_free(&world_);
  }

  process_ranks ranks(process_ranks const* told) override;

  void set_timeout(std::chrono::milliseconds timeout) override {
    mpi_library::here().set_timeout(timeout);
  }

  std::unique_ptr<process_group> make_group(std::vector<int> const& members) override {
    return split(members, nullptr);
  }
  std::unique_ptr<process_group> make_group_of_second_thread(std::vector<int> const& members,
                                                             call_pause& pause) override;
  void want_second_thread(bool wanted) override { mpi_library::here().want_second_thread(wanted); }
  [[nodiscard]] std::string why_one_thread() override { return mpi_library::why_one_thread(); }

  void abandon() noexcept override { mpi_library::here().give_up(); }

 private:
  std::unique_ptr<process_group> split(std::vector<int> const& members, call_pause* pause);

  ext::mpi_options options_;
  process_ranks here_;
  MPI_Comm world_ = MPI_COMM_NULL;
};

}  // namespace detail

/// Makes the engine of an MPI job, for `processes{.engine = plait::mpi()}`. If the program has not
/// started MPI, plait starts it, and finalises it when the process ends.
///
/// Cost:   plait makes blocking calls of MPI, which a watchdog thread observes. If a machine has
///         more ranks than processors, and in the second thread of a rank, plait makes non-blocking
///         calls and polls them, with pauses in which other threads can run. If ranks have a second
///         thread, MPI is started with MPI_THREAD_MULTIPLE.
/// Errors: a call that waits longer than the time-out, or too long after a signal, ends the process
///         with a message, because a call of MPI cannot be interrupted. engine_error if a function
///         of MPI fails.
[[nodiscard]] [[gnu::cold]] inline std::shared_ptr<ext::process_engine> mpi(
    ext::mpi_options const& options = {}) {
  return std::make_shared<detail::mpi_engine>(options);
}

}  // namespace plait

#if PLAIT_HEADER_ONLY
#include "plait/backend/mpi/mpi.ipp"
#endif
