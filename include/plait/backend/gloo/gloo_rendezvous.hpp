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

/// Brings the processes of a job together through notes in a store, a shared folder for example.
/// Rank 0 writes the note "writer" with its process_mark and a random number of this start, for
/// example 1f3a. All other notes begin with that number: rank 3 writes 1f3a.here.3, and rank 0
/// waits for 1f3a.here.1 to 1f3a.here.7. Notes of an earlier job have another number, so no rank
/// reads them.
///
/// Errors: input_error, communication_timeout or engine_error, on all ranks that have met: the
///         first to fail leaves its sentence for the others. wait_stopped_by_signal.
class gloo_rendezvous {
 public:
  /// `interrupted`: set by another thread to end all waits. `secret`: the secret of the job; if
  /// empty, rank 0 makes one and leaves it with the notes.
  gloo_rendezvous(std::unique_ptr<rendezvous_store> store, process_ranks here,
                  std::chrono::milliseconds timeout, std::atomic<bool> const& interrupted,
                  std::string secret);
  gloo_rendezvous(gloo_rendezvous const&) = delete;
  gloo_rendezvous& operator=(gloo_rendezvous const&) = delete;

  /// Waits until every rank has arrived and returns their marks.
  [[nodiscard]] std::vector<process_mark> meet();
  /// Called after meet(): the key of this rendezvous and its number.
  [[nodiscard]] gloo_identity identity() const;
  /// Leaves `value` under a name and waits for the values of all ranks.
  [[nodiscard]] std::vector<std::string> show(std::string_view name, std::string_view value);
  /// Called while this rank waits for connections; throws to end the wait. `problem`: the error's
  /// text if the time is over.
  void look(std::vector<int> const& missing, std::string const& problem);
  /// Removes all notes, on rank 0; all ranks call it at the end.
  void end() noexcept {
    if (here_.rank == 0) store_->clear(true);
  }
  /// Gives up and leaves the reason for the other ranks. Rank 0 waits up to 300 ms for them before
  /// it cleans up.
  void fail(std::string_view why) noexcept;
  [[nodiscard]] std::chrono::milliseconds left() const;

 private:
  /// The note "writer" of rank 0, one field per line.
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

  /// Waits for the values of all ranks under a name; this rank has written its own.
  [[nodiscard]] std::vector<std::string> collect(std::string_view name);
  /// Takes the key that rank 0 has left, or checks that both have the same secret. Returns false if
  /// rank 0 has left neither: it has removed its notes because another rank failed, and may start
  /// again.
  bool take_key();
  /// A hash of the secret for rank 0's note; the secret cannot be computed from it.
  [[nodiscard]] std::string fingerprint() const;
  static constexpr std::string_view fingerprint_begin = "secret ";
  static constexpr std::string_view hexadecimal = "0123456789abcdef";
  static std::string in_digits(std::string_view bytes);
  static std::optional<std::string> from_digits(std::string_view digits);

  void check_failed();
  void check_lives(int rank, process_mark const& mark) const;
  /// Throws if a rank that has arrived has ended.
  void check_others(std::string_view name, std::vector<std::optional<std::string>> const& found);
  [[nodiscard]] std::string missing_text(
      std::string_view name, std::vector<std::optional<std::string>> const& found) const;
  /// Throws if a signal was caught: ranks that have not met cannot agree to stop together.
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
