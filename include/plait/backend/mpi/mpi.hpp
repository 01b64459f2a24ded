// SPDX-License-Identifier: Apache-2.0
#pragma once

// Nothing here uses MPI's old C++ bindings.
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

namespace plait {

/// The options of `mpi`.
struct mpi_options {
  /// The communicator whose processes are the ranks, in its order. Plait duplicates it and leaves
  /// it unchanged.
  MPI_Comm world = MPI_COMM_WORLD;
};

namespace detail {

/// The state of MPI in this process: whether plait has started it, whether it may still be called,
/// and the watchdog that watches every call.
class mpi_library {
 public:
  mpi_library() : watch_(std::chrono::milliseconds{300'000}) {}
  mpi_library(mpi_library const&) = delete;
  mpi_library& operator=(mpi_library const&) = delete;
  /// Finalises MPI if plait has started it. After a failed call it does not, since no other call
  /// may be made; the launcher then sees a process that has ended without MPI_Finalize. It waits
  /// for the other ranks, which may have work left after the job, up to the longest time-out. After
  /// an error of the program it waits 2 s for the other ranks, which may have the error, too; then
  /// it lets the launcher end them.
  ~mpi_library();

  /// The one object of this process; it lives as long as the process, since MPI cannot be started
  /// twice.
  static mpi_library& here();

  void start();

  /// Called before start(): MPI is asked to serve two threads.
  void want_second_thread(bool wanted) { wants_second_thread_ = wanted; }
  /// Called after start(): the reason why MPI serves only one thread, or "".
  [[nodiscard]] [[gnu::cold]] static std::string why_one_thread();

  /// Calls work(), which calls one function of MPI.
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
  /// `thread`: the index of the calling thread in the watchdog.
  template <class Work, class Text>
  void call(Work work, Text const& text, char const* function, std::size_t thread = 0) {
    if (is_finalized())
      throw engine_error(std::string("mpi: MPI was finalised while a job runs, before ") +
                         function);
    if (broken_)
      throw other_thread_failed(
          concat({"mpi: ", function, " cannot be called, as another call has failed"}));
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
  /// A second thread begins to make calls; give_up() makes it leave them.
  void begin_second() { second_gives_up_ = false; }
  [[nodiscard]] bool second_gives_up() const { return second_gives_up_; }
  /// A call of a second thread stays under way for good: no other call may be made, nor MPI
  /// finalised.
  void leave_call() noexcept { broken_ = true; }
  void set_timeout(std::chrono::milliseconds timeout);
  [[nodiscard]] std::chrono::milliseconds timeout() const { return watch_.timeout(); }
  /// True if a machine of the job has more ranks than processors. There a rank must not block in
  /// MPI, since some libraries spin while they wait.
  [[nodiscard]] bool shares_processors() const { return shares_processors_; }
  void find_neighbours(MPI_Comm world, process_ranks& here);

 private:
  watchdog watch_;
  // the default, for a process that has launched no job
  std::atomic<std::chrono::milliseconds> longest_{std::chrono::milliseconds{2'000}};
  bool started_ = false, shares_processors_ = false, wants_second_thread_ = false;
  std::atomic<bool> broken_{false};  // a call of MPI has failed
  std::atomic<bool> failed_{false};  // the program has failed
  std::atomic<bool> second_gives_up_{false};
};

/// Describes `bytes` bytes, which may be more than an int can count, as a count and a datatype;
/// consecutive blocks begin `stride` bytes apart.
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

/// Returns MPI's name of an element type. It is MPI_DATATYPE_NULL for types that plait reduces
/// itself: bfloat16, and types that libraries reduce wrongly (Open MPI 4.1 has sums of bytes that
/// stop at 255, MPICH 4.0 compares unsigned numbers as signed).
MPI_Datatype mpi_type_of(element_type type);

/// One member of a group, over a communicator of its own. `pause`: the pauses of the second thread
/// if it calls the group, else null.
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

  /// Returns the index of a free request, whose address does not change until it has ended.
  std::size_t free_place();

  /// Calls work(), which blocks. If others need the processor, calls work(request) instead and
  /// polls the request, with pauses: for other ranks of the machine, or, in the second thread, for
  /// the rank's own thread.
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
          throw call_left(concat({call_text(function), " was left, as the rank has failed"}));
        }
        pause_->pause(looks);
      }
    };
    library.call(poll, text, function, pause_ == nullptr ? 0 : 1);
  }
  /// Yields at first, later sleeps for 50 us: a long wait that ends 50 us late costs less than a
  /// computing rank that loses its processor.
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
  explicit mpi_engine(mpi_options const& options) : options_(options) {}
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

  mpi_options options_;
  process_ranks here_;
  MPI_Comm world_ = MPI_COMM_NULL;
};

}  // namespace detail

/// Makes the engine of an MPI job, for `processes{.engine = plait::mpi()}`. Plait starts MPI unless
/// the program has, and finalises it, if it has started it, when the process ends.
///
/// Cost:   each call of MPI blocks, and a thread watches it. If a machine has more ranks than
///         processors, and in a second thread of a rank, plait starts a non-blocking call and polls
///         it, with pauses that let others run. For a second thread MPI is started with
///         MPI_THREAD_MULTIPLE.
/// Errors: a call that waits longer than the time-out, or too long after a signal, ends the process
///         with a sentence, since MPI cannot be called again. engine_error if a function of MPI
///         fails.
[[nodiscard]] [[gnu::cold]] inline std::shared_ptr<ext::process_engine> mpi(
    mpi_options const& options = {}) {
  return std::make_shared<detail::mpi_engine>(options);
}

}  // namespace plait

#if PLAIT_HEADER_ONLY
#include "plait/backend/mpi/mpi.ipp"
#endif
