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

/// The start of a job's processes, who meet through notes in a store. Rank 0 writes who it is and a
/// number of this start, with which all other notes begin: what an earlier job has left is
/// nobody's.
///
/// Errors: input_error, communication_timeout or engine_error, on all ranks that have met: the
///         first to fail leaves its sentence for the others. wait_stopped_by_signal.
class gloo_rendezvous {
 public:
  /// `interrupted`: set by another thread where nobody is to be waited for any more. `secret`: of
  /// the job; if empty, rank 0 makes one and leaves it with the notes.
  gloo_rendezvous(std::unique_ptr<rendezvous_store> store, process_ranks here,
                  std::chrono::milliseconds timeout, std::atomic<bool> const& interrupted,
                  std::string secret);
  gloo_rendezvous(gloo_rendezvous const&) = delete;
  gloo_rendezvous& operator=(gloo_rendezvous const&) = delete;

  /// Waits until every rank has come and returns who they are.
  [[nodiscard]] std::vector<process_mark> meet();
  /// Behind meet(): what only the ranks of this rendezvous know, and which rendezvous it is.
  [[nodiscard]] gloo_identity identity() const;
  /// Leaves `value` under a name and waits for that of every rank.
  [[nodiscard]] std::vector<std::string> show(std::string_view name, std::string_view value);
  /// While this rank waits for connections: throws where that is to end. `problem`: what is said if
  /// it ends because nobody comes.
  void look(std::vector<int> const& missing, std::string const& problem);
  /// When all have done so: rank 0 removes what was left.
  void end() noexcept {
    if (here_.rank == 0) store_->clear(true);
  }
  /// This rank gives up; the others learn why. Waits shortly for them where it cleans up.
  void fail(std::string_view why) noexcept;
  [[nodiscard]] std::chrono::milliseconds left() const;

 private:
  /// What rank 0 says of the job, a line each.
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

  /// The values of all ranks under a name, of which this rank has written its own.
  [[nodiscard]] std::vector<std::string> collect(std::string_view name);
  /// The key of rank 0, if it has left one; else both have the same secret. False if it has left
  /// neither: it has taken back what it wrote, as others have ended, and may meet again.
  bool take_key();
  /// Of a secret, in the notes of rank 0: who reads it learns nothing of the secret.
  [[nodiscard]] std::string fingerprint() const;
  static constexpr std::string_view fingerprint_begin = "secret ";
  static constexpr std::string_view hexadecimal = "0123456789abcdef";
  static std::string in_digits(std::string_view bytes);
  static std::optional<std::string> from_digits(std::string_view digits);

  void check_failed();
  void check_lives(int rank, process_mark const& mark) const;
  /// Whether those who have come are still there.
  void check_others(std::string_view name, std::vector<std::optional<std::string>> const& found);
  [[nodiscard]] std::string missing_text(
      std::string_view name, std::vector<std::optional<std::string>> const& found) const;
  /// Ranks that have not met cannot agree on an end.
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
