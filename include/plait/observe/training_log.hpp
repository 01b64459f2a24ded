// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plait/core/concat.hpp"
#include "plait/core/error.hpp"
#include "plait/core/header_only.hpp"
#include "plait/core/namespaces.hpp"
#include "plait/train/options/trainer_options.hpp"

namespace plait::ext {

/// A number that is logged for a step, with its name in the log.
struct logged_number {
  std::string name;
  double value = 0;
};

}  // namespace plait::ext

namespace plait {

/// The ranks that write a log.
enum class log_ranks : int {
  root,
  all  ///< each writes a file of its own, with ".rank3" (for rank 3) in its name
};

}  // namespace plait

namespace plait::ext {

/// The options of a log.
struct log_options {
  log_ranks which = log_ranks::root;
  /// If true, the log is appended to an existing file; otherwise the file's content is replaced.
  bool append = false;
  /// When a csv_log appends, it first removes the rows of this step and of later steps. A resumed
  /// run passes the number of its next step. An elastic run passes the step of
  /// `trainer.last_report()` and writes that report first.
  std::optional<std::int64_t> from_step{};
  /// The names of the terms of the loss, as `plan::loss_term_names()` returns them. If empty, the
  /// log uses the terms' numbers.
  std::vector<std::string> term_names{};
};

}  // namespace plait::ext

namespace plait {

/// Writes the loss and other numbers of each step of a training. csv_log and tensorboard_log are
/// this class with a `Writer` for their format. Every rank makes a log and calls it; on ranks that
/// write no file, the calls do nothing. A program with one thread may omit the rank.
///
/// Cost:    one write to the file for each step.
/// Errors:  input_error that names the file and the system's error; the writer's errors.
/// Threads: used by the thread of its rank.
template <class Writer>
class training_log {
 public:
  template <class Rank>
  [[gnu::cold]] training_log(Rank const& rank, std::string const& path,
                             ext::log_options options = {})
      : term_names_(std::move(options.term_names)) {
    bool const all = options.which == log_ranks::all;
    if (all || rank.is_root()) writer_.emplace(path, all ? rank.world_rank() : -1, options);
  }

  [[gnu::cold]] explicit training_log(std::string const& path, ext::log_options options = {})
      : term_names_(std::move(options.term_names)) {
    writer_.emplace(path, -1, options);
  }

  /// Writes the numbers of a step: loss, the loss's terms if there are several, labels,
  /// learning_rate, gradient_norm, and waited, which is the number of seconds for which this rank
  /// waited for samples.
  ///
  /// Errors: input_error if term_names is not empty and does not have one name for each term.
  void write(step_report const& of) {
    if (!writer_) return;
    auto const terms = static_cast<std::size_t>(of.terms.size());
    if (!term_names_.empty() && term_names_.size() != terms)
      throw input_error({"training_log: term_names has ", term_names_.size(),
                         " names, but the loss has ", terms,
                         " terms; set term_names to loss_term_names() of the job's plan"});
    std::vector<ext::logged_number> numbers{{"loss", of.loss}};
    if (of.terms.size() > 1)
      for (int i = 0; i < of.terms.size(); ++i) numbers.push_back({name_of_term(i), of.terms[i]});
    numbers.push_back({"labels", of.labels});
    numbers.push_back({"learning_rate", of.learning_rate});
    numbers.push_back({"gradient_norm", of.gradient_norm});
    numbers.push_back({"waited", of.waited});
    writer_->write(of.step, numbers);
  }

  /// Writes numbers that the program has computed, for example in an evaluation.
  void write(std::int64_t step, std::vector<ext::logged_number> const& numbers) {
    if (writer_) writer_->write(step, numbers);
  }

 private:
  [[nodiscard]] std::string name_of_term(int term) const {
    return ext::concat(
        {"term.", (term_names_.empty() ? std::to_string(term) : term_names_[std::size_t(term)])});
  }

  std::vector<std::string> term_names_;
  std::optional<Writer> writer_;
};

namespace detail {

/// Inserts the rank into a path: "run.csv" becomes "run.rank3.csv" for rank 3. If the rank is below
/// 0, the path is returned unchanged.
[[gnu::cold]] std::string path_of_rank(std::string path, int rank);

}  // namespace detail

}  // namespace plait

#if PLAIT_HEADER_ONLY
#include "plait/observe/training_log.ipp"
#endif
