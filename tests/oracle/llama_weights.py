# SPDX-License-Identifier: Apache-2.0
"""Weights as Hugging Face's transformers keeps them, in several files with an index.

  llama_weights.py fixture FOLDER      writes those of a small Llama: tests/checkpoint/fixtures/llama
  llama_weights.py read FOLDER WHOLE   transformers loads FOLDER and has the bits of the folder WHOLE

Exit code 77 if there is no transformers.
"""
import os
import sys

try:
    import torch
    import transformers
except ImportError as problem:
    print(f"skipped: {problem}")
    sys.exit(77)


def fixture(folder):
    torch.manual_seed(1)
    config = transformers.LlamaConfig(
        vocab_size=256, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, tie_word_embeddings=False, bos_token_id=None,
        eos_token_id=None, pad_token_id=None)
    model = transformers.LlamaForCausalLM(config).to(torch.bfloat16)
    with torch.no_grad():  # no two of which are the same, so that none can be in another's place
        for tensor in model.parameters():
            tensor.copy_(torch.randn(tensor.shape) / 50 + (1 if tensor.dim() == 1 else 0))
    model.save_pretrained(folder, max_shard_size="80KB")
    # The other files in the folder do not concern weights.
    os.remove(os.path.join(folder, "generation_config.json"))


def tensors_of(folder):
    return transformers.LlamaForCausalLM.from_pretrained(folder, dtype="auto").state_dict()


def read(folder, whole):
    expected, found = tensors_of(whole), tensors_of(folder)
    if sorted(expected) != sorted(found):
        sys.exit(f"llama_weights.py: other tensors in {folder} than in {whole}")
    for name, tensor in expected.items():
        if tensor.dtype != found[name].dtype or not torch.equal(tensor.view(torch.uint8),
                                                                found[name].view(torch.uint8)):
            sys.exit(f"llama_weights.py: {name} differs between {folder} and {whole}")


def main():
    transformers.logging.set_verbosity_error()
    command, first, *rest = sys.argv[1:]
    if command == "fixture":
        fixture(first)
    elif command == "read":
        read(first, rest[0])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
