// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "plait/backend/gloo/gloo_challenge.hpp"
#include "plait/backend/process/process_mark.hpp"
#include "plait/backend/process/rendezvous_store.hpp"
#include "plait/backend/process_ranks.hpp"
#include "plait/core/clock.hpp"
#include "plait/core/header_only.hpp"

namespace plait::detail {

/// Connects the processes of a job. They exchange notes (a note is a key with a value) in a store
/// such as a shared folder. Rank 0 writes the note "writer", which contains its process_mark and a
/// random number, for example 1f3a, chosen at each start. The names of all other notes begin with
/// that number: rank 3 writes 1f3a.here.3, and rank 0 waits for 1f3a.here.1 to 1f3a.here.7. Notes
/// of an earlier job have another number, so that no rank reads them.
///
/// Errors: input_error, communication_timeout or engine_error, on all ranks that have arrived: the
///         first rank to fail writes its message for the others. wait_stopped_by_signal after a
///         signal.
class gloo_rendezvous {
 public:
  /// `interrupted`: set by another thread to end all waits. `secret`: the secret of the job; if
  /// empty, rank 0 generates a key and writes it to the store.
  gloo_rendezvous(std::unique_ptr<rendezvous_store> store, process_ranks here,
                  std::chrono::milliseconds timeout, std::atomic<bool> const& interrupted,
                  std::string secret);
  gloo_rendezvous(gloo_rendezvous const&) = delete;
  gloo_rendezvous& operator=(gloo_rendezvous const&) = delete;

  /// Waits until all ranks have arrived and returns the process_mark of each.
  [[nodiscard]] std::vector<process_mark> meet();
  /// Returns the key and the number of this rendezvous; called after meet().
  [[nodiscard]] gloo_identity identity() const;
  /// Writes `value` as this rank's note `name`, waits for the notes `name` of all ranks and returns
  /// their values.
  [[nodiscard]] std::vector<std::string> show(std::string_view name, std::string_view value);
  /// Throws if the wait for connections must end; this rank calls it repeatedly while it waits.
  /// `missing`: the ranks that are not connected. `problem`: the text of the error if the time is
  /// over.
  void look(std::vector<int> const& missing, std::string const& problem);
  /// Removes all notes, on rank 0. All ranks call it when they are connected.
  void end() noexcept {
    if (here_.rank == 0) store_->clear(true);
  }
  /// Writes the reason of a failure for the other ranks. Rank 0 then waits up to 300 ms until they
  /// have given up, too, and removes the notes.
  void fail(std::string_view why) noexcept;
  [[nodiscard]] std::chrono::milliseconds left() const;

 private:
  /// The content of the note "writer", which rank 0 publishes, one field per line.
  struct writer_note {
    std::string number, world_size, job;
    process_mark mark;

    [[nodiscard]] std::string text() const;
    static std::optional<writer_note> of(std::string_view text);
    static constexpr std::string_view first_line = "plait gloo 1\n";
  };

  [[nodiscard]] std::string note(std::string_view name, int rank) const;
  static void rest() { std::this_thread::sleep_for(std::chrono::milliseconds{5}); }
  [[nodiscard]] bool is_late() const { return std::chrono::steady_clock::now() > end_; }

  [[nodiscard]] std::optional<writer_note> read_writer();
  static std::string process_text(process_mark const& mark);

  void begin();

  void join();

  /// Waits for the notes `name` of all ranks, after this rank has written its own, and returns
  /// their values.
  [[nodiscard]] std::vector<std::string> collect(std::string_view name);
  /// Reads the key that rank 0 has written, or checks that both ranks have the same secret. Returns
  /// false if rank 0 has written neither: it removed its notes because another rank failed, and may
  /// start once more.
  bool take_key();
  /// Returns a hash of the secret, which rank 0 writes to its note so that other ranks can compare;
  /// the secret cannot be computed from the hash.
  [[nodiscard]] std::string fingerprint() const;
  static constexpr std::string_view fingerprint_begin = "secret ";
  static constexpr std::string_view hexadecimal = "0123456789abcdef";
  static std::string in_digits(std::string_view bytes);
  static std::optional<std::string> from_digits(std::string_view digits);

  void check_failed();
  void check_lives(int rank, process_mark const& mark) const;
  /// Throws if the process of a rank that has arrived has ended.
  void check_others(std::string_view name, std::vector<std::optional<std::string>> const& found);
  [[nodiscard]] std::string missing_text(
      std::string_view name, std::vector<std::optional<std::string>> const& found) const;
  /// Throws if a signal was caught: ranks that are not connected cannot agree on a common end.
  void check_signal(std::string const& problem) const;
  [[noreturn]] void late(std::string const& problem) const;
  [[noreturn]] void refuse_double() const;
  [[nodiscard]] std::string whole(std::string const& text) const;
  static std::string job_text(std::string const& job);
  static std::vector<process_mark> read_marks(std::vector<std::string> const& texts);
  [[nodiscard]] static std::string new_number();

  std::unique_ptr<rendezvous_store> store_;
  std::string key_;
  std::atomic<bool> const& interrupted_;
  process_ranks here_;
  process_mark mark_, writer_;
  std::vector<process_mark> marks_;
  std::string number_;
  std::chrono::milliseconds timeout_;
  std::chrono::steady_clock::time_point end_;
  bool told_ = false;
};

}  // namespace plait::detail

#if PLAIT_HEADER_ONLY
#include "plait/backend/gloo/gloo_rendezvous.ipp"
#endif
