// SPDX-License-Identifier: Apache-2.0
// libs: safetensors checkpoint
// Trains a Llama, or additional matrices for a Llama with given weights, under any of the compiled
// plans; see train_llama/model.hpp for the models as types. The command line, the plans and the
// training itself are the same as in train_gpt.
#include "train_gpt/program.hpp"
#include "train_llama/llama.hpp"

int main(int count, char** words) { return train_gpt::main_of(train_llama::program, count, words); }
