// SPDX-License-Identifier: Apache-2.0
#pragma once

// The C++ bindings of old have nothing that is used here.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "plait/backend/process/mpi_launcher.hpp"
#include "plait/backend/process/process_engine.hpp"
#include "plait/backend/process/watchdog.hpp"
#include "plait/backend/process_ranks.hpp"
#include "plait/core/clock.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"

namespace plait {

/// The options of `mpi`.
struct mpi_options {
  /// Whose processes are the ranks, in its order. Plait makes duplicates and leaves this as it is.
  MPI_Comm world = MPI_COMM_WORLD;
};

namespace detail {

/// MPI in this process: who started it, whether it may still be called, and the watchdog that no
/// call is without.
class mpi_library {
 public:
  mpi_library() : watch_(std::chrono::milliseconds{300'000}) {}
  mpi_library(mpi_library const&) = delete;
  mpi_library& operator=(mpi_library const&) = delete;
  /// Finalises what plait has started, unless a call has failed: then no other may be made, and the
  /// launcher sees a process that has ended without that. It waits for the other ranks, which may
  /// have more to do behind the job, as long as at the start. After an error of the program it
  /// waits a moment for the other ranks, which may have it, too, and lets the launcher end them
  /// otherwise.
  ~mpi_library() {
    if (!started_ || broken_ || is_finalized()) return;
    watch_.set_timeout(failed_ ? std::chrono::milliseconds{2'000} : longest_.load());
    watch_.during([] { return MPI_Finalize(); },
                  [this](std::string const&) {
                    return std::string(failed_ ? "plait: a rank ends after an error while others "
                                                 "have not; the job ends here"
                                               : "plait: MPI_Finalize waits for processes that "
                                                 "have not come to their end");
                  });
  }

  /// The one of this process; it ends with the process, as MPI cannot be started twice.
  static mpi_library& here() {
    static mpi_library one;
    return one;
  }

  void start() {
    int is_initialized = 0;
    MPI_Initialized(&is_initialized);
    if (is_finalized())
      throw input_error("mpi: MPI has been finalised in this process and cannot be started again");
    if (is_initialized != 0) return;
    int level = MPI_THREAD_SINGLE;
    int const wanted = wants_second_thread_ ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED;
    call("MPI_Init_thread", [&] { return MPI_Init_thread(nullptr, nullptr, wanted, &level); });
    started_ = true;
    if (level < MPI_THREAD_FUNNELED)
      throw engine_error(
          "mpi: this MPI library gives the thread level MPI_THREAD_SINGLE; plait needs "
          "MPI_THREAD_FUNNELED, since a thread of its own watches the calls");
  }

  /// Before start(): MPI is asked to serve two threads.
  void want_second_thread(bool wanted) { wants_second_thread_ = wanted; }
  /// Behind it: why MPI serves one, or "".
  [[nodiscard]] [[gnu::cold]] static std::string why_one_thread() {
    int level = MPI_THREAD_SINGLE;
    MPI_Query_thread(&level);
    if (level == MPI_THREAD_MULTIPLE) return "";
    char const* const name = level == MPI_THREAD_SERIALIZED ? "MPI_THREAD_SERIALIZED"
                             : level == MPI_THREAD_FUNNELED ? "MPI_THREAD_FUNNELED"
                                                            : "MPI_THREAD_SINGLE";
    return concat(
        {"MPI was started with ", name, ", and a second thread needs MPI_THREAD_MULTIPLE"});
  }

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
  /// `thread`: as the watchdog has it.
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

  [[nodiscard]] static bool is_finalized() {
    int flag = 0;
    MPI_Finalized(&flag);
    return flag != 0;
  }
  [[nodiscard]] bool is_usable() const { return !broken_ && !failed_ && !is_finalized(); }
  void give_up() noexcept { failed_ = second_gives_up_ = true; }
  /// A second thread begins to make calls, and is to leave them.
  void begin_second() { second_gives_up_ = false; }
  [[nodiscard]] bool second_gives_up() const { return second_gives_up_; }
  /// A call of a second thread stays under way for ever: no other may be made, nor MPI finalised.
  void leave_call() noexcept { broken_ = true; }
  void set_timeout(std::chrono::milliseconds timeout) {
    watch_.set_timeout(timeout);
    auto longest = longest_.load();
    while (longest < timeout && !longest_.compare_exchange_weak(longest, timeout)) {
    }
  }
  [[nodiscard]] std::chrono::milliseconds timeout() const { return watch_.timeout(); }
  /// Whether a machine of the job has more ranks than processors: a rank that waits in a call of
  /// MPI keeps its processor with some libraries.
  [[nodiscard]] bool shares_processors() const { return shares_processors_; }
  void find_neighbours(MPI_Comm world, process_ranks& here) {
    MPI_Comm machine = MPI_COMM_NULL;
    call("MPI_Comm_split_type", [&] {
      return MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
    });
    MPI_Comm_rank(machine, &here.local_rank);
    MPI_Comm_size(machine, &here.local_size);
    here.first_here = here.rank;
    call("MPI_Allreduce", [&] {
      return MPI_Allreduce(MPI_IN_PLACE, &here.first_here, 1, MPI_INT, MPI_MIN, machine);
    });
    MPI_Comm_free(&machine);
    // One answer for all: calls of the two kinds do not find together.
    int shares = here.local_size > static_cast<int>(std::thread::hardware_concurrency()) ? 1 : 0;
    call("MPI_Allreduce",
         [&] { return MPI_Allreduce(MPI_IN_PLACE, &shares, 1, MPI_INT, MPI_MAX, world); });
    shares_processors_ = shares != 0;
  }

 private:
  watchdog watch_;
  // Of a process that has launched nothing.
  std::atomic<std::chrono::milliseconds> longest_{std::chrono::milliseconds{2'000}};
  bool started_ = false, shares_processors_ = false, wants_second_thread_ = false;
  std::atomic<bool> broken_{false};  // a call has failed
  std::atomic<bool> failed_{false};  // the program has
  std::atomic<bool> second_gives_up_{false};
};

/// So many bytes, which may be more than an int can say; the next ones begin `stride` bytes behind.
class mpi_bytes {
 public:
  explicit mpi_bytes(std::size_t bytes) { take(bytes); }
  mpi_bytes(std::size_t bytes, std::size_t stride) {
    take(bytes);
    if (stride == bytes) return;
    MPI_Datatype block = MPI_DATATYPE_NULL, apart = MPI_DATATYPE_NULL;
    MPI_Type_contiguous(count_, type_, &block);
    MPI_Type_create_resized(block, 0, static_cast<MPI_Aint>(stride), &apart);
    MPI_Type_commit(&apart);
    MPI_Type_free(&block);
    if (type_ != MPI_BYTE) MPI_Type_free(&type_);
    type_ = apart;
    count_ = 1;
  }
  mpi_bytes(mpi_bytes const&) = delete;
  mpi_bytes& operator=(mpi_bytes const&) = delete;
  ~mpi_bytes() {
    if (type_ != MPI_BYTE) MPI_Type_free(&type_);
  }
  [[nodiscard]] int count() const { return count_; }
  [[nodiscard]] MPI_Datatype type() const { return type_; }

 private:
  void take(std::size_t bytes) {
    if (bytes <= most) {
      count_ = static_cast<int>(bytes);
      return;
    }
    constexpr int piece = 1 << 20;
    MPI_Datatype pieces = MPI_DATATYPE_NULL, mebibyte = MPI_DATATYPE_NULL;
    MPI_Type_contiguous(piece, MPI_BYTE, &mebibyte);
    MPI_Type_contiguous(static_cast<int>(bytes / piece), mebibyte, &pieces);
    int const lengths[]{1, static_cast<int>(bytes % piece)};
    MPI_Aint const places[]{0, static_cast<MPI_Aint>(bytes - bytes % piece)};
    MPI_Datatype const types[]{pieces, MPI_BYTE};
    MPI_Type_create_struct(2, lengths, places, types, &type_);
    MPI_Type_commit(&type_);
    MPI_Type_free(&pieces);
    MPI_Type_free(&mebibyte);
    count_ = 1;
  }

  static constexpr std::size_t most = std::numeric_limits<int>::max();
  MPI_Datatype type_ = MPI_BYTE;
  int count_ = 0;
};

/// MPI's name of an element type; MPI_DATATYPE_NULL for those that plait adds up itself: bfloat16,
/// and what libraries get wrong (Open MPI 4.1 has sums of bytes that stop at 255, MPICH 4.0
/// compares unsigned numbers as signed ones).
inline MPI_Datatype mpi_type_of(element_type type) {
  if (type == element_type{'f', 4}) return MPI_FLOAT;
  if (type == element_type{'f', 8}) return MPI_DOUBLE;
  if (type == element_type{'i', 4}) return MPI_INT32_T;
  if (type == element_type{'i', 8}) return MPI_INT64_T;
  return MPI_DATATYPE_NULL;
}

/// One member of a group, over a communicator of its own. `pause`: of the second thread, if that
/// calls it.
class mpi_group final : public process_group {
 public:
  mpi_group(MPI_Comm comm, std::vector<int> const& members, int rank, call_pause* pause)
      : process_group(members, rank), comm_(comm), pause_(pause), rank_(rank) {}
  ~mpi_group() override {
    if (mpi_library::here().is_usable()) MPI_Comm_free(&comm_);
  }

  void barrier() override {
    ask("MPI_Barrier", [&](auto... request) {
      if constexpr (sizeof...(request) == 0) return MPI_Barrier(comm_);
      else return MPI_Ibarrier(comm_, request...);
    });
  }
  void all_gather(void const* send, void* receive, std::size_t bytes) override {
    mpi_bytes const each(bytes);
    void const* const from = send == block(receive, rank_, bytes) ? MPI_IN_PLACE : send;
    ask("MPI_Allgather", [&](auto... request) {
      if constexpr (sizeof...(request) == 0)
        return MPI_Allgather(from, each.count(), each.type(), receive, each.count(), each.type(),
                             comm_);
      else
        return MPI_Iallgather(from, each.count(), each.type(), receive, each.count(), each.type(),
                              comm_, request...);
    });
  }
  void all_to_all(void const* send, std::size_t stride, void* receive, std::size_t bytes) override {
    mpi_bytes const from(bytes, stride), each(bytes);
    ask("MPI_Alltoall", [&](auto... request) {
      if constexpr (sizeof...(request) == 0)
        return MPI_Alltoall(send, from.count(), from.type(), receive, each.count(), each.type(),
                            comm_);
      else
        return MPI_Ialltoall(send, from.count(), from.type(), receive, each.count(), each.type(),
                             comm_, request...);
    });
  }
  void broadcast(void* inout, std::size_t bytes, int root) override {
    mpi_bytes const all(bytes);
    ask("MPI_Bcast", [&](auto... request) {
      if constexpr (sizeof...(request) == 0)
        return MPI_Bcast(inout, all.count(), all.type(), root, comm_);
      else return MPI_Ibcast(inout, all.count(), all.type(), root, comm_, request...);
    });
  }
  void send(void const* data, std::size_t bytes, int to) override {
    mpi_bytes const all(bytes);
    ask("MPI_Send", [&](auto... request) {
      if constexpr (sizeof...(request) == 0)
        return MPI_Send(data, all.count(), all.type(), to, 0, comm_);
      else return MPI_Isend(data, all.count(), all.type(), to, 0, comm_, request...);
    });
  }
  void receive(void* data, std::size_t bytes, int from) override {
    mpi_bytes const all(bytes);
    ask("MPI_Recv", [&](auto... request) {
      if constexpr (sizeof...(request) == 0)
        return MPI_Recv(data, all.count(), all.type(), from, 0, comm_, MPI_STATUS_IGNORE);
      else return MPI_Irecv(data, all.count(), all.type(), from, 0, comm_, request...);
    });
  }
  std::size_t post_send(void const* data, std::size_t bytes, int to) override {
    mpi_bytes const all(bytes);
    auto const place = free_place();
    mpi_library::here().call("MPI_Isend", [&] {
      return MPI_Isend(data, all.count(), all.type(), to, 0, comm_, &posted_[place]);
    });
    return place;
  }
  std::size_t post_receive(void* data, std::size_t bytes, int from) override {
    mpi_bytes const all(bytes);
    auto const place = free_place();
    mpi_library::here().call("MPI_Irecv", [&] {
      return MPI_Irecv(data, all.count(), all.type(), from, 0, comm_, &posted_[place]);
    });
    return place;
  }
  void wait_for_posted(std::size_t place, int) override {
    // The request itself, of which a look may be the last.
    ask("MPI_Wait", [&](auto... request) {
      if constexpr (sizeof...(request) == 0) return MPI_Wait(&posted_[place], MPI_STATUS_IGNORE);
      else {
        (..., (*request = posted_[place]));
        posted_[place] = MPI_REQUEST_NULL;
        return MPI_SUCCESS;
      }
    });
  }
  void go_on() override {
    for (auto& one : posted_) {
      if (one == MPI_REQUEST_NULL) continue;
      int done = 0;
      mpi_library::here().call("MPI_Request_get_status", [&] {
        return MPI_Request_get_status(one, &done, MPI_STATUS_IGNORE);
      });
    }
  }
  bool give_up_posted() noexcept override {
    mpi_library::here().leave_call();
    return false;
  }
  bool all_reduce(void* inout, std::size_t count, element_type type, reduction operation) override {
    auto const number = mpi_type_of(type);
    if (number == MPI_DATATYPE_NULL) return false;
    auto const how = operation == reduction::sum ? MPI_SUM : MPI_MAX;
    constexpr std::size_t most = std::numeric_limits<int>::max();
    for (std::size_t first = 0; first < count; first += most) {
      auto* const data = static_cast<std::byte*>(inout) + first * type.bytes;
      int const here = static_cast<int>(std::min(most, count - first));
      ask("MPI_Allreduce", [&](auto... request) {
        if constexpr (sizeof...(request) == 0)
          return MPI_Allreduce(MPI_IN_PLACE, data, here, number, how, comm_);
        else return MPI_Iallreduce(MPI_IN_PLACE, data, here, number, how, comm_, request...);
      });
    }
    return true;
  }

 private:
  static void const* block(void const* all, int index, std::size_t bytes) {
    return static_cast<std::byte const*>(all) + static_cast<std::size_t>(index) * bytes;
  }

  /// A place for a request, whose address stays.
  std::size_t free_place() {
    auto const free = std::ranges::find(posted_, MPI_REQUEST_NULL);
    if (free != posted_.end()) return static_cast<std::size_t>(free - posted_.begin());
    posted_.push_back(MPI_REQUEST_NULL);
    return posted_.size() - 1;
  }

  /// Calls work(), or work(request) and looks after the request while others have the processor:
  /// other ranks, or, of a call of the second thread, the rank's own thread.
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
  /// At first for a moment; then for 50 us, as who computes needs the processor more than a long
  /// wait needs the moment at which it ends.
  static void let_others_run(int looks) {
    constexpr int a_moment = 500;
    if (looks < a_moment) std::this_thread::yield();
    else std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  static std::string waiting_text(mpi_group const& of, char const* function,
                                  std::chrono::milliseconds timeout, std::string const& when) {
    return concat({"plait: ", of.call_text(function), " has waited ",
                   (when.empty() ? concat({timeout.count(), " ms"}) : when), " for ",
                   of.others_text(), " (MPI); the job ends here"});
  }

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

  process_ranks ranks(process_ranks const* told) override {
    auto& library = mpi_library::here();
    library.start();
    if (world_ == MPI_COMM_NULL) {
      library.call("MPI_Comm_dup", [&] { return MPI_Comm_dup(options_.world, &world_); });
      MPI_Comm_set_errhandler(world_, MPI_ERRORS_RETURN);
      MPI_Comm_rank(world_, &here_.rank);
      MPI_Comm_size(world_, &here_.world_size);
      library.find_neighbours(world_, here_);
      bool const is_guest = options_.world != MPI_COMM_WORLD;
      here_.source = is_guest ? "the program's communicator says" : "MPI_COMM_WORLD says";
#if defined(OPEN_MPI)
      constexpr auto library_name = mpi_name::open_mpi;
#else
      constexpr auto library_name = mpi_name::mpich;
#endif
      if (!is_guest) check_mpi_launcher(here_, library_name);
    }
    if (told != nullptr && (told->rank != here_.rank || told->world_size != here_.world_size))
      throw input_error({"mpi: .ranks has the rank ", told->rank, " of ", told->world_size,
                         ", and this is rank ", here_.rank, " of ", here_.world_size,
                         " of MPI's processes, which decide; leave .ranks out"});
    return here_;
  }

  void set_timeout(std::chrono::milliseconds timeout) override {
    mpi_library::here().set_timeout(timeout);
  }

  std::unique_ptr<process_group> make_group(std::vector<int> const& members) override {
    return split(members, nullptr);
  }
  std::unique_ptr<process_group> make_group_of_second_thread(std::vector<int> const& members,
                                                             call_pause& pause) override {
    mpi_library::here().begin_second();
    return split(members, &pause);
  }
  void want_second_thread(bool wanted) override { mpi_library::here().want_second_thread(wanted); }
  [[nodiscard]] std::string why_one_thread() override { return mpi_library::why_one_thread(); }

  void abandon() noexcept override { mpi_library::here().give_up(); }

 private:
  std::unique_ptr<process_group> split(std::vector<int> const& members, call_pause* pause) {
    MPI_Comm made = MPI_COMM_NULL;
    int rank = 0;
    MPI_Comm_rank(world_, &rank);
    int const member = static_cast<int>(std::ranges::find(members, rank) - members.begin());
    mpi_library::here().call(
        "MPI_Comm_split", [&] { return MPI_Comm_split(world_, members.front(), member, &made); });
    return std::make_unique<mpi_group>(made, members, member, pause);
  }

  mpi_options options_;
  process_ranks here_;
  MPI_Comm world_ = MPI_COMM_NULL;
};

}  // namespace detail

/// The processes of an MPI job, for `processes{.engine = plait::mpi()}`. Plait starts MPI unless
/// the program has, and finalises what it has started when the process ends.
///
/// Cost:   each call of MPI is a blocking one that a thread watches; where a machine has more ranks
///         than processors, and in a second thread of a rank, one that returns, looked after by a
///         loop that lets others run. For the latter MPI is started with MPI_THREAD_MULTIPLE.
/// Errors: a call that waits longer than the time-out, or behind a signal, ends the process with a
///         sentence, since MPI cannot be called again. engine_error if a function of MPI fails.
[[nodiscard]] [[gnu::cold]] inline std::shared_ptr<ext::process_engine> mpi(
    mpi_options const& options = {}) {
  return std::make_shared<detail::mpi_engine>(options);
}

}  // namespace plait
