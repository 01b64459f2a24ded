// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plait/backend/gloo/gloo_rendezvous.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <utility>

#include "plait/backend/communicator.hpp"
#include "plait/backend/process/process_engine.hpp"
#include "plait/core/caught_signal.hpp"
#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/quote.hpp"
#include "plait/mesh/ranks_text.hpp"

namespace plait::detail {

PLAIT_DECL gloo_rendezvous::gloo_rendezvous(std::unique_ptr<rendezvous_store> store,
                                            process_ranks here, std::chrono::milliseconds timeout,
                                            std::atomic<bool> const& interrupted,
                                            std::string secret)
    : store_(std::move(store)),
      key_(std::move(secret)),
      interrupted_(interrupted),
      here_(std::move(here)),
      mark_(process_mark::here()),
      timeout_(timeout),
      end_(std::chrono::steady_clock::now() + timeout) {}

PLAIT_DECL std::vector<process_mark> gloo_rendezvous::meet() {
  caught_signal::ends_waits const here;
  if (here_.rank == 0) begin();
  else join();
  return marks_ = read_marks(collect("here"));
}

PLAIT_DECL gloo_identity gloo_rendezvous::identity() const {
  return {key_, concat({"job ", here_.job, " of ", here_.world_size, " processes, rendezvous ",
                        number_})};
}

PLAIT_DECL std::vector<std::string> gloo_rendezvous::show(std::string_view name,
                                                          std::string_view value) {
  caught_signal::ends_waits const here;
  if (!store_->put(note(name, here_.rank), value)) refuse_double();
  return collect(name);
}

PLAIT_DECL void gloo_rendezvous::look(std::vector<int> const& missing, std::string const& problem) {
  caught_signal::ends_waits const here;
  check_signal(problem);
  check_failed();
  for (int const rank : missing) check_lives(rank, marks_[std::size_t(rank)]);
  if (is_late()) late(problem);
}

PLAIT_DECL void gloo_rendezvous::fail(std::string_view why) noexcept {
  try {
    if (number_.empty()) return;
    if (auto const mine = whole(""); why.starts_with(mine)) why.remove_prefix(mine.size());
    auto const sentence = concat({"rank ", here_.rank, ": ", why});
    if (!told_) (void)store_->put(concat({number_, ".failed"}), sentence);
    store_->remove(note("here", here_.rank));
    if (here_.rank != 0) {
      if (store_->is_of_one_start() && writer_.look(mark_) == process_mark::state::ended)
        store_->clear(true);
      return;
    }
    auto const latest = std::chrono::steady_clock::now() + std::chrono::milliseconds{300};
    auto const others_stay = [&] {
      for (int rank = 1; rank < here_.world_size; ++rank)
        if (store_->get(note("here", rank))) return true;
      return false;
    };
    while (others_stay() && std::chrono::steady_clock::now() < latest) rest();
    store_->clear(true);
  } catch (error const&) {  // the notes stay; the next job replaces them
  }
}

PLAIT_DECL std::chrono::milliseconds gloo_rendezvous::left() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(end_ -
                                                               std::chrono::steady_clock::now());
}

PLAIT_DECL std::string gloo_rendezvous::writer_note::text() const {
  return std::string(first_line) + number + '\n' + world_size + '\n' + job + '\n' + mark.text() +
         '\n';
}

PLAIT_DECL std::optional<gloo_rendezvous::writer_note> gloo_rendezvous::writer_note::of(
    std::string_view text) {
  if (!text.starts_with(first_line)) return std::nullopt;
  text.remove_prefix(first_line.size());
  auto const line = [&] {
    auto const found = text.substr(0, text.find('\n'));
    text.remove_prefix(found.size() < text.size() ? found.size() + 1 : text.size());
    return std::string(found);
  };
  writer_note out;
  out.number = line();
  out.world_size = line();
  out.job = line();
  out.mark = process_mark::of(line());
  auto const is_of = [](std::string const& word, char const* known) {
    return !word.empty() && word.size() <= 16 && word.find_first_not_of(known) == word.npos;
  };
  if (!is_of(out.number, "0123456789abcdef") || !is_of(out.world_size, "0123456789"))
    return std::nullopt;
  return out;
}

PLAIT_DECL std::string gloo_rendezvous::note(std::string_view name, int rank) const {
  return concat({number_, ".", name, ".", rank});
}

PLAIT_DECL std::optional<gloo_rendezvous::writer_note> gloo_rendezvous::read_writer() {
  auto const found = store_->get("writer");
  if (!found) return std::nullopt;
  auto out = writer_note::of(*found);
  if (!out)
    throw input_error({store_->name(), " has a note 'writer' that was not written by plait"});
  return out;
}

PLAIT_DECL std::string gloo_rendezvous::process_text(process_mark const& mark) {
  return concat({"process ", mark.pid, " on host ", in_quotes(mark.host)});
}

PLAIT_DECL void gloo_rendezvous::begin() {
  store_->make();
  if (auto const old = read_writer(); old) {
    auto const what = old->mark.look(mark_);
    if (what == process_mark::state::alive)
      throw input_error({store_->name(), " is in use: ", process_text(old->mark),
                         " runs and is rank 0 of ", job_text(old->job),
                         "; was rank 0 started twice? Another job needs another path or name"});
    if (what == process_mark::state::unknown)
      throw input_error({store_->name(), " belongs to, or was left by, ", process_text(old->mark),
                         ", and this host cannot find out if that process is running; if it is "
                         "not, delete the files that it has left, or choose another path or name"});
    store_->clear(false);
  }
  number_ = new_number();
  writer_note const mine{number_, std::to_string(here_.world_size), escaped(here_.job), mark_};
  auto const is_secret = !key_.empty();
  if (!is_secret) key_ = random_bytes();
  if (!store_->put(note("key", 0), is_secret ? fingerprint() : in_digits(key_)) ||
      !store_->put("writer", mine.text()) || !store_->put(note("here", 0), mark_.text()))
    throw input_error({store_->name(),
                       " was taken by another rank 0 at the same time; was rank 0 "
                       "started twice?"});
}

PLAIT_DECL void gloo_rendezvous::join() {
  // The text of the error if rank 0 never arrives.
  auto problem = concat({"rank 0 has not come to ", store_->name()});
  for (;; rest()) {
    check_signal(problem);
    if (is_late()) late(problem);
    auto const writer = read_writer();
    if (!writer) continue;
    auto const what = writer->mark.look(mark_);
    auto const either = [&](std::string const& text) {
      problem = text;
      if (what == process_mark::state::alive) throw input_error(whole(text));
    };
    if (what == process_mark::state::ended) {
      problem = concat({store_->name(), " was left by ", process_text(writer->mark),
                        ", which has ended, and rank 0 has not come"});
    } else if (writer->job != escaped(here_.job)) {
      either(concat({store_->name(), " is of ", job_text(writer->job), ", this process is of ",
                     job_text(escaped(here_.job))}));
    } else if (writer->world_size != std::to_string(here_.world_size)) {
      either(concat({"rank 0 was started as one of ", writer->world_size,
                     " processes, this rank as one of ", here_.world_size}));
    } else {
      number_ = writer->number;
      writer_ = writer->mark;
      if (!take_key()) {
        problem = concat({"rank 0 has left no key of the rendezvous in ", store_->name()});
        number_.clear();
        continue;
      }
      if (store_->put(note("here", here_.rank), mark_.text())) return;
      auto const other = store_->get(note("here", here_.rank));
      number_.clear();
      if (other)
        either(concat({"rank ", here_.rank, " has come already, as ",
                       process_text(process_mark::of(*other)), "; was it started twice?"}));
    }
  }
}

PLAIT_DECL std::vector<std::string> gloo_rendezvous::collect(std::string_view name) {
  std::vector<std::optional<std::string>> found(static_cast<std::size_t>(here_.world_size));
  for (int looks = 0;; ++looks, rest()) {
    bool all = true;
    for (int rank = 0; rank < here_.world_size; ++rank)
      if (auto& value = found[std::size_t(rank)]; !value) {
        value = store_->get(note(name, rank));
        all = all && value;
      }
    if (all) break;
    if (caught_signal::number() != 0 || interrupted_) check_signal(missing_text(name, found));
    check_failed();
    constexpr int looks_between = 10;
    if (looks % looks_between == 0) check_others(name, found);
    if (is_late()) late(missing_text(name, found));
  }
  std::vector<std::string> out;
  for (auto& value : found) out.push_back(std::move(*value));
  return out;
}

PLAIT_DECL bool gloo_rendezvous::take_key() {
  auto const left = store_->get(note("key", 0));
  if (!left) return false;
  bool const is_secret = !key_.empty();
  if (is_secret && *left == fingerprint()) return true;
  bool const is_left = !left->starts_with(fingerprint_begin);
  auto key = from_digits(is_left ? *left : "");
  if (!is_secret && key) {
    key_ = std::move(*key);
    return true;
  }
  std::string const variable = "the secret of the job (PLAIT_JOB_SECRET_FILE)";
  throw input_error(whole(
      is_left && key
          ? concat({variable, " was given to this rank and not to rank 0; give it to all ranks"})
      : is_left ? concat({"the note that rank 0 has written to ", store_->name(),
                          " as the key of the rendezvous is not a key"})
      : is_secret
          ? concat(
                {variable, " differs between rank 0 and this rank; give all ranks the same secret"})
          : concat({variable, " was given to rank 0 and not to this rank; give it to all ranks"})));
}

PLAIT_DECL std::string gloo_rendezvous::fingerprint() const {
  return std::string(fingerprint_begin) +
         in_digits(hmac_sha256(key_, concat({"plait: fingerprint for rendezvous ", number_})));
}

PLAIT_DECL std::string gloo_rendezvous::in_digits(std::string_view bytes) {
  std::string out;
  for (char const c : bytes) {
    auto const byte = static_cast<unsigned char>(c);
    (out += hexadecimal[byte >> 4]) += hexadecimal[byte & 0xf];
  }
  return out;
}

PLAIT_DECL std::optional<std::string> gloo_rendezvous::from_digits(std::string_view digits) {
  constexpr std::size_t bytes = 32;
  if (digits.size() != 2 * bytes || digits.find_first_not_of(hexadecimal) != digits.npos)
    return std::nullopt;
  std::string out;
  for (std::size_t i = 0; i < digits.size(); i += 2)
    out += static_cast<char>(hexadecimal.find(digits[i]) << 4 | hexadecimal.find(digits[i + 1]));
  return out;
}

PLAIT_DECL void gloo_rendezvous::check_failed() {
  auto const why = store_->get(concat({number_, ".failed"}));
  if (!why) return;
  told_ = true;
  throw engine_error(whole(concat({"the start has failed on ", sentence_of_another(*why)})));
}

PLAIT_DECL void gloo_rendezvous::check_lives(int rank, process_mark const& mark) const {
  if (mark.look(mark_) == process_mark::state::ended)
    throw engine_error(whole(concat(
        {"rank ", rank, ", ", process_text(mark), ", has ended before all ranks were connected"})));
}

PLAIT_DECL void gloo_rendezvous::check_others(
    std::string_view name, std::vector<std::optional<std::string>> const& found) {
  if (here_.rank != 0) check_lives(0, writer_);
  for (int rank = 0; rank < here_.world_size; ++rank)
    if (name != "here" && !found[std::size_t(rank)]) check_lives(rank, marks_[std::size_t(rank)]);
    else if (name == "here" && found[std::size_t(rank)])
      check_lives(rank, process_mark::of(*found[std::size_t(rank)]));
  auto const writer = read_writer();
  if (!writer || writer->number != number_)
    throw engine_error(whole(
        concat({"the notes of this job in ", store_->name(), " were removed by another program"})));
}

PLAIT_DECL std::string gloo_rendezvous::missing_text(
    std::string_view name, std::vector<std::optional<std::string>> const& found) const {
  std::vector<int> missing;
  for (int rank = 0; rank < here_.world_size; ++rank)
    if (!found[std::size_t(rank)]) missing.push_back(rank);
  return ranks_text(missing) + (missing.size() == 1 ? " has" : " have") +
         (name == "here" ? " not come to " : " come, but not opened a connection, at ") +
         store_->name();
}

PLAIT_DECL void gloo_rendezvous::check_signal(std::string const& problem) const {
  if (interrupted_.load())
    throw engine_error(whole(
        concat({"the start was aborted because the ranks of the job are changing: ", problem})));
  if (int const signal = caught_signal::number(); signal != 0)
    throw wait_stopped_by_signal(
        whole(concat({caught_signal::name(signal), " has ended the start: ", problem})), signal);
}

PLAIT_DECL void gloo_rendezvous::late(std::string const& problem) const {
  throw communication_timeout(
      whole(concat({problem, " within ", timeout_.count(), " ms; is that process running, and ",
                    store_->what_to_check()})));
}

PLAIT_DECL void gloo_rendezvous::refuse_double() const {
  throw input_error(whole(concat({"a note of this rank already exists in ", store_->name(),
                                  "; was the rank started twice?"})));
}

PLAIT_DECL std::string gloo_rendezvous::whole(std::string const& text) const {
  return concat({"gloo: rank ", here_.rank, ": ", text});
}

PLAIT_DECL std::string gloo_rendezvous::job_text(std::string const& job) {
  return job.empty() ? "a job without a name" : concat({"job ", in_quotes(job)});
}

PLAIT_DECL std::vector<process_mark> gloo_rendezvous::read_marks(
    std::vector<std::string> const& texts) {
  std::vector<process_mark> out;
  for (auto const& text : texts) out.push_back(process_mark::of(text));
  return out;
}

PLAIT_DECL std::string gloo_rendezvous::new_number() {
  std::uint64_t number = 0;
  if (::getentropy(&number, sizeof number) != 0)
    throw engine_error("gloo: the system does not provide random numbers");
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(number));
  return digits;
}

}  // namespace plait::detail
