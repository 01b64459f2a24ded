// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>

#include <plait/core/error.hpp>

// The command line of train_gpt.
namespace train_gpt {

struct options {
  std::string data, plan = "serial", size = "tiny", precision = "float", backend = "host",
                    attention = "own";
  std::string init, save, losses;
  std::int64_t steps = 200, batch = 16, microbatches = 0, seed = 0, generate = 200,
               schedule_seed = 0;
  double learning_rate = 3e-3, weight_decay = 0.01, clip = 1.0;
  bool in_order = false, explain = false, list_plans = false, replay = false, share_gpu = false,
       tf32 = false, help = false;
};

inline constexpr char const* usage =
    "train_gpt: trains a GPT-2 on the bytes of a text or on tokens, under a plan of data, tensor\n"
    "and pipeline parallel ranks (threads of this process)\n\n"
    "  --data FILE            the text; without it, the project's own README, docs and headers.\n"
    "                         For size gpt2 the tokens: 16 bit each, behind llm.c's header\n"
    "  --plan NAME            see --list-plans (serial)\n"
    "  --size tiny|small|gpt2 2 layers of width 64, 4 of width 256, or 12 of width 768 (tiny)\n"
    "  --precision float|double|bfloat16\n"
    "                         bfloat16 keeps weights and sums in float (float)\n"
    "  --backend host|simulated|cuda\n"
    "                         threads; a device that looks for missing waits; GPUs (host)\n"
    "  --schedule-seed N      of the simulated device's order of events (0)\n"
    "  --replay               record a step and repeat it (CUDA graphs; one rank)\n"
    "  --share-gpu            all ranks on one GPU\n"
    "  --tf32                 round the operands of matrix products to TF32 on a GPU\n"
    "  --attention own|cudnn  who computes attention in bfloat16 on a GPU (own)\n"
    "  --steps N              0 is allowed: --save then writes the initial weights (200)\n"
    "  --batch N              samples of one step, over all ranks (16)\n"
    "  --microbatches M       pieces of a step (what the plan needs)\n"
    "  --seed S               of the initial weights and the order of samples (0)\n"
    "  --learning-rate X      (0.003)\n"
    "  --weight-decay X       (0.01)\n"
    "  --clip X               greatest gradient norm, 0 for none (1)\n"
    "  --in-order             sample i of step s starts at byte (or token)\n"
    "                         (s * batch + i) * sequence\n"
    "  --init FILE            start from these weights (safetensors)\n"
    "  --save FILE            write the weights at the end (safetensors)\n"
    "  --losses FILE          write step,loss lines (csv)\n"
    "  --generate N           bytes (or tokens) to make up at the end (200)\n"
    "  --explain              print the plan and stop\n"
    "  --list-plans           print the names of the plans and stop\n";

namespace detail {

template <class Number>
Number parse_number(std::string_view option, char const* text, Number least) {
  Number value{};
  char const* const end = text + std::strlen(text);
  auto const result = std::from_chars(text, end, value);
  if (result.ec != std::errc{} || result.ptr != end || !(value >= least) ||
      value > std::numeric_limits<Number>::max() / 2)
    throw plait::input_error(std::string(option) + " needs a number of at least " +
                             std::to_string(static_cast<std::int64_t>(least)) + ", got '" + text +
                             "'");
  return value;
}

}  // namespace detail

/// Errors: input_error for an unknown option, a missing or a wrong value.
inline options parse(int count, char** words) {
  options out;
  for (int i = 1; i < count; ++i) {
    std::string_view const word = words[i];
    auto const value = [&] {
      if (++i == count || *words[i] == '\0')
        throw plait::input_error(std::string(word) + " needs a value");
      return words[i];
    };
    auto const number = [&](auto least) { return detail::parse_number(word, value(), least); };
    if (word == "--data") out.data = value();
    else if (word == "--plan") out.plan = value();
    else if (word == "--size") out.size = value();
    else if (word == "--precision") out.precision = value();
    else if (word == "--backend") out.backend = value();
    else if (word == "--schedule-seed") out.schedule_seed = number(std::int64_t{0});
    else if (word == "--replay") out.replay = true;
    else if (word == "--share-gpu") out.share_gpu = true;
    else if (word == "--tf32") out.tf32 = true;
    else if (word == "--attention") out.attention = value();
    else if (word == "--init") out.init = value();
    else if (word == "--save") out.save = value();
    else if (word == "--losses") out.losses = value();
    else if (word == "--steps") out.steps = number(std::int64_t{0});
    else if (word == "--batch") out.batch = number(std::int64_t{1});
    else if (word == "--microbatches") out.microbatches = number(std::int64_t{1});
    else if (word == "--seed") out.seed = number(std::int64_t{0});
    else if (word == "--generate") out.generate = number(std::int64_t{0});
    else if (word == "--learning-rate") out.learning_rate = number(0.0);
    else if (word == "--weight-decay") out.weight_decay = number(0.0);
    else if (word == "--clip") out.clip = number(0.0);
    else if (word == "--in-order") out.in_order = true;
    else if (word == "--explain") out.explain = true;
    else if (word == "--list-plans") out.list_plans = true;
    else if (word == "--help" || word == "-h") out.help = true;
    else throw plait::input_error("unknown option '" + std::string(word) + "'; see --help");
  }
  if (out.attention != "own" && out.attention != "cudnn")
    throw plait::input_error("--attention is own or cudnn, got '" + out.attention + "'");
  if (out.attention == "cudnn" && (out.backend != "cuda" || out.precision != "bfloat16"))
    throw plait::input_error("--attention cudnn needs --backend cuda and --precision bfloat16");
  return out;
}

}  // namespace train_gpt
