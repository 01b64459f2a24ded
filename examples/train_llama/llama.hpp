// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "train_gpt/options.hpp"

namespace train_llama {

inline constexpr train_gpt::program_description program{
    .name = "train_llama",
    .usage =
        "train_llama: trains a Llama on the bytes of a text, or explains the plan of a large one,\n"
        "under a plan of data, tensor and pipeline parallel ranks (threads of this process)\n\n"
        "  --data FILE            the text; without it, the project's own README, docs and "
        "headers\n"
        "  --size tiny|llama_1b   2 blocks of width 64, or Llama-3.2-1B, for --explain alone "
        "(tiny)\n",
    .sizes = {"tiny", "llama_1b"},
    .tied_size = "llama_1b",
    .variables = "PLAIT_LLAMA_",
    .in_files = {.prefix = "",
                 .table = "model.embed_tokens.weight",
                 .head = "lm_head.weight",
                 .is_tied = false,
                 .left_out = {"*.rotary_emb.inv_freq"}},
    .has_lora = true};

}  // namespace train_llama
