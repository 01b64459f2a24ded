// SPDX-License-Identifier: Apache-2.0
// Times the steps of one of train_gpt's jobs, by default on a GPU, compares them with the limits of
// the GPU, and lists the kernels that took the time. Prints JSON, as compare_pytorch.py does for
// the same model.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "device_measurements.hpp"
#include "plait/core/error.hpp"
#include "plait/core/file.hpp"
#include "step_figures.hpp"
#include "train_gpt/command_line.hpp"
#include "train_gpt/registry.hpp"

namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;
using train_gpt::entry;

constexpr char const* usage =
    "step_benchmark: times training steps of train_gpt's models\n\n"
    "  --size NAME, --plan NAME, --precision NAME, --backend host|cuda\n"
    "                    a job of train_gpt (gpt2, serial, bfloat16, cuda)\n"
    "  --batch N|largest samples of a step; the largest batch that fits into the GPU (4)\n"
    "  --warm-up N       steps before those that are timed (5)\n"
    "  --steps N         timed steps (20)\n"
    "  --replay          steps are recorded once and repeated (CUDA graphs)\n"
    "  --cudnn           attention is done by cuDNN\n"
    "  --free-attention  attention by cuDNN may give other bits from run to run\n"
    "  --own-gelu        gelu is not done by cuBLASLt\n"
    "  --own-residual    sums of residuals are kernels of their own\n"
    "  --two-pass-loss   the logits are read twice for the loss\n"
    "  --two-pass-norm   layer_norm's gradients are two kernels\n"
    "  --fused-bias      gradients of biases are done by cuBLASLt\n"
    "  --time-products   cuBLASLt's algorithms are timed\n"
    "  --recorded N      steps whose kernels are listed at the end (0)\n"
    "  --output FILE     where the JSON goes (standard output)\n";

struct options {
  std::string size = "gpt2", plan = "serial", precision = "bfloat16", backend = "cuda", output;
  std::int64_t batch = 4;  ///< 0: the largest
  std::int64_t warm_up = 5, steps = 20, recorded = 0;
  bool replay = false, cudnn = false, help = false;
  bool free_attention = false, own_gelu = false, fused_bias = false, time_products = false;
  bool own_residual = false, two_pass_loss = false, two_pass_norm = false;
};

options parse(int count, char const* const* words) {
  using whole = command_line::number<std::int64_t>;
  constexpr std::int64_t most_steps = 1'000'000, most_batch = 1'000'000;
  options out;
  std::string batch;
  command_line::option known[]{{"--size", &out.size},
                               {"--plan", &out.plan},
                               {"--precision", &out.precision},
                               {"--backend", &out.backend},
                               {"--batch", &batch},
                               {"--warm-up", whole{&out.warm_up, 1, most_steps}},
                               {"--steps", whole{&out.steps, 1, most_steps}},
                               {"--replay", &out.replay, "cuda"},
                               {"--cudnn", &out.cudnn, "cuda"},
                               {"--free-attention", &out.free_attention, "cuda"},
                               {"--own-gelu", &out.own_gelu, "cuda"},
                               {"--own-residual", &out.own_residual, "cuda"},
                               {"--two-pass-loss", &out.two_pass_loss, "cuda"},
                               {"--two-pass-norm", &out.two_pass_norm, "cuda"},
                               {"--fused-bias", &out.fused_bias, "cuda"},
                               {"--time-products", &out.time_products, "cuda"},
                               {"--recorded", whole{&out.recorded, 0, most_steps}, "cuda"},
                               {"--output", &out.output},
                               {"--help", &out.help}};
  command_line::parse(known, count, words);
  if (batch == "largest") out.batch = 0;
  else if (!batch.empty())
    command_line::read_number<std::int64_t>("--batch", batch, {&out.batch, 1, most_batch});
  command_line::check_backend(known, out.backend);
  return out;
}

entry const& find(options const& wanted) {
  for (auto const& job : train_gpt::entries())
    if (job.size == wanted.size && job.plan == wanted.plan && job.precision == wanted.precision &&
        job.backend == wanted.backend)
      return job;
  using command_line::in_quotes;
  throw plait::input_error("there is no job " + in_quotes(wanted.size) + ", " +
                           in_quotes(wanted.plan) + ", " + in_quotes(wanted.precision) + ", " +
                           in_quotes(wanted.backend) + " in this program");
}

/// Derives the numbers from the names and shapes of GPT-2's parameters.
step_figures::model_size size_of(entry const& job) {
  step_figures::model_size out;
  out.sequence = job.sequence;
  for (auto const& tensor : job.parameters()) {
    std::size_t numbers = 1;
    for (auto const length : tensor.lengths) numbers *= length;
    out.parameters += numbers;
    if (tensor.name == "wpe.weight") out.width = tensor.lengths.back();
    if (tensor.name.ends_with(".ln_1.weight")) ++out.layers;
  }
  return out;
}

/// A file of tokens after the header that plait::token_shards reads.
void write_tokens(fs::path const& path, std::vector<std::uint16_t> const& tokens) {
  std::vector<std::int32_t> header(256);
  header[0] = 20240520, header[1] = 1, header[2] = static_cast<std::int32_t>(tokens.size());
  plait::detail::partial_file file(path, "token file");
  auto const begin = std::as_bytes(std::span(header));
  file.write(begin, 0);
  file.write(std::as_bytes(std::span(tokens)), begin.size());
  file.commit();
}

/// A new folder for this process, which is removed with its contents.
struct scratch_folder {
  std::string path;
  scratch_folder() {
    std::error_code problem;
    auto const parent = fs::temp_directory_path(problem);
    path = (parent / "step_benchmark_XXXXXX").string();
    if (problem || ::mkdtemp(path.data()) == nullptr)
      throw plait::input_error("no folder can be made for temporary files; is TMPDIR a folder?");
  }
  ~scratch_folder() {
    std::error_code unused;
    fs::remove_all(path, unused);
  }
  scratch_folder(scratch_folder const&) = delete;
  scratch_folder& operator=(scratch_folder const&) = delete;
};

/// Random tokens, or bytes, for `samples` sequences.
std::variant<plait::byte_text, plait::token_shards> random_text(entry const& job,
                                                                std::size_t samples) {
  std::mt19937 random(1);
  std::vector<std::uint16_t> tokens(samples * job.sequence + 1);
  for (auto& token : tokens) token = static_cast<std::uint16_t>(random() % job.vocabulary);
  if (!job.reads_tokens)
    return plait::byte_text::from_text({tokens.begin(), tokens.end()}, job.sequence);
  scratch_folder const folder;
  auto const path = fs::path(folder.path) / "tokens";
  write_tokens(path, tokens);
  return plait::token_shards({path},  // stays mapped without its name
                             {.sequence = job.sequence, .vocabulary = job.vocabulary});
}

/// Changes to the default step.
struct variant {
  bool replay = false, cudnn = false;
  bool free_attention = false, own_gelu = false, fused_bias = false, time_products = false;
  bool own_residual = false, two_pass_loss = false, two_pass_norm = false;

  [[nodiscard]] std::string name() const {
    return std::string(replay ? "replayed" : "launched") + (cudnn ? ", cuDNN" : "") +
           (free_attention ? ", not deterministic" : "") + (own_gelu ? ", own gelu" : "") +
           (own_residual ? ", own residual sums" : "") +
           (two_pass_loss ? ", two passes for the loss" : "") +
           (two_pass_norm ? ", two passes for layer_norm" : "") +
           (fused_bias ? ", bias gradients by cuBLASLt" : "") +
           (time_products ? ", timed products" : "");
  }
};

struct timed {
  std::vector<double> ms;
  double first_loss = 0, last_loss = 0;
  device_measurements::memory memory;
};

/// Trains from the start; when(step) is called after each step.
template <class When>
timed train(entry const& job, std::size_t batch, std::int64_t warm_up, std::int64_t steps,
            variant how, When when) {
  using clock = std::chrono::steady_clock;
  auto const text = random_text(job, 2 * batch);
  train_gpt::request wanted;
  std::visit([&](auto const& read) { wanted.text = &read; }, text);
  wanted.batch = batch;
  wanted.steps = warm_up + steps;
  wanted.learning_rate = 3e-4;
  wanted.replay = how.replay;
  wanted.attention = how.cudnn ? "cudnn" : "own";
  wanted.deterministic_attention = !how.free_attention;
  wanted.fused_gelu = !how.own_gelu;
  wanted.fused_residual = !how.own_residual;
  wanted.one_pass_cross_entropy = wanted.loss_with_gradient = !how.two_pass_loss;
  wanted.one_pass_layer_norm = !how.two_pass_norm;
  wanted.fused_bias_gradient = how.fused_bias;
  wanted.time_products = how.time_products;
  timed out;
  clock::time_point last;
  wanted.on_step = [&](plait::step_report const& report, double) {
    auto const now = clock::now();  // the loss has been read: the step has ended
    if (report.step == 0) out.first_loss = report.loss;
    if (report.step >= warm_up)
      out.ms.push_back(std::chrono::duration<double, std::milli>(now - last).count());
    out.last_loss = report.loss;
    out.memory = device_measurements::memory_here();
    when(report.step);
    last = clock::now();
  };
  job.run(wanted);
  return out;
}

std::size_t largest_batch(entry const& job) {
  auto const use_of = [&](std::size_t batch) -> step_figures::memory_use {
    return {batch, train(job, batch, 1, 1, {}, [](auto) {}).memory.used};
  };
  std::size_t const grain = 4;
  auto const less = use_of(grain), more = use_of(4 * grain);
  auto batch =
      step_figures::predicted_batch(less, more, device_measurements::memory_here().total, grain);
  for (; batch > 0; batch -= grain) try {
      return use_of(batch).batch;
    } catch (plait::out_of_memory const&) {  // the memory in use varies a little
    }
  throw plait::error("no batch of at least " + std::to_string(grain) + " samples fits");
}

/// Returns the kernels of a step, or null with the reason on standard error if they cannot be
/// recorded.
json kernels_of(entry const& job, options const& wanted, std::size_t batch, variant how) try {
  device_measurements::start_recording();
  std::uint64_t since = 0;
  train(job, batch, wanted.warm_up, wanted.recorded, how, [&](std::int64_t step) {
    if (step + 1 == wanted.warm_up) since = device_measurements::time_now();
  });
  json out = json::array();
  for (auto const& kernel : step_figures::kernel_shares(device_measurements::recorded_since(since),
                                                        int(wanted.recorded), 20))
    out.push_back({{"name", kernel.name},
                   {"calls", kernel.calls},
                   {"us", kernel.us},
                   {"share", kernel.share}});
  return out;
} catch (std::exception const& problem) {
  std::fprintf(stderr, "kernels are not listed: %s\n", problem.what());
  return nullptr;
}

json line_of(entry const& job, std::size_t batch, variant how, timed const& run) {
  auto const size = size_of(job);
  auto const time = step_figures::spread_of(run.ms);
  double const tokens_per_second = 1e3 * double(batch * job.sequence) / time.median;
  return {
      {"program", "plait"},
      {"variant", how.name()},
      {"size", job.size},
      {"plan", job.plan},
      {"precision", job.precision},
      {"batch", batch},
      {"sequence", job.sequence},
      {"parameters", size.parameters},
      {"flops_per_token", step_figures::flops_per_token(size)},
      {"steps", run.ms.size()},
      {"step_ms", {{"median", time.median}, {"least", time.least}, {"greatest", time.greatest}}},
      {"tokens_per_second", tokens_per_second},
      {"tflops", 1e-12 * step_figures::flops_per_token(size) * tokens_per_second},
      {"first_loss", run.first_loss},
      {"last_loss", run.last_loss}};
}

/// The output of the JSON: a file, which is written again with each result, or the standard output
/// at the end.
class result_file {
 public:
  /// Errors: input_error if the file cannot be written; it is thrown before the work.
  explicit result_file(std::string path) : path_(std::move(path)) { write(json::array()); }
  void write(json const& lines) {
    text_ = lines.dump(1) + "\n";
    if (path_.empty()) return;
    plait::detail::partial_file file(path_);
    file.write(std::as_bytes(std::span(text_)), 0);
    file.commit();
  }
  void end() const {
    if (path_.empty()) std::fputs(text_.c_str(), stdout);
  }

 private:
  std::string path_, text_;
};

void measure(options const& wanted, device_measurements::machine const& machine, result_file& out) {
  auto const& job = find(wanted);
  bool const on_gpu = wanted.backend == "cuda";
  if (wanted.batch == 0 && !on_gpu) throw plait::input_error("--batch largest needs a GPU");
  double const roof = on_gpu ? 1e-12 * device_measurements::matrix_product_roof() : 0;
  auto const batch =
      wanted.batch == 0 ? largest_batch(job) : static_cast<std::size_t>(wanted.batch);
  variant const how{.replay = wanted.replay,
                    .cudnn = wanted.cudnn,
                    .free_attention = wanted.free_attention,
                    .own_gelu = wanted.own_gelu,
                    .fused_bias = wanted.fused_bias,
                    .time_products = wanted.time_products,
                    .own_residual = wanted.own_residual,
                    .two_pass_loss = wanted.two_pass_loss,
                    .two_pass_norm = wanted.two_pass_norm};
  auto const run = train(job, batch, wanted.warm_up, wanted.steps, how, [](auto) {});
  auto line = line_of(job, batch, how, run);
  line["largest"] = wanted.batch == 0;
  line["device"] = on_gpu ? machine.gpu : "host";
  line["cuda"] = on_gpu ? json(machine.cuda) : json(nullptr);
  line["memory_bytes"] = on_gpu ? json(run.memory.used) : json(nullptr);
  line["roof_tflops"] = on_gpu ? json(roof) : json(nullptr);
  line["mfu"] = on_gpu ? json(line["tflops"].get<double>() / roof) : json(nullptr);
  out.write(json::array({line}));
  if (wanted.recorded == 0 || !on_gpu) return;
  // Recording makes steps slower, and may end the process: the times are written before it.
  line["kernels"] = kernels_of(job, wanted, batch, how);
  out.write(json::array({line}));
}

}  // namespace

int main(int count, char** words) {
  try {
    command_line::hold_standard_files();
    auto const wanted = parse(count, words);
    if (wanted.help) {
      std::fputs(usage, stdout);
      command_line::check_output();
      return 0;
    }
    auto const machine = device_measurements::machine_here();
    if (wanted.backend == "cuda" && machine.gpu.empty()) {
      std::printf("no GPU: %s; nothing is measured\n", machine.problem.c_str());
      command_line::check_output();
      return 0;
    }
    result_file out(wanted.output);
    measure(wanted, machine, out);
    out.end();
    command_line::check_output();
    return 0;
  } catch (plait::input_error const& problem) {
    std::fprintf(stderr, "step_benchmark: %s\n", problem.what());
    return 2;
  } catch (std::exception const& problem) {
    std::fprintf(stderr, "step_benchmark: %s\n", problem.what());
    return 1;
  }
}
