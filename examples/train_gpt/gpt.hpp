// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "train_gpt/options.hpp"

namespace train_gpt {

inline constexpr program_description gpt{
    .name = "train_gpt",
    .usage =
        "train_gpt: trains a GPT-2 on the bytes of a text or on tokens, under a plan of data, "
        "tensor\n"
        "and pipeline parallel ranks (threads of this process)\n\n"
        "  --data FILE            the text; without it, the project's own README, docs and "
        "headers.\n"
        "                         For size gpt2 the tokens: 16 bit each, behind llm.c's header\n"
        "  --size tiny|small|gpt2 2 layers of width 64, 4 of width 256, or 12 of width 768 "
        "(tiny)\n",
    .sizes = {"tiny", "small", "gpt2"},
    .tied_size = "gpt2",
    .variables = "PLAIT_GPT_",
    .in_files = {.prefix = "transformer.",
                 .table = "wte.weight",
                 .head = "lm_head.weight",
                 .is_tied = true,
                 .left_out = {"*.attn.bias", "*.attn.masked_bias"}}};

}  // namespace train_gpt
