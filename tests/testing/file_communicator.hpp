// SPDX-License-Identifier: Apache-2.0
// A backend as a user might write it: ranks share only the files of a folder. Every call of a group
// has a number; each member writes a letter with its call and its values, and reads the letters of
// the others.
#pragma once

#include <stdlib.h>

#include <chrono>
#include <cstddef>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "plait/backend/collective_call.hpp"
#include "plait/backend/communicator.hpp"
#include "plait/backend/communicator_calls.hpp"
#include "plait/backend/host/host_device.hpp"
#include "plait/backend/rank.hpp"
#include "plait/core/bfloat16.hpp"
#include "plait/core/error.hpp"

class file_communicator : public plait::ext::communicator_calls<file_communicator> {
  using call_type = plait::detail::collective_call;

 public:
  file_communicator(std::filesystem::path folder, int group, std::vector<int> members, int place)
      : folder_(std::move(folder)),
        group_(std::to_string(group)),
        members_(std::move(members)),
        rank_(place),
        sent_(members_.size()),
        received_(members_.size()) {}

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return static_cast<int>(members_.size()); }

  void wait_for_all() { exchange({.kind = plait::ext::collective::barrier}); }

  template <plait::ext::collective Kind, class T>
  void carry_out(call_type const& call, std::size_t) {
    using enum plait::ext::collective;
    auto const mine = static_cast<std::size_t>(rank_);
    auto* const out = static_cast<T*>(call.target);
    std::size_t const n = call.bytes / sizeof(T);
    if constexpr (Kind == send || Kind == receive) {
      pass<Kind == send>(call);
    } else {
      auto const letters = exchange(call);
      if (Kind == all_reduce || Kind == reduce_scatter) {
        std::size_t const first = Kind == reduce_scatter ? mine * n : 0;
        for (std::size_t i = 0; i < n; ++i)
          out[i] = combined<T>(letters, first + i, call.operation);
      } else if (Kind == all_gather) {
        for (std::size_t r = 0; r < letters.size(); ++r) copy(letters[r], 0, out + r * n, n);
      } else if (Kind == all_to_all) {
        std::size_t const each = n / letters.size();
        for (std::size_t r = 0; r < letters.size(); ++r)
          copy(letters[r], mine * each, out + r * each, each);
      } else if (Kind == broadcast) {
        copy(letters[static_cast<std::size_t>(call.other)], 0, out, n);
      }
    }
  }

 private:
  struct letter {
    call_type call;
    std::vector<char> values;
  };

  template <class T>
  static void copy(letter const& from, std::size_t first, T* to, std::size_t count) {
    if (count != 0) std::memcpy(to, from.values.data() + first * sizeof(T), count * sizeof(T));
  }

  template <class T>
  static T combined(std::vector<letter> const& letters, std::size_t index,
                    plait::ext::reduction operation) {
    using number = plait::accumulate_t<T>;
    number result{};
    for (std::size_t r = 0; r < letters.size(); ++r) {
      T value;
      copy(letters[r], index, &value, 1);
      auto const next = static_cast<number>(value);
      if (r == 0) result = next;
      else if (operation == plait::ext::reduction::sum) result = static_cast<number>(result + next);
      else if (next > result || next != next) result = next;
    }
    return static_cast<T>(result);
  }

  [[nodiscard]] std::filesystem::path file(char const* what, int from, int to, long number) const {
    return folder_ / (what + group_ + "." + std::to_string(from) + "." + std::to_string(to) + "." +
                      std::to_string(number));
  }

  // Under another name first, so that no rank reads half a letter.
  void write(std::filesystem::path const& name, call_type const& call, std::size_t bytes) const {
    auto const draft = name.string() + ".draft";
    std::ofstream out(draft, std::ios::binary);
    out.write(reinterpret_cast<char const*>(&call), sizeof call);
    out.write(static_cast<char const*>(call.source), static_cast<std::streamsize>(bytes));
    out.close();
    if (!out) throw plait::input_error("cannot write " + draft);
    std::filesystem::rename(draft, name);
  }

  [[nodiscard]] letter read(std::filesystem::path const& name) const {
    auto const deadline = std::chrono::steady_clock::now() + std::chrono::seconds{20};
    std::ifstream in(name, std::ios::binary);
    for (; !in; in.open(name, std::ios::binary)) {
      if (std::filesystem::exists(folder_ / "failed"))
        throw plait::ext::job_aborted("another rank has failed");
      if (std::chrono::steady_clock::now() > deadline)
        throw plait::communication_timeout("rank " + std::to_string(members_[std::size_t(rank_)]) +
                                           " waited too long for " + name.string());
      std::this_thread::yield();
    }
    letter out;
    in.read(reinterpret_cast<char*>(&out.call), sizeof out.call);
    out.values.assign(std::istreambuf_iterator<char>(in), {});
    return out;
  }

  std::vector<letter> exchange(call_type const& call) {
    using enum plait::ext::collective;
    bool const whole = call.kind == reduce_scatter;
    write(file("call", rank_, 0, ++calls_), call, whole ? call.whole_bytes : call.bytes);
    std::filesystem::remove(file("call", rank_, 0, calls_ - 2));  // whose readers have come further
    std::vector<letter> letters;
    for (int r = 0; r < size(); ++r) letters.push_back(read(file("call", r, 0, calls_)));
    for (int r = 1; r < size(); ++r) {
      auto const& theirs = letters[static_cast<std::size_t>(r)].call;
      if (!letters[0].call.agrees_with(theirs))
        throw plait::collective_mismatch(plait::detail::mismatch_text(
            members_[0], letters[0].call, members_[std::size_t(r)], theirs, members_));
    }
    for (int r = 0; r < size(); ++r)
      plait::detail::check_shape(members_[std::size_t(r)], letters[std::size_t(r)].call, members_);
    return letters;
  }

  // A message, and the receiver's answer that it has read it.
  template <bool Sends>
  void pass(call_type const& call) {
    auto const me = members_[std::size_t(rank_)];
    if (call.other < 0 || call.other >= size() || call.other == rank_)
      throw plait::input_error("rank " + std::to_string(me) + " called " +
                               plait::detail::call_text(call, members_) + ": no such other end");
    int const from = Sends ? rank_ : call.other, to = Sends ? call.other : rank_;
    auto const other = static_cast<std::size_t>(call.other);
    long const number = ++(Sends ? sent_ : received_)[other];
    auto const message = file("message", from, to, number), answer = file("read", from, to, number);
    if (Sends) write(message, call, call.bytes);
    auto const theirs = read(Sends ? answer : message);
    if (!Sends) write(answer, call, 0);
    if (!call.fits(theirs.call))
      throw plait::collective_mismatch(
          Sends ? plait::detail::mismatch_text(me, call, members_[other], theirs.call, members_)
                : plait::detail::mismatch_text(members_[other], theirs.call, me, call, members_));
    if (!Sends) copy(theirs, 0, static_cast<char*>(call.target), call.bytes);
    if (!Sends) return;
    std::filesystem::remove(message);
    std::filesystem::remove(answer);
  }

  std::filesystem::path folder_;
  std::string group_;
  std::vector<int> members_;
  int rank_;
  long calls_ = 0;
  std::vector<long> sent_, received_;
};

using file_rank = plait::ext::rank_handle<plait::ext::host_device, file_communicator>;

// One rank of a launch whose ranks meet in `folder`.
inline void run_file_rank(std::filesystem::path const& folder,
                          plait::ext::mesh_groups const& groups, int rank,
                          std::function<void(file_rank&)> const& program) {
  int next = 0;
  auto const ids = plait::ext::declare_groups(groups, [&](auto&&, auto) { return next++; });
  auto const& grid = groups.grid();
  try {
    std::vector<file_communicator> members;
    for (int i = 0; i < groups.sets().size(); ++i)
      members.emplace_back(folder, ids[std::size_t(rank)][std::size_t(i)],
                           grid.group_of(rank, groups.sets()[i]),
                           grid.place_in_group(grid.coordinates_of(rank), groups.sets()[i]));
    file_rank handle(groups, rank, plait::ext::host_device{}, std::move(members));
    program(handle);
  } catch (...) {
    std::ofstream(folder / "failed").put('1');
    throw;
  }
}

// A new folder, removed with its contents.
class temporary_folder {
 public:
  temporary_folder() {
    auto name = (std::filesystem::temp_directory_path() / "plait_files_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw plait::input_error("cannot make " + name);
    path_ = name;
  }
  temporary_folder(temporary_folder const&) = delete;
  temporary_folder& operator=(temporary_folder const&) = delete;
  ~temporary_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] std::filesystem::path const& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// A backend: each rank is a thread.
struct files {
  using rank_type = file_rank;

  void run(plait::ext::mesh_groups const& groups,
           std::function<void(rank_type&)> const& program) const {
    temporary_folder const folder;
    std::mutex mutex;
    std::exception_ptr failure;
    {
      std::vector<std::jthread> ranks;
      for (int rank = 0; rank < groups.grid().world_size(); ++rank)
        ranks.emplace_back([&, rank] {
          try {
            run_file_rank(folder.path(), groups, rank, program);
          } catch (...) {
            std::scoped_lock const lock{mutex};
            if (!failure) failure = std::current_exception();
          }
        });
    }
    if (failure) std::rethrow_exception(failure);
  }
};

// A backend: each rank is a process, which a launcher has started; `folder` is the job's folder.
struct file_process {
  std::filesystem::path folder;
  int rank = 0;
  int* launches = nullptr;

  using rank_type = file_rank;

  void run(plait::ext::mesh_groups const& groups,
           std::function<void(rank_type&)> const& program) const {
    auto const place = folder / std::to_string((*launches)++);
    std::filesystem::create_directory(place);
    run_file_rank(place, groups, rank, program);
  }
};
