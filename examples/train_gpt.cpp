// SPDX-License-Identifier: Apache-2.0
// libs: safetensors checkpoint
// Trains a GPT-2 on the bytes of a text, or on tokens, under any of the compiled plans; see
// train_gpt/program.hpp for the main program, train_gpt/options.hpp for the command line,
// train_gpt/model.hpp for the model and the plans as types, train_gpt/job.hpp for the training
// itself.
#include "train_gpt/gpt.hpp"
#include "train_gpt/program.hpp"

int main(int count, char** words) { return train_gpt::main_of(train_gpt::gpt, count, words); }
