#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads weights that other programs have written, by plait and by Python, and compares. No test of ctest: it needs
torch, transformers, safetensors, h5py and a compiler, and takes minutes.

    real_weights.py FOLDER [FILE OR FOLDER OF OTHERS...]

Small models with random weights are written by transformers into FOLDER, in several forms. Each tensor that plait reads
must be safetensors' to the last bit, as must be the file that plait writes again; each logit of a model that train_gpt or
train_llama takes must be that of transformers within 1e-5. Files in other forms must be refused by a sentence whose
command makes a file that is read. Ends with how many were read, refused and wrong."""
import collections
import json
import pathlib
import re
import shutil
import subprocess
import sys
import warnings

import numpy
import safetensors
import safetensors.numpy
import safetensors.torch
import torch
import transformers

warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
PROJECT = pathlib.Path(__file__).resolve().parents[2]
TEXT = PROJECT / "tests/oracle/text.txt"
SIZES = dict(vocab_size=256, bos_token_id=0, eos_token_id=0, pad_token_id=0)
LLAMA = dict(SIZES, hidden_size=64, intermediate_size=160, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, head_dim=16, max_position_embeddings=64, rms_norm_eps=1e-5, initializer_range=0.2,
             sliding_window=None)
GPT = dict(SIZES, n_positions=64, n_embd=64, n_layer=2, n_head=4, initializer_range=0.2)
SMALL = dict(SIZES, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, head_dim=8, max_position_embeddings=64, d_model=32, d_kv=8, d_ff=48, num_layers=2,
             num_heads=4, decoder_layers=2, encoder_layers=2, decoder_ffn_dim=48, encoder_ffn_dim=48,
             decoder_attention_heads=4, encoder_attention_heads=4, ffn_dim=48, word_embed_proj_dim=32, n_embd=32,
             n_layer=2, n_head=4, n_positions=64, embedding_size=32, state_size=4, num_experts=4, num_local_experts=4,
             moe_intermediate_size=16, num_experts_per_tok=2, max_source_positions=64, max_target_positions=64,
             image_size=32, patch_size=8, dim=32, hidden_dim=48, n_heads=4, n_layers=2)
OTHERS = ["bert", "distilbert", "roberta", "electra", "albert", "opt", "bloom", "gpt_neo", "gptj", "gpt_neox", "falcon",
          "phi", "phi3", "stablelm", "starcoder2", "olmo", "olmo2", "cohere", "granite", "gemma2", "mixtral", "qwen2_moe",
          "t5", "mamba", "vit", "whisper", "deberta-v2", "mobilebert", "xlm-roberta", "codegen"]

counts = collections.Counter()
refusals = collections.Counter()
problems = []


def run(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode not in (0, 2):
        problems.append(f"{words}: exit code {done.returncode}: {done.stderr[-300:]}")
    return done.returncode, done.stdout


def without_names(sentence):
    sentence = re.sub(r"python3 -c .*", "python3 -c ...", sentence)
    return re.sub(r"'[^']*'", "'...'", sentence).replace(str(out), "")


def expected_tensors(path):
    """The tensors as safetensors reads them, in double precision."""
    files = sorted(f for f in path.glob("*.safetensors") if not f.name.startswith(".")) if path.is_dir() else [path]
    tensors = {}
    for file in files:
        with safetensors.safe_open(file, "pt") as opened:
            for name in opened.keys():
                tensors[name] = opened.get_tensor(name)
    return tensors


def check_tensors(label, path):
    expected = expected_tensors(path)
    scratch = out / "scratch"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    code, said = run(out / "real_weights", "tensors", path, scratch)
    if code != 0:
        problems.append(f"{label}: {said}")
        return
    names = set()
    for line in said.splitlines():
        number, how, shape, name = line.split("\t")
        names.add(name)
        wanted = expected[name]
        if how != "read":
            counts["tensors refused"] += 1
            refusals[without_names(how.split(": ", 1)[1])] += 1
            if wanted.dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
                problems.append(f"{label}: {name} is refused: {how}")
            continue
        found = numpy.fromfile(scratch / number).reshape([int(n) for n in shape.split()])
        if numpy.array_equal(found, wanted.double().numpy(), equal_nan=True):
            counts["tensors read"] += 1
        else:
            problems.append(f"{label}: {name} has other numbers")
    if names != set(expected):
        problems.append(f"{label}: other names")
    copy = out / "copy.safetensors"
    run(out / "real_weights", "copy", path, copy)
    for name, tensor in safetensors.numpy.load_file(copy).items():
        counts["tensors written and read by safetensors"] += 1
        if not numpy.array_equal(tensor, expected[name].double().numpy(), equal_nan=True):
            problems.append(f"{label}: {name} is written otherwise")
    counts["files or folders of tensors read"] += 1


def check_logits(label, kind, path, model):
    """`model`: None for weights that have to be refused."""
    code, said = run(out / "real_logits", kind, path, TEXT, out / "logits")
    if code != 0:
        counts[f"models refused by {kind}"] += 1
        refusals[without_names(said.strip())] += 1
        print(f"  {kind} refuses {label}: {said.strip()[:230]}")
        return
    text = TEXT.read_bytes()
    tokens = torch.tensor([list(text[i * 64:i * 64 + 64]) for i in range(8)])
    with torch.no_grad():
        wanted = model.double().eval()(tokens).logits.numpy()
    found = numpy.fromfile(out / "logits").reshape(wanted.shape)
    worst = numpy.abs(found - wanted).max() / max(1, numpy.abs(wanted).max())
    print(f"  {kind} reads {label}: logits within {worst:.1e}")
    counts[f"models read by {kind}"] += 1
    if not worst <= 1e-5:
        problems.append(f"{label}: {kind} takes it, and its logits differ by {worst}")


def changed(source, name, change):
    """A copy of a folder of one file with other tensors."""
    folder = out / name
    shutil.copytree(source, folder)
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    tensors = change(tensors)
    safetensors.torch.save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    return folder


def check_models():
    auto = transformers.AutoModelForCausalLM
    families = {"gpt": [("gpt2", transformers.GPT2Config(**GPT)),
                        ("gpt2 untied", transformers.GPT2Config(**GPT, tie_word_embeddings=False)),
                        ("gpt2 with relu", transformers.GPT2Config(**GPT, activation_function="relu")),
                        ("gpt2 of 8 heads", transformers.GPT2Config(**dict(GPT, n_head=8)))],
                "llama": [("llama", transformers.LlamaConfig(**LLAMA)),
                          ("llama tied", transformers.LlamaConfig(**LLAMA, tie_word_embeddings=True)),
                          ("llama epsilon 1e-6", transformers.LlamaConfig(**dict(LLAMA, rms_norm_eps=1e-6))),
                          ("llama of 8 heads of 8", transformers.LlamaConfig(
                              **dict(LLAMA, num_attention_heads=8, num_key_value_heads=4, head_dim=8))),
                          ("llama with biases", transformers.LlamaConfig(**LLAMA, attention_bias=True)),
                          ("llama3 scaling", transformers.LlamaConfig(**LLAMA, rope_scaling=dict(
                              rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                              original_max_position_embeddings=32))),
                          ("llama gelu", transformers.LlamaConfig(**LLAMA, hidden_act="gelu")),
                          ("mistral", transformers.MistralConfig(**LLAMA)),
                          ("mistral window 8", transformers.MistralConfig(**dict(LLAMA, sliding_window=8))),
                          ("qwen2", transformers.Qwen2Config(**LLAMA)),
                          ("qwen3", transformers.Qwen3Config(**LLAMA)),
                          ("gemma", transformers.GemmaConfig(**LLAMA)),
                          ("granite", transformers.GraniteConfig(**LLAMA)),
                          ("olmo", transformers.OlmoConfig(**LLAMA)),
                          ("smollm3", transformers.SmolLM3Config(**LLAMA))]}
    for kind, all_of_it in families.items():
        for name, config in all_of_it:
            torch.manual_seed(1)
            model = auto.from_config(config).eval()
            # Norms and biases get numbers that differ, or a mistake in them would not show.
            for tensor in model.parameters():
                if tensor.dim() == 1:
                    tensor.data += 0.1 * torch.randn_like(tensor)
            forms = [("float", torch.float32, {})]
            if name in ("gpt2", "llama"):
                forms += [("bfloat16", torch.bfloat16, {}), ("float16", torch.float16, {}), ("double", torch.float64, {}),
                          ("several files", torch.float32, dict(max_shard_size="100KB"))]
            for form, dtype, how in forms:
                folder = out / f"{name} {form}"
                written = model.to(dtype)
                written.save_pretrained(folder, **how)
                check_tensors(f"{name} {form}", folder)
                # Narrowing a model in memory would also round its frequencies, which are in no file.
                check_logits(f"{name} {form}", kind, folder, auto.from_pretrained(folder, dtype=torch.float64))
    gpt, llama = out / "gpt2 float", out / "llama float"
    model = auto.from_pretrained(gpt)
    mask = torch.tril(torch.ones(64, 64)).reshape(1, 1, 64, 64)
    model.transformer.save_pretrained(out / "gpt2 base")
    check_logits("gpt2 base, names without transformer.", "gpt", out / "gpt2 base", model)
    masks = {f"transformer.h.{i}.attn.{name}": value.clone() for i in range(2)
             for name, value in (("bias", mask), ("masked_bias", torch.tensor(-1e4)))}
    check_logits("gpt2 with masks", "gpt", changed(gpt, "gpt2 masks", lambda all: all | masks), model)
    check_logits("gpt2 with bool masks", "gpt", changed(gpt, "gpt2 bool masks", lambda all: all | {
        name: value.bool() for name, value in masks.items()}), model)
    check_logits("gpt2 with a score", "gpt", changed(gpt, "gpt2 score", lambda all: all | {
        "score.weight": torch.ones(2, 64)}), None)
    model = auto.from_pretrained(llama)
    check_logits("llama with inv_freq", "llama", changed(llama, "llama frequencies", lambda all: all | {
        f"model.layers.{i}.self_attn.rotary_emb.inv_freq": torch.ones(8) for i in range(2)}), model)
    check_logits("llama file alone", "llama", llama / "model.safetensors", model)


def check_other_models():
    """Their tensors alone."""
    for name in OTHERS:
        try:
            values = {key: value for key, value in SMALL.items()}
            config = transformers.AutoConfig.for_model(name, **values)
            torch.manual_seed(1)
            model = transformers.AutoModel.from_config(config)
        except Exception as problem:  # sizes that do not go together
            print(f"  transformers makes no small {name}: {str(problem)[:80]}")
            continue
        folder = out / f"other {name}"
        model.save_pretrained(folder)
        check_tensors(name, folder)


def check_files_of_people():
    """Names, tensors and folders as people have them."""
    folder = out / "people"
    folder.mkdir()
    save = safetensors.torch.save_file
    types = dict(f64=torch.float64, f32=torch.float32, f16=torch.float16, bf16=torch.bfloat16, i64=torch.int64,
                 i32=torch.int32, i16=torch.int16, i8=torch.int8, u8=torch.uint8, bool=torch.bool, c64=torch.complex64,
                 e4m3=torch.float8_e4m3fn, e5m2=torch.float8_e5m2, e8m0=torch.float8_e8m0fnu, u16=torch.uint16,
                 u32=torch.uint32, u64=torch.uint64)
    numbers = torch.tensor([[1.0, 2.0], [4.0, 0.5]])
    save({key: numbers.to(kind) for key, kind in types.items()} | {"empty": torch.zeros(0, 3), "scalar": torch.tensor(2.5),
         "five": torch.randn(2, 1, 3, 1, 2), "inf": torch.tensor([float("inf"), float("nan"), -0.0])},
         folder / "all types.safetensors")
    check_tensors("all types, a file", folder / "all types.safetensors")
    (folder / "._all types.safetensors").write_bytes(b"\0\5\x16\7\0\2\0\0Mac OS X")
    save({"more": numbers}, folder / "model (1) [é].safetensors")
    check_tensors("all types, a folder", folder)
    save({"more": numbers}, folder / "consolidated.safetensors")
    code, said = run(out / "real_weights", "tensors", folder, out)
    refusals[without_names(said.strip())] += 1
    counts["folders of two copies refused"] += code == 2


def write_parts(rank, ranks, folder):
    import os

    import torch.distributed
    import torch.distributed.checkpoint
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, Replicate, distribute_tensor
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29671", RANK=str(rank), WORLD_SIZE=str(ranks))
    torch.distributed.init_process_group("gloo", rank=rank, world_size=ranks)
    torch.manual_seed(0)
    line, square = init_device_mesh("cpu", (ranks,)), init_device_mesh("cpu", (2, ranks // 2))
    whole = {f"rows.{n}": torch.randn(n, 5) for n in range(1, 10)} | {f"columns.{n}": torch.randn(3, n) for n in (1, 2, 5)}
    whole |= {f"square.{n}": torch.randn(n, m) for n, m in ((1, 1), (1, 5), (3, 2), (5, 1))} | {"vector": torch.randn(3)}
    whole |= {"deep": torch.randn(3, 2, 3, 3), "half": torch.randn(5, 4).bfloat16()}
    parts = {}
    for name, tensor in whole.items():
        mesh, how = (square, [Shard(0), Shard(1)]) if name.startswith("square") else (
            line, [Shard(1 if name.startswith("columns") else 0)])
        parts[name] = distribute_tensor(tensor, mesh, how)
    torch.distributed.checkpoint.save(parts, storage_writer=torch.distributed.checkpoint.HuggingFaceStorageWriter(
        folder, fqn_to_index_mapping={name: 1 for name in whole}, save_distributed=True))
    if rank == 0:
        safetensors.torch.save_file(whole, folder + " whole.safetensors")
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def check_parts():
    import torch.multiprocessing
    folder = out / "parts"
    torch.multiprocessing.spawn(write_parts, (4, str(folder)), 4)
    expected = expected_tensors(out / "parts whole.safetensors")
    scratch = out / "scratch"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    code, said = run(out / "real_weights", "tensors", folder, scratch)
    if code != 0:
        problems.append(f"parts: {said}")
        return
    for line in said.splitlines():
        number, how, shape, name = line.split("\t")
        found = numpy.fromfile(scratch / number)
        if how == "read" and numpy.array_equal(found, expected.pop(name).double().numpy().ravel()):
            counts["tensors read in parts"] += 1
        else:
            problems.append(f"parts: {name} {how}")
    if expected:
        problems.append(f"parts: {list(expected)} are missing")


def check_other_forms():
    """Each must be refused by a sentence whose command makes a file that is read."""
    import bz2
    import gzip
    import lzma
    import zipfile

    import h5py
    import torch.distributed.checkpoint
    folder = out / "forms"
    folder.mkdir()
    tensors = {"w": torch.arange(6.0).reshape(2, 3).T, "b": torch.ones(3)}
    arrays = {name: value.numpy() for name, value in tensors.items()}
    whole = safetensors.torch.save({name: value.contiguous() for name, value in tensors.items()})
    forms = {}

    def form(name, write):
        (folder / name).parent.mkdir(exist_ok=True)
        write(folder / name)
        forms[name] = folder / name

    form("a/pytorch_model.bin", lambda p: torch.save(tensors, p))
    form("b/pytorch_model.bin", lambda p: torch.save(tensors, p, _use_new_zipfile_serialization=False))
    form("c/last.ckpt", lambda p: torch.save({"state_dict": tensors, "epoch": 3}, p))
    form("d/w.npy", lambda p: numpy.save(p, arrays["w"]))
    form("e/w.npz", lambda p: numpy.savez(p, **arrays))
    form("f/w.npz", lambda p: numpy.savez_compressed(p, **arrays))

    def write_hdf5(path):
        with h5py.File(path, "w") as file:
            for name, value in arrays.items():
                file.create_dataset(name, data=value)
    form("g/model.weights.h5", write_hdf5)
    form("h/model.safetensors.gz", lambda p: p.write_bytes(gzip.compress(whole)))
    form("i/model.safetensors", lambda p: p.write_bytes(gzip.compress(whole)))
    form("j/model.safetensors.bz2", lambda p: p.write_bytes(bz2.compress(whole)))
    form("k/model.safetensors.xz", lambda p: p.write_bytes(lzma.compress(whole)))

    def write_distributed(path):
        torch.distributed.checkpoint.save({"model": tensors}, checkpoint_id=path.parent)
    form("l/__0_0.distcp", write_distributed)
    for name, path in forms.items():
        for given in (path, path.parent):
            code, said = run(out / "real_weights", "tensors", given, out)
            if code != 2:
                problems.append(f"{name} is read")
            refusals[without_names(said.strip())] += 1
        code, said = run(out / "real_weights", "tensors", path, out)
        command = re.split(r"(?:convert it|convert its folder|unpack it first): ", said.strip())
        if len(command) != 2:
            problems.append(f"{name}: no command in {said}")
            continue
        command = command[1].replace("python3", f"'{sys.executable}'", 1)
        done = subprocess.run(command, shell=True, capture_output=True, text=True)
        made = pathlib.Path(command.rsplit("'", 2)[1])
        code, said = run(out / "real_weights", "tensors", made, out)
        wanted = 1 if name == "d/w.npy" else 2
        if done.returncode or code or said.count("\tread\t") != wanted:
            problems.append(f"{name}: its command fails: {command} {done.stderr[-300:]} {said}")
        elif wanted == 2:
            check_tensors(name, made)
        counts["files in other forms refused, converted and read"] += 1
    for name, bytes_of in {"git lfs.safetensors": b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 99\n",
                           "page.safetensors": b"<!DOCTYPE html><html>not found</html>",
                           "model.safetensors.index.json": json.dumps({"weight_map": {"w": "a.safetensors"}}).encode(),
                           "._model.safetensors": b"\0\5\x16\7\0\2\0\0Mac OS X        ",
                           "llama.gguf": b"GGUF\3\0\0\0" + bytes(24)}.items():
        (folder / name).write_bytes(bytes_of)
        code, said = run(out / "real_weights", "tensors", folder / name, out)
        counts["files in other forms refused"] += code == 2
        refusals[without_names(said.strip())] += 1
    with zipfile.ZipFile(folder / "model.zip", "w") as archive:
        archive.writestr("model.safetensors", whole)
    code, said = run(out / "real_weights", "tensors", folder / "model.zip", out)
    refusals[without_names(said.strip())] += 1


def check_others(path):
    """Files that came with packages."""
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.suffix == ".safetensors":
            check_tensors(file.name, file)
        elif file.suffix in (".bin", ".pt", ".pth", ".jit", ".npy", ".npz", ".h5", ".gguf", ".ckpt"):
            code, said = run(out / "real_weights", "tensors", file, out)
            counts["files of others in other forms refused"] += code == 2
            refusals[without_names(said.strip())] += 1
            if code != 2 or "states that its header" in said:
                problems.append(f"{file.name}: {said}")


def main():
    global out
    out = pathlib.Path(sys.argv[1]).resolve()
    out.mkdir(exist_ok=True, parents=True)
    for name in ("real_weights", "real_logits"):
        if not (out / name).exists():
            subprocess.run(["g++", "-std=c++20", "-O0", "-I", PROJECT / "include", "-I", PROJECT / "examples",
                            PROJECT / f"tests/oracle/{name}.cpp", "-o", out / name, "-pthread", "-lisal"], check=True)
    for name in list(out.iterdir()):
        if name.is_dir():
            shutil.rmtree(name)
    check_files_of_people()
    check_other_forms()
    for others in sys.argv[2:]:
        check_others(pathlib.Path(others))
    check_models()
    check_other_models()
    check_parts()
    for what, count in sorted(counts.items()):
        print(f"{count:6} {what}")
    for sentence, count in sorted(refusals.items()):
        print(f"{count:6} times: {sentence}")
    for problem in problems:
        print(f"WRONG: {problem}")
    print(f"{len(problems)} wrong")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
