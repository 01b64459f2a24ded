// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <plait/core/error.hpp>

#include "train_gpt/command_line.hpp"

// The command line of train_gpt and train_llama.
namespace train_gpt {

/// The largest number of samples of a step: more than any machine holds, and small enough that no
/// count of bytes overflows.
inline constexpr std::int64_t most_batch = 1'000'000;

/// The names that transformers gives to tensors in files, for tensors with other names in the
/// model.
struct names_in_files {
  char const* prefix;  ///< prefix that some files have on all names except the head's
  char const* table;   ///< the name of the embedding's table in the model
  char const* head;
  /// True if the head is the table in every file without a head; if false, config.json must declare
  /// it.
  bool is_tied;
  std::array<std::string_view, 2> left_out;  ///< patterns of tensors that are not parameters
};

/// The properties in which train_gpt and train_llama differ.
struct program_description {
  char const* name;
  char const* usage;  ///< the purpose of the program, and its text on --data and --size
  /// The names of the sizes; unused places at the end are empty.
  std::array<std::string_view, 3> sizes;
  char const* tied_size;  ///< the size whose head is the embedding's table
  char const* variables;  ///< the prefix of the names of CMake's variables
  names_in_files in_files;
  bool has_lora = false;  ///< true: the program has --lora; false: it has --reproducible

  [[nodiscard]] std::string sizes_text() const {
    std::string out;
    for (auto const size : sizes)
      if (!size.empty()) out += (out.empty() ? "" : ", ") + std::string(size);
    return out;
  }
};

/// The values of --draw-what, in the order of plait::ext::picture.
inline constexpr std::array<std::string_view, 4> picture_words{"mesh", "plan", "memory",
                                                               "timetable"};

struct options {
  program_description const* of = nullptr;
  std::string data, plan = "serial", size, precision = "float", backend = "host", attention;
  std::string init, save, losses, log, checkpoint, allow, recompute, draw, draw_what;
  std::int64_t every = 0, keep = 0;            // 0: not given
  double outer_rate = 0, outer_momentum = -1;  // 0 and -1: not given
  std::int64_t steps = 200, batch = 16, microbatches = 0, reproducible = 0, lora = 0, seed = 0,
               generate = 200, schedule_seed = 0;
  double timeout = 0;  // 0: not given
  double learning_rate = 3e-3, weight_decay = 0.01, clip = 1.0;
  bool resume = false;
  bool in_order = false, explain = false, program = false, list_plans = false, replay = false,
       share_gpu = false, tf32 = false, help = false;
};

inline constexpr char const* usage_of_plans =
    "  --plan NAME            see --list-plans (serial)\n"
    "  --precision float|double|bfloat16\n"
    "                         bfloat16 keeps weights and sums in float (float)\n"
    "  --backend host|simulated|mpi|gloo|cuda\n"
    "                         threads; a device that looks for missing waits; processes that\n"
    "                         mpirun or torchrun has started; GPUs (host)\n"
    "  --timeout SECONDS      after which a process waits no longer for others (300 until all\n"
    "                         have met, then 60)\n"
    "  --schedule-seed N      of the simulated device's order of events (0)\n"
    "  --replay               record a step and repeat it (CUDA graphs; one rank)\n"
    "  --share-gpu            all ranks on one GPU\n"
    "  --tf32                 round the operands of matrix products to TF32 on a GPU\n"
    "  --attention own|cudnn  who computes attention in bfloat16 on a GPU (cudnn if it is built "
    "in)\n"
    "  --steps N              0 is allowed: --save then writes the initial weights (200)\n"
    "  --batch N              samples of one step, over all ranks (16)\n"
    "  --microbatches M       pieces of a step (what the plan needs)\n";

inline constexpr char const* usage_of_reproducible =
    "  --recompute cheap|all  make again before the backward what layers without a matrix have "
    "made,\n"
    "                         or all but the output of a block: less memory, the same bits\n"
    "  --reproducible G       cut a step into G pieces over all data ranks, whose sums are made "
    "so\n"
    "                         that any number of data ranks gives the same bits: serial, dp1 to\n"
    "                         dpG, pp2, gpipe2, tp2, zero, and dp3.pp2 and so on\n";

inline constexpr char const* usage_of_lora =
    "  --lora RANK            train two matrices of this rank beside each q_proj and v_proj and "
    "nothing\n"
    "                         else; --save then writes those alone\n";

inline constexpr char const* usage_of_training =
    "  --seed S               of the initial weights and the order of samples (0)\n"
    "  --learning-rate X      (0.003)\n"
    "  --weight-decay X       (0.01)\n"
    "  --clip X               greatest gradient norm, 0 for none (1)\n"
    "  --outer-rate X         learning rate of common updates, under plans with local8 (1)\n"
    "  --outer-momentum X     Nesterov momentum of these updates (0)\n"
    "  --in-order             sample i of step s starts at byte (or token)\n"
    "                         (s * batch + i) * sequence\n"
    "  --init FILE            start from these weights (safetensors), or from a folder of them\n"
    "                         (Hugging Face's, with its index; PyTorch's; a checkpoint)\n"
    "  --save FILE            write the weights at the end (safetensors); FOLDER/ is a new folder\n"
    "                         as Hugging Face has it, with an index of several files\n"
    "  --checkpoint DIR       save all that training needs to go on in a folder, while the next\n"
    "                         steps run; also behind the last step and on a signal\n"
    "  --every N              steps from one checkpoint to the next (100, or with local steps the\n"
    "                         next multiple)\n"
    "  --keep K               checkpoints that are kept (3)\n"
    "  --resume               go on from the newest complete checkpoint of DIR, if there is one, "
    "under\n"
    "                         this plan or any other\n"
    "  --allow A,B,...        settings that may be others than in the checkpoint: schedule,\n"
    "                         learning_rate, global_batch, ...\n"
    "  --losses FILE          write step,loss lines at the end (csv)\n"
    "                         Until the end both are plait-*.partial beside their file;\n"
    "                         a program that is killed leaves that\n"
    "  --log FILE             write a line for each step at once: loss, learning rate and so on\n"
    "                         (csv)\n"
    "  --generate N           bytes (or tokens) to make up at the end (200)\n"
    "  --explain              print the plan, and which rank a process is, and stop\n"
    "  --program              with --explain: also the operations of a step, one by one\n"
    "  --draw FILE            draw the plan (SVG), and stop\n"
    "  --draw-what mesh|plan|memory|timetable\n"
    "                         with --draw: the ranks, the layers and all that is sent, what a "
    "rank\n"
    "                         holds, or the order of a step (plan)\n"
    "  --list-plans           print the names of the plans and stop\n";

[[nodiscard]] inline std::string usage_of(program_description const& of) {
  return std::string(of.usage) + usage_of_plans +
         (of.has_lora ? usage_of_lora : usage_of_reproducible) + usage_of_training;
}

/// Reads the options of a command line.
///
/// Errors: input_error for an unknown or repeated option, a missing or a wrong value, and options
///         that the backend does not use.
inline options parse(program_description const& of, int count, char const* const* words) {
  using command_line::number;
  using whole = number<std::int64_t>;
  using real = number<double>;
  constexpr std::int64_t most_int = std::numeric_limits<int>::max();
  constexpr std::int64_t most_seed = std::numeric_limits<std::int64_t>::max();
  constexpr double most_real = 1e300;
  options out;
  out.of = &of;
  out.size = of.sizes[0];
  std::vector<command_line::option> known{
      {"--data", &out.data},
      {"--plan", &out.plan},
      {"--size", &out.size},
      {"--precision", &out.precision},
      {"--backend", &out.backend},
      {"--schedule-seed", whole{&out.schedule_seed, 0, most_seed}, "simulated"},
      {"--timeout", real{&out.timeout, 0.001, 31536000}},
      {"--replay", &out.replay, "cuda"},
      {"--share-gpu", &out.share_gpu, "cuda"},
      {"--tf32", &out.tf32, "cuda"},
      {"--attention", &out.attention},
      {"--init", &out.init},
      {"--save", &out.save},
      {"--checkpoint", &out.checkpoint},
      {"--every", whole{&out.every, 1, 1'000'000'000'000}},
      {"--keep", whole{&out.keep, 1, 1'000'000}},
      {"--resume", &out.resume},
      {"--allow", &out.allow},
      {"--losses", &out.losses},
      {"--log", &out.log},
      {"--steps", whole{&out.steps, 0, 1'000'000'000'000}},
      {"--batch", whole{&out.batch, 1, most_batch}},
      {"--microbatches", whole{&out.microbatches, 1, most_batch}},
      {"--recompute", &out.recompute},
      {"--reproducible", whole{&out.reproducible, 1, most_batch}},
      {"--lora", whole{&out.lora, 1, most_batch}},
      {"--seed", whole{&out.seed, 0, most_seed}},
      {"--generate", whole{&out.generate, 0, most_int}},
      {"--learning-rate", real{&out.learning_rate, 0, most_real}},
      {"--weight-decay", real{&out.weight_decay, 0, most_real}},
      {"--clip", real{&out.clip, 0, most_real}},
      {"--outer-rate", real{&out.outer_rate, 1e-6, 1e6}},
      {"--outer-momentum", real{&out.outer_momentum, 0, 0.999999}},
      {"--in-order", &out.in_order},
      {"--explain", &out.explain},
      {"--program", &out.program},
      {"--draw", &out.draw},
      {"--draw-what", &out.draw_what},
      {"--list-plans", &out.list_plans},
      {"--help", &out.help},
      {"-h", &out.help},
  };
  std::erase_if(known, [&](auto const& one) {
    std::string_view const name = one.name;
    return of.has_lora ? name == "--reproducible" || name == "--recompute" : name == "--lora";
  });
  command_line::parse(known, count, words);
  if (out.program && !out.explain)
    throw plait::input_error(
        "--program adds to the output of --explain; write --explain --program");
  if (!out.draw_what.empty() && out.draw.empty())
    throw plait::input_error("--draw-what needs --draw FILE");
  bool is_drawn = out.draw_what.empty();
  for (auto const word : picture_words) is_drawn = is_drawn || out.draw_what == word;
  if (!is_drawn)
    throw plait::input_error("--draw-what is mesh, plan, memory or timetable, got " +
                             command_line::in_quotes(out.draw_what));
  if (!out.attention.empty() && out.attention != "own" && out.attention != "cudnn")
    throw plait::input_error("--attention is own or cudnn, got " +
                             command_line::in_quotes(out.attention));
  if (out.attention == "cudnn" && (out.backend != "cuda" || out.precision != "bfloat16"))
    throw plait::input_error("--attention cudnn needs --backend cuda and --precision bfloat16");
  command_line::check_backend(known, out.backend);
  if (out.timeout > 0 && out.backend != "mpi" && out.backend != "gloo")
    throw plait::input_error("--timeout needs --backend mpi or gloo, not " +
                             command_line::in_quotes(out.backend));
  if (!out.recompute.empty() && out.recompute != "cheap" && out.recompute != "all")
    throw plait::input_error("--recompute is cheap or all, got " +
                             command_line::in_quotes(out.recompute));
  if (!out.recompute.empty() && out.reproducible > 0)
    throw plait::input_error(
        "no plan is built for --recompute together with --reproducible; leave one "
        "out");
  if (out.reproducible > 0 && out.microbatches > 0)
    throw plait::input_error(
        "--microbatches cannot be used with --reproducible, where the G pieces are the "
        "microbatches; leave one out");
  if (out.checkpoint.empty() && (out.resume || !out.allow.empty() || out.every > 0 || out.keep > 0))
    throw plait::input_error(std::string(out.resume           ? "--resume"
                                         : !out.allow.empty() ? "--allow"
                                         : out.every > 0      ? "--every"
                                                              : "--keep") +
                             " needs --checkpoint DIR");
  if (out.keep == 0) out.keep = 3;
  return out;
}

}  // namespace train_gpt
