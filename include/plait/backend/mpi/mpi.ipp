// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/mpi/mpi.hpp"

#include <algorithm>
#include <thread>

#include "plait/backend/process/mpi_launcher.hpp"
#include "plait/core/error.hpp"

namespace plait::detail {

PLAIT_DECL mpi_library::~mpi_library() {
  if (!started_ || broken_ || is_finalized()) return;
  watch_.set_timeout(failed_ ? std::chrono::milliseconds{2'000} : longest_.load());
  watch_.during([] { return MPI_Finalize(); },
                [this](std::string const&) {
                  return std::string(failed_ ? "plait: a rank ends after an error, but other ranks "
                                               "have not ended; the job ends here"
                                             : "plait: MPI_Finalize waits for processes that "
                                               "have not ended");
                });
}

PLAIT_DECL mpi_library& mpi_library::here() {
  static mpi_library one;
  return one;
}

PLAIT_DECL void mpi_library::start() {
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
        "MPI_THREAD_FUNNELED, because a thread of plait watches the calls");
}

PLAIT_DECL std::string mpi_library::why_one_thread() {
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  if (level == MPI_THREAD_MULTIPLE) return "";
  char const* const name = level == MPI_THREAD_SERIALIZED ? "MPI_THREAD_SERIALIZED"
                           : level == MPI_THREAD_FUNNELED ? "MPI_THREAD_FUNNELED"
                                                          : "MPI_THREAD_SINGLE";
  return concat({"MPI was started with ", name, ", and a second thread needs MPI_THREAD_MULTIPLE"});
}

PLAIT_DECL bool mpi_library::is_finalized() {
  int flag = 0;
  MPI_Finalized(&flag);
  return flag != 0;
}

PLAIT_DECL void mpi_library::set_timeout(std::chrono::milliseconds timeout) {
  watch_.set_timeout(timeout);
  auto longest = longest_.load();
  while (longest < timeout && !longest_.compare_exchange_weak(longest, timeout)) {
  }
}

PLAIT_DECL void mpi_library::find_neighbours(MPI_Comm world, process_ranks& here) {
  MPI_Comm machine = MPI_COMM_NULL;
  call("MPI_Comm_split_type", [&] {
    return MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
  });
  MPI_Comm_rank(machine, &here.local_rank);
  MPI_Comm_size(machine, &here.local_size);
  here.first_here = here.rank;
  call("MPI_Allreduce",
       [&] { return MPI_Allreduce(MPI_IN_PLACE, &here.first_here, 1, MPI_INT, MPI_MIN, machine); });
  MPI_Comm_free(&machine);
  // All ranks must decide alike, because a blocking collective does not match a non-blocking one.
  int shares = here.local_size > static_cast<int>(std::thread::hardware_concurrency()) ? 1 : 0;
  call("MPI_Allreduce",
       [&] { return MPI_Allreduce(MPI_IN_PLACE, &shares, 1, MPI_INT, MPI_MAX, world); });
  shares_processors_ = shares != 0;
}

PLAIT_DECL mpi_bytes::mpi_bytes(std::size_t bytes, std::size_t stride) {
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

PLAIT_DECL void mpi_bytes::take(std::size_t bytes) {
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

PLAIT_DECL MPI_Datatype mpi_type_of(element_type type) {
  if (type == element_type{'f', 4}) return MPI_FLOAT;
  if (type == element_type{'f', 8}) return MPI_DOUBLE;
  if (type == element_type{'i', 4}) return MPI_INT32_T;
  if (type == element_type{'i', 8}) return MPI_INT64_T;
  return MPI_DATATYPE_NULL;
}

PLAIT_DECL void mpi_group::barrier() {
  ask("MPI_Barrier", [&](auto... request) {
    if constexpr (sizeof...(request) == 0) return MPI_Barrier(comm_);
    else return MPI_Ibarrier(comm_, request...);
  });
}

PLAIT_DECL void mpi_group::all_gather(void const* send, void* receive, std::size_t bytes) {
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

PLAIT_DECL void mpi_group::all_to_all(void const* send, std::size_t stride, void* receive,
                                      std::size_t bytes) {
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

PLAIT_DECL void mpi_group::broadcast(void* inout, std::size_t bytes, int root) {
  mpi_bytes const all(bytes);
  ask("MPI_Bcast", [&](auto... request) {
    if constexpr (sizeof...(request) == 0)
      return MPI_Bcast(inout, all.count(), all.type(), root, comm_);
    else return MPI_Ibcast(inout, all.count(), all.type(), root, comm_, request...);
  });
}

PLAIT_DECL void mpi_group::send(void const* data, std::size_t bytes, int to) {
  mpi_bytes const all(bytes);
  ask("MPI_Send", [&](auto... request) {
    if constexpr (sizeof...(request) == 0)
      return MPI_Send(data, all.count(), all.type(), to, 0, comm_);
    else return MPI_Isend(data, all.count(), all.type(), to, 0, comm_, request...);
  });
}

PLAIT_DECL void mpi_group::receive(void* data, std::size_t bytes, int from) {
  mpi_bytes const all(bytes);
  ask("MPI_Recv", [&](auto... request) {
    if constexpr (sizeof...(request) == 0)
      return MPI_Recv(data, all.count(), all.type(), from, 0, comm_, MPI_STATUS_IGNORE);
    else return MPI_Irecv(data, all.count(), all.type(), from, 0, comm_, request...);
  });
}

PLAIT_DECL std::size_t mpi_group::post_send(void const* data, std::size_t bytes, int to) {
  mpi_bytes const all(bytes);
  auto const place = free_place();
  mpi_library::here().call("MPI_Isend", [&] {
    return MPI_Isend(data, all.count(), all.type(), to, 0, comm_, &posted_[place]);
  });
  return place;
}

PLAIT_DECL std::size_t mpi_group::post_receive(void* data, std::size_t bytes, int from) {
  mpi_bytes const all(bytes);
  auto const place = free_place();
  mpi_library::here().call("MPI_Irecv", [&] {
    return MPI_Irecv(data, all.count(), all.type(), from, 0, comm_, &posted_[place]);
  });
  return place;
}

PLAIT_DECL void mpi_group::wait_for_posted(std::size_t place, int) {
  // Moves the posted request out of posted_, because the MPI_Test that ends a request also frees
  // it.
  ask("MPI_Wait", [&](auto... request) {
    if constexpr (sizeof...(request) == 0) return MPI_Wait(&posted_[place], MPI_STATUS_IGNORE);
    else {
      (..., (*request = posted_[place]));
      posted_[place] = MPI_REQUEST_NULL;
      return MPI_SUCCESS;
    }
  });
}

PLAIT_DECL void mpi_group::go_on() {
  for (auto& one : posted_) {
    if (one == MPI_REQUEST_NULL) continue;
    int done = 0;
    mpi_library::here().call("MPI_Request_get_status",
                             [&] { return MPI_Request_get_status(one, &done, MPI_STATUS_IGNORE); });
  }
}

PLAIT_DECL bool mpi_group::give_up_posted() noexcept {
  mpi_library::here().leave_call();
  return false;
}

PLAIT_DECL bool mpi_group::all_reduce(void* inout, std::size_t count, element_type type,
                                      reduction operation) {
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

PLAIT_DECL std::size_t mpi_group::free_place() {
  auto const free = std::ranges::find(posted_, MPI_REQUEST_NULL);
  if (free != posted_.end()) return static_cast<std::size_t>(free - posted_.begin());
  posted_.push_back(MPI_REQUEST_NULL);
  return posted_.size() - 1;
}

PLAIT_DECL void mpi_group::let_others_run(int looks) {
  constexpr int a_moment = 500;
  if (looks < a_moment) std::this_thread::yield();
  else std::this_thread::sleep_for(std::chrono::microseconds(50));
}

PLAIT_DECL std::string mpi_group::waiting_text(mpi_group const& of, char const* function,
                                               std::chrono::milliseconds timeout,
                                               std::string const& when) {
  return concat({"plait: ", of.call_text(function), " has waited ",
                 (when.empty() ? concat({timeout.count(), " ms"}) : when), " for ",
                 of.others_text(), " (MPI); the job ends here"});
}

PLAIT_DECL process_ranks mpi_engine::ranks(process_ranks const* told) {
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
                       ", but this process is rank ", here_.rank, " of ", here_.world_size,
                       " in MPI, whose numbers are used; leave .ranks out"});
  return here_;
}

PLAIT_DECL std::unique_ptr<process_group> mpi_engine::make_group_of_second_thread(
    std::vector<int> const& members, call_pause& pause) {
  mpi_library::here().begin_second();
  return split(members, &pause);
}

PLAIT_DECL std::unique_ptr<process_group> mpi_engine::split(std::vector<int> const& members,
                                                            call_pause* pause) {
  MPI_Comm made = MPI_COMM_NULL;
  int rank = 0;
  MPI_Comm_rank(world_, &rank);
  int const member = static_cast<int>(std::ranges::find(members, rank) - members.begin());
  mpi_library::here().call("MPI_Comm_split",
                           [&] { return MPI_Comm_split(world_, members.front(), member, &made); });
  return std::make_unique<mpi_group>(made, members, member, pause);
}

}  // namespace plait::detail
