// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include <plait/checkpoint/checkpoints.hpp>
#include <plait/checkpoint/load_weights.hpp>
#include <plait/checkpoint/save_weights.hpp>
#include <plait/checkpoint/weights_folder.hpp>
#include <plait/core/file.hpp>
#include <plait/core/finite.hpp>
#include <plait/data/byte_text.hpp>
#include <plait/data/token_shards.hpp>
#include <plait/draw/pictures.hpp>
#include <plait/io/safetensors.hpp>
#include <plait/observe/csv_log.hpp>
#include <plait/observe/progress.hpp>
#include <plait/train/work_failed.hpp>

#include "train_gpt/command_line.hpp"
#include "train_gpt/init_weights.hpp"
#include "train_gpt/options.hpp"
#include "train_gpt/registry.hpp"

// The main program of train_gpt and of train_llama: finds the job that the command line asks for,
// opens its files and terminal, and explains or runs it.
namespace train_gpt {

namespace fs = std::filesystem;
using command_line::in_quotes;

/// Writes weights to --save: to a folder if the path ends in '/', else to one file.
struct weights_sink : tensor_sink {
  plait::ext::weights_writer writer;
  weights_sink(options const& wanted, entry const& job)
      : writer(wanted.save, tensors_of(job), options_of(wanted),
               wanted.save.ends_with('/') ? plait::ext::weights_writer::form::by_name
                                          : plait::ext::weights_writer::form::one_file) {}
  void write(std::string const& name, std::span<float const> values) override {
    checked_write(name, values);
  }
  void write(std::string const& name, std::span<double const> values) override {
    checked_write(name, values);
  }

 private:
  template <class T>
  void checked_write(std::string const& name, std::span<T const> values) {
    if (auto const problem = plait::ext::not_finite(name, values); !problem.empty())
      throw plait::error("the weights are not saved: " + problem +
                         "; use a smaller --learning-rate");
    writer.write(name, values);
  }

  static plait::ext::save_weights_options options_of(options const& wanted) {
    plait::ext::save_weights_options out;
    if (wanted.lora > 0) {
      out.only = {lora_names};
      out.names = {{"*", "base_model.model.*"}};  // the names in the files of PEFT
    }
    return out;
  }
  static std::vector<plait::safetensors_entry> tensors_of(entry const& job) {
    auto const type = job.precision == "double" ? plait::stored_type::f64 : plait::stored_type::f32;
    std::vector<plait::safetensors_entry> out;
    for (auto const& tensor : job.parameters()) out.push_back({tensor.name, type, tensor.lengths});
    return out;
  }
};

inline std::string kind_of(options const& wanted) {
  return "size " + in_quotes(wanted.size) + " in precision " + in_quotes(wanted.precision) +
         " on backend " + in_quotes(wanted.backend) +
         (wanted.recompute.empty() ? "" : " with --recompute " + wanted.recompute) +
         (wanted.lora > 0 ? " with --lora " + std::to_string(wanted.lora) : "");
}

/// Returns the name under which entries list the backend: all engines have the same name there.
inline std::string backend_of(options const& wanted) {
  bool const is_process = wanted.backend == "mpi" || wanted.backend == "gloo";
  return is_process ? process_backend : wanted.backend;
}

/// Returns a text that lists the plans that are built, and the options with which to configure the
/// build for the wanted plan.
inline std::string how_to_build(options const& wanted, std::string const& built,
                                std::string const& plan) {
  auto const text = built.empty() ? std::string("none is") : "built are " + built;
  auto const is_one_of = [](std::string const& word, std::initializer_list<char const*> words) {
    return std::ranges::find(words, word) != words.end();
  };
  auto const backend = backend_of(wanted);
  bool const is_cuda = backend == "cuda", is_reproducible = wanted.reproducible > 0;
  if (std::ranges::find(wanted.of->sizes, wanted.size) == wanted.of->sizes.end())
    return text + "; sizes are " + wanted.of->sizes_text();
  if (!is_one_of(wanted.precision, {"float", "double", "bfloat16"}))
    return text + "; precisions are float, double, bfloat16";
  if (is_cuda && (is_reproducible || !wanted.recompute.empty())) return text;
  if (wanted.size == wanted.of->tied_size && plan.find("pp") != std::string::npos)
    return text + "; " + wanted.size +
           " has no plans with stages, because its head is the table of the embedding";
  auto const variable = std::string(wanted.of->variables) +
                        (is_reproducible            ? "REPRODUCIBLE_"
                         : wanted.recompute.empty() ? ""
                                                    : "RECOMPUTE_") +
                        (is_cuda ? "CUDA_" : "");
  auto const model =
      wanted.size + "." + wanted.precision + (backend == "host" || is_cuda ? "" : "." + backend);
  return text + "; configure with -D " + variable + "MODELS=" + model + " -D " + variable +
         "PLANS" + (is_cuda ? "" : "_" + model) + "=" + plan +
         (is_reproducible ? " -D PLAIT_GPT_SLICES=" + std::to_string(wanted.reproducible) : "") +
         (wanted.lora > 0 ? " -D PLAIT_LLAMA_LORA=" + std::to_string(wanted.lora) : "") +
         " (to list several models or plans, separate them by semicolons)" +
         (wanted.of->has_lora ? "" : ", or let scripts/demo do it");
}

/// Returns a plan's name with N in place of the number of its data ranks, and this number:
/// "dp3.pp2" gives "dpN.pp2" and 3, and "pp2" gives "dpN.pp2" and 1.
///
/// Errors: input_error for a text that is not a number.
inline std::pair<std::string, int> with_data_ranks_apart(std::string const& plan) {
  if (plan == "serial") return {"dpN", 1};
  if (!plan.starts_with("dp")) return {"dpN." + plan, 1};
  std::size_t const end = std::min(plan.find('.'), plan.size());
  int ranks = 0;
  auto const [rest, problem] = std::from_chars(plan.data() + 2, plan.data() + end, ranks);
  if (problem != std::errc{} || rest != plan.data() + end || ranks < 1)
    throw plait::input_error("unknown plan " + in_quotes(plan) +
                             "; with --reproducible the plans are " +
                             "serial, dp2, dp3 and so on, pp2, dp3.pp2 and so on");
  return {"dpN" + plan.substr(end), ranks};
}

/// Returns the reproducible entry that the command line asks for, and the number of data ranks.
inline entry find_reproducible(options const& wanted) {
  auto const [name, data_ranks] = with_data_ranks_apart(wanted.plan);
  std::string built;
  for (auto job : reproducible_entries())
    if (job.size == wanted.size && job.precision == wanted.precision &&
        job.backend == backend_of(wanted)) {
      if (job.plan == name && job.slices == wanted.reproducible) {
        job.plan = wanted.plan;
        job.data_ranks = data_ranks;
        job.ranks *= data_ranks;
        return job;
      }
      built += (built.empty() ? "" : ", ") + job.plan + " of " + std::to_string(job.slices);
    }
  throw plait::input_error("plan " + in_quotes(wanted.plan) + " with --reproducible " +
                           std::to_string(wanted.reproducible) + " is not built for " +
                           kind_of(wanted) + "; " + how_to_build(wanted, built, name));
}

/// Returns the list of entries in which to look for the wanted job, unless the job is reproducible.
inline std::vector<entry> const& entries_for(options const& wanted) {
  return wanted.recompute.empty() ? entries() : recompute_entries();
}

inline entry find(options const& wanted) {
  if (wanted.reproducible > 0) return find_reproducible(wanted);
  bool known_plan = false;
  std::string built;
  for (auto const& job : entries()) known_plan = known_plan || job.plan == wanted.plan;
  for (auto const& job : entries_for(wanted)) {
    if (job.size != wanted.size || job.precision != wanted.precision ||
        job.backend != backend_of(wanted) || job.lora != wanted.lora ||
        job.recompute != wanted.recompute)
      continue;
    if (job.plan == wanted.plan) return job;
    built += (built.empty() ? "" : ", ") + job.plan;
  }
  if (!known_plan)
    throw plait::input_error("unknown plan " + in_quotes(wanted.plan) +
                             "; --list-plans prints the plans that are built");
  throw plait::input_error("plan " + in_quotes(wanted.plan) + " is not built for " +
                           kind_of(wanted) + "; " + how_to_build(wanted, built, wanted.plan));
}

/// Prints the plans that are built for the wanted size, precision and backend.
///
/// Errors: input_error if there are none.
inline void list_plans(options const& wanted) {
  bool any = false;
  for (auto const& job : entries_for(wanted))
    if (job.size == wanted.size && job.precision == wanted.precision &&
        job.backend == backend_of(wanted) && job.lora == wanted.lora &&
        job.recompute == wanted.recompute) {
      std::printf("%-12s %d ranks\n", job.plan.c_str(), job.ranks);
      any = true;
    }
  if (!any) throw plait::input_error("no plan is built for " + kind_of(wanted));
}

inline void check_batch(options const& wanted, entry const& job) {
  if (job.slices > 0) {
    if (wanted.batch % job.slices != 0)
      throw plait::input_error("--batch " + std::to_string(wanted.batch) +
                               " cannot be divided equally into the " + std::to_string(job.slices) +
                               " pieces of --reproducible");
    if (job.data_ranks > job.slices)
      throw plait::input_error("plan " + in_quotes(job.plan) + " has " +
                               std::to_string(job.data_ranks) + " data ranks for the " +
                               std::to_string(job.slices) + " pieces of --reproducible");
    return;
  }
  auto const microbatches = wanted.microbatches > 0 ? wanted.microbatches : job.stages;
  if (wanted.batch % (job.parts * microbatches) != 0)
    throw plait::input_error(
        "--batch " + std::to_string(wanted.batch) +
        (job.parts == job.data_ranks
             ? " cannot be divided equally over " + std::to_string(job.data_ranks) +
                   " data ranks with " + std::to_string(microbatches) + " microbatches each"
             : " is not a multiple of the sum of the shares (" + std::to_string(job.parts) +
                   ") times the microbatches (" + std::to_string(microbatches) + ")"));
}

/// Returns the default of --every: 100, or the next number of steps after which the job's replicas
/// make a common update.
inline std::int64_t usual_every(entry const& job) {
  std::int64_t const each = std::max(1, job.local_steps);
  return (100 + each - 1) / each * each;
}

/// Checks the options that have a meaning for replicas. The program reads the weights, to save them
/// or to generate text, only after a common update.
///
/// Errors: input_error if --steps or --every is not a multiple of the steps between two common
///         updates, and for an option of common updates in a plan without them.
inline void check_local_steps(options const& wanted, entry const& job) {
  bool const has_rate = wanted.outer_rate > 0;
  if (job.local_steps == 0) {
    if (has_rate || wanted.outer_momentum >= 0)
      throw plait::input_error(std::string(has_rate ? "--outer-rate" : "--outer-momentum") +
                               " needs a plan whose replicas make common updates, such as " +
                               "dp4.local8, not " + in_quotes(job.plan));
    return;
  }
  auto const check = [&](char const* option, std::int64_t given) {
    std::int64_t const each = job.local_steps, below = given / each * each;
    if (given == below) return;
    throw plait::input_error(
        std::string(option) + " " + std::to_string(given) + " is not a multiple of " +
        std::to_string(each) + ", but plan " + in_quotes(job.plan) +
        " makes a common update every " + std::to_string(each) +
        " steps, and only then all ranks have the same weights; write " + option + " " +
        (below > 0 ? std::to_string(below) + " or " : "") + std::to_string(below + each));
  };
  check("--steps", wanted.steps);
  check("--every", wanted.every);
}

/// Returns the project's own documents and headers, in a fixed order; they are the default training
/// text.
///
/// Errors: input_error if they have been moved since the program was built.
inline std::vector<fs::path> own_text() try {
  fs::path const project = TRAIN_GPT_PROJECT_DIR;
  std::vector<fs::path> files{project / "README.md"};
  for (char const* folder : {"docs", "include"}) {
    std::vector<fs::path> found;
    for (auto const& file : fs::recursive_directory_iterator(project / folder))
      if (file.path().extension() == ".md" || file.path().extension() == ".hpp")
        found.push_back(file.path());
    std::sort(found.begin(), found.end());
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
} catch (fs::filesystem_error const& problem) {
  throw plait::input_error("the project's own text cannot be read (" + problem.code().message() +
                           "); pass another text with --data FILE");
}

/// The file of --losses. It is opened before the training, so that errors are found early. The file
/// appears under its name when it is complete.
class losses_file {
 public:
  explicit losses_file(std::string const& path) : file_(path, "file of losses") {}

  void add(std::int64_t step, double loss) {
    char line[64];
    text_.append(line, static_cast<std::size_t>(
                           std::snprintf(line, sizeof line, "%" PRId64 ",%.17g\n", step, loss)));
    if (text_.size() >= std::size_t{1} << 16) write();
  }
  void commit() {
    write();
    file_.commit();
  }

 private:
  void write() {
    file_.write(std::as_bytes(std::span(text_)), written_);
    written_ += text_.size();
    text_.clear();
  }

  plait::detail::partial_file file_;
  std::string text_ = "step,loss\n";
  std::size_t written_ = 0;
};

inline bool is_one_file(fs::path const& one, fs::path const& other) {
  std::error_code problem;
  if (fs::equivalent(one, other, problem) && !problem) return true;
  auto const whole = [&](fs::path const& path) {
    auto const from_root = fs::absolute(path, problem);
    auto const found = fs::weakly_canonical(from_root, problem);
    return problem ? from_root.lexically_normal() : found;
  };
  return whole(one) == whole(other);
}

/// Checks the paths of the command line.
///
/// Errors: input_error if two options name one file, or one names the file of standard output or
///         error.
inline void check_files(options const& wanted) {
  struct named {
    char const* option;
    std::string path;
  };
  std::vector<named> const files{{"standard output", "/dev/stdout"},
                                 {"standard error", "/dev/stderr"},
                                 {"--data", wanted.data},
                                 {"--init", wanted.init},
                                 {"--save", wanted.save},
                                 {"--checkpoint", wanted.checkpoint},
                                 {"--losses", wanted.losses},
                                 {"--log", wanted.log},
                                 {"--draw", wanted.draw}};
  for (auto one = files.begin(); one != files.end(); ++one)
    for (auto other = files.begin(); other != one; ++other)
      if (one->option[0] == '-' && !one->path.empty() && !other->path.empty() &&
          is_one_file(one->path, other->path))
        throw plait::input_error(std::string(other->option) + " " +
                                 plait::detail::path_in_quotes(other->path) + " and " +
                                 one->option + " " + plait::detail::path_in_quotes(one->path) +
                                 " are the same file");
}

/// Returns bytes as text, and tokens as numbers, because the program does not have a tokenizer.
inline std::string printable(std::vector<std::int32_t> const& sample, bool tokens) {
  std::string text;
  for (auto const one : sample)
    if (tokens) text += (text.empty() ? "" : " ") + std::to_string(one);
    else text += one >= 127 || (one < 32 && one != '\n') ? '.' : static_cast<char>(one);
  return text;
}

using byte_text_or_tokens = std::variant<plait::byte_text, plait::token_shards>;

inline byte_text_or_tokens open_text(options const& wanted, entry const& job) {
  if (!job.reads_tokens && wanted.data.empty())
    return plait::byte_text::from_files(own_text(), job.sequence);
  if (!job.reads_tokens) return plait::byte_text::from_file(wanted.data, job.sequence);
  if (wanted.data.empty())
    throw plait::input_error("--size " + job.size +
                             " needs --data FILE, a file of tokens or a folder of such files");
  plait::ext::token_options const how{.sequence = job.sequence, .vocabulary = job.vocabulary};
  if (std::filesystem::is_directory(wanted.data))
    return plait::token_shards::in_folder(wanted.data, how);
  return plait::token_shards({wanted.data}, how);
}

/// Makes the engine of a backend of processes; null for other backends.
inline std::shared_ptr<plait::ext::process_engine> make_engine(options const& wanted) {
  if (backend_of(wanted) != process_backend) return nullptr;
  for (auto const& engine : engines())
    if (engine.name == wanted.backend) return engine.make();
  throw plait::input_error(
      "--backend " + wanted.backend +
      " is not built in; configure the build on a machine that has its library");
}

/// The checkpoints of a rank, with the options of the command line.
class kept_checkpoints final : public rank_checkpoints {
 public:
  /// `every`: the steps from one checkpoint to the next; `problem`: the string to which the first
  /// rank writes the reason why the last checkpoint could not be written.
  kept_checkpoints(options const& wanted, std::int64_t every,
                   std::unique_ptr<plait::saved_state> state,
                   plait::ext::batch_description const& batches, std::uint64_t epoch,
                   std::string& problem)
      : name_(wanted.of->name),
        resumes_(wanted.resume),
        speaks_(state->rank() == 0),
        problem_(problem),
        saves_(std::make_unique<plait::checkpoints>(
            std::move(state), batches, epoch,
            plait::checkpoint_options{.folder = wanted.checkpoint,
                                      .every = every,
                                      .keep = static_cast<int>(wanted.keep),
                                      .allow = words_of(wanted.allow)})) {}

  std::uint64_t resume() override {
    if (!resumes_) return 0;
    std::uint64_t const next = saves_->resume();
    if (!speaks_) return next;
    for (auto const& why : saves_->left_out())
      std::fprintf(stderr, "%s: left out: %s\n", name_, why.c_str());
    if (saves_->from().empty()) std::printf("no checkpoint was found: starting from step 0\n");
    else std::printf("resuming from %s\n", plait::detail::path_in_quotes(saves_->from()).c_str());
    std::fflush(stdout);
    return next;
  }
  void after_step() override { saves_->after_step(); }
  void finish() override {
    if (!saves_->is_saved()) saves_->save();
    saves_->finish();
    if (speaks_) problem_ = saves_->problem();
  }

 private:
  static std::vector<std::string> words_of(std::string const& list) {
    std::vector<std::string> out;
    std::size_t begin = 0;
    while (begin < list.size()) {
      std::size_t const end = std::min(list.find(',', begin), list.size());
      if (end > begin) out.push_back(list.substr(begin, end - begin));
      begin = end + 1;
    }
    return out;
  }

  char const* name_;
  bool resumes_, speaks_;
  std::string& problem_;
  std::unique_ptr<plait::checkpoints> saves_;
};

/// A sink for ranks that do not write files.
struct no_sink : tensor_sink {
  void write(std::string const&, std::span<float const>) override {}
  void write(std::string const&, std::span<double const>) override {}
};

inline std::string saved_text(options const& wanted, std::int64_t step) {
  return "; the state after step " + std::to_string(step) + " is saved in " +
         plait::detail::path_in_quotes(wanted.checkpoint);
}

/// Trains, and returns the exit code of the program.
inline int train(options const& wanted, entry const& job) {
  auto const opened = open_text(wanted, job);
  auto const sequences = std::visit([](auto const& text) { return text.size(); }, opened);
  if (static_cast<std::size_t>(wanted.batch) > sequences)
    throw plait::input_error("--batch " + std::to_string(wanted.batch) + " is more than the " +
                             std::to_string(sequences) + " sequences of the text");
  request request;
  std::visit([&](auto const& text) { request.text = &text; }, opened);
  request.steps = wanted.steps;
  request.batch = static_cast<std::size_t>(wanted.batch);
  request.microbatches = static_cast<int>(wanted.microbatches);
  request.data_ranks = job.slices > 0 ? job.data_ranks : 0;
  request.seed = static_cast<std::uint64_t>(wanted.seed);
  request.learning_rate = wanted.learning_rate;
  request.weight_decay = wanted.weight_decay;
  request.clip = wanted.clip;
  if (wanted.outer_rate > 0) request.outer.rate = wanted.outer_rate;
  if (wanted.outer_momentum >= 0) request.outer.momentum = wanted.outer_momentum;
  request.in_order = wanted.in_order;
  request.generate = static_cast<int>(wanted.generate);
  request.replay = wanted.replay;
  request.share_gpu = wanted.share_gpu;
  request.tf32 = wanted.tf32;
  request.attention = wanted.attention;
  request.schedule_seed = static_cast<std::uint64_t>(wanted.schedule_seed);

  // If there are several processes, only the root writes to files and to the terminal.
  request.engine = make_engine(wanted);
  request.timeout = wanted.timeout;
  bool const is_root = request.engine == nullptr || request.engine->ranks().rank == 0;
  no_sink nowhere;

  bool head_is_copied = false;
  std::vector<std::string> init_notes;
  if (!wanted.init.empty()) {
    init_names init;
    auto const config = check_config_of(wanted.init, job.config());
    init_notes = config.notes;
    with_weights(wanted.init, [&](auto&& from) {
      init = names_of_init(*wanted.of, job, config.tie_word_embeddings, from);
    });
    head_is_copied = init.copies_table;
    request.load = [&wanted, names = init.names](plait::saved_state& state) {
      with_weights(wanted.init, [&](auto&& from) { plait::load_weights(state, from, names); });
    };
  }
  std::unique_ptr<weights_sink> save;
  if (!wanted.save.empty() && !is_root) request.save = &nowhere;
  if (!wanted.save.empty() && is_root) {
    save = std::make_unique<weights_sink>(wanted, job);
    request.save = save.get();
  }
  std::string unsaved;
  if (!wanted.checkpoint.empty())
    request.checkpoints = [&](std::unique_ptr<plait::saved_state> state,
                              plait::ext::batch_description const& batches, std::uint64_t epoch) {
      return std::make_unique<kept_checkpoints>(wanted,
                                                wanted.every > 0 ? wanted.every : usual_every(job),
                                                std::move(state), batches, epoch, unsaved);
    };
  std::unique_ptr<losses_file> losses;
  if (!wanted.losses.empty() && is_root) losses = std::make_unique<losses_file>(wanted.losses);

  std::unique_ptr<plait::csv_log> log;
  if (!wanted.log.empty() && is_root) log = std::make_unique<plait::csv_log>(wanted.log);

  auto const* const tokens = std::get_if<plait::token_shards>(&opened);
  if (is_root)
    std::printf("plan %s on %d rank%s (%s), size %s, %s, %zu %s\n", job.plan.c_str(), job.ranks,
                job.ranks == 1 ? "" : "s", wanted.backend.c_str(), job.size.c_str(),
                job.precision.c_str(),
                tokens ? tokens->tokens() : std::get<plait::byte_text>(opened).bytes(),
                tokens ? "tokens" : "bytes of text");
  if (is_root)
    for (auto const& note : init_notes) std::printf("config.json: %s\n", note.c_str());
  if (is_root && head_is_copied)
    std::printf(
        "the weights share the head with the embedding's table: the head starts as a copy of the "
        "table\n");
  command_line::check_output();
  plait::progress progress(wanted.steps);
  bool has_begun = false;
  double first_loss = 0, last_loss = 0, speed = 0;
  request.on_step = [&](plait::step_report const& report, double tokens_per_second) {
    if (log) log->write(report);
    speed = tokens_per_second;
    // Between common updates the report is of one replica.
    if (job.local_steps == 0 || report.common_loss) {
      last_loss = report.common_loss.value_or(report.loss);
      if (!has_begun) first_loss = last_loss;
      has_begun = true;
      if (losses) losses->add(report.step, last_loss);
    }
    progress.update(report.step, has_begun ? last_loss : report.loss, tokens_per_second);
  };
  auto const keep_files = [&] {
    if (losses) losses->commit();
    if (save) save->writer.commit();
  };
  outcome outcome;
  // example-begin stop
  // One guard serves all trainers of the program.
  plait::stop_on_signals const stop(plait::early_warning::sigusr1);
  request.stop = &stop;
  try {
    outcome = job.run(request);
  } catch (plait::stopped_by_signal const& stopped) {
    keep_files();
    if (!is_root) return stopped.exit_code();
    std::printf("\n%s, loss %.4f -> %.4f%s\n", stopped.what(), first_loss, last_loss,
                save ? "; the weights are saved" : "");
    return stopped.exit_code();
  } catch (plait::work_failed const& problem) {  // for example, the disk of a log is full
    bool const is_saved = !wanted.checkpoint.empty() && unsaved.empty();
    if (is_root)
      std::fprintf(stderr, "%s: %s%s\n", wanted.of->name, problem.what(),
                   is_saved ? saved_text(wanted, problem.step).c_str() : "");
    return problem.exit_code();
  }
  // example-end
  keep_files();
  if (!is_root) return 0;
  if (!has_begun && wanted.steps > 0) std::printf("nothing is left to do\n");
  if (has_begun) std::printf("loss %.4f -> %.4f, %.0f tokens/s\n", first_loss, last_loss, speed);
  for (auto const& moved : outcome.moved)
    std::printf("moved over %s: %" PRId64 " bytes\n", moved.axes.c_str(), moved.bytes);
  if (!outcome.sample.empty())
    std::printf("\na sample:\n%s\n", printable(outcome.sample, job.reads_tokens).c_str());
  return unsaved.empty() ? 0 : 2;
}

/// Returns the parts of a request that the explanation of a plan depends on.
inline request planned_request(options const& wanted, entry const& job) {
  request request;
  request.batch = static_cast<std::size_t>(wanted.batch);
  request.microbatches = static_cast<int>(wanted.microbatches);
  request.data_ranks = job.slices > 0 ? job.data_ranks : 0;
  request.clip = wanted.clip;
  request.program = wanted.program;
  return request;
}

/// Prints the plan. If ranks are processes, the first process prints the plan, and each process
/// prints the rank that the launcher has given to it. If the launcher has started as many processes
/// as the plan has ranks, the processes connect to find out which groups cross hosts.
inline void explain(options const& wanted, entry const& job) {
  auto request = planned_request(wanted, job);
  std::string place;
  bool is_first = true;
  plait::host_map hosts;
  if (job.backend == process_backend) try {
      auto const here = plait::ext::read_process_ranks();
      is_first = here.rank == 0;
      place = here.text();
      if (here.launched && here.world_size == job.ranks) {
        request.engine = make_engine(wanted);
        hosts = job.hosts(request);
      }
    } catch (plait::input_error const& problem) {
      place = problem.what();
    }
  if (is_first) std::fputs(job.explain(request, hosts).c_str(), stdout);
  if (place.empty()) return;
  std::printf("%sthis process: %s%s\n", is_first ? "\n" : "", place.c_str(),
              wanted.backend == "mpi" ? "; MPI_COMM_WORLD decides when the job runs" : "");
}

/// Draws the plan. If a launcher has started several processes, only the first one draws.
inline void draw(options const& wanted, entry const& job) {
  if (job.backend == process_backend) try {
      if (plait::ext::read_process_ranks().rank != 0) return;
    } catch (plait::input_error const&) {  // the program was started without a launcher
    }
  auto const* const word = std::find(picture_words.begin(), picture_words.end(), wanted.draw_what);
  plait::ext::draw_options how;
  if (word != picture_words.end())
    how.what = static_cast<plait::ext::picture>(word - picture_words.begin());
  auto const text = plait::ext::draw(job.draw(planned_request(wanted, job)), how);
  plait::detail::partial_file file(wanted.draw, "picture");
  file.write(std::as_bytes(std::span(text)), 0);
  file.commit();
}

inline int run(options const& wanted) {
  if (wanted.help) return std::fputs(usage_of(*wanted.of).c_str(), stdout), 0;
  if (wanted.list_plans) return list_plans(wanted), 0;
  auto const& job = find(wanted);
  check_batch(wanted, job);
  check_files(wanted);
  bool const trains = !wanted.explain && wanted.draw.empty();
  if (trains && job.run == nullptr)
    throw plait::input_error("--size " + job.size + " is built only for --explain and --draw");
  if (trains) {
    check_local_steps(wanted, job);
    return train(wanted, job);
  }
  if (!wanted.draw.empty()) draw(wanted, job);
  if (wanted.explain) explain(wanted, job);
  return 0;
}

/// Runs the program `of` and returns the exit code of its main().
inline int main_of(program_description const& of, int count, char** words) {
  auto const say = [&](char const* problem) { std::fprintf(stderr, "%s: %s\n", of.name, problem); };
  try {
    command_line::hold_standard_files();
    int const code = run(parse(of, count, words));
    command_line::check_output();
    return code;
  } catch (plait::input_error const& problem) {
    return say(problem.what()), 2;
  } catch (plait::wait_stopped_by_signal const& stopped) {
    return say(stopped.what()), stopped.exit_code();
  } catch (std::exception const& problem) {
    return say(problem.what()), 1;
  }
}

}  // namespace train_gpt
