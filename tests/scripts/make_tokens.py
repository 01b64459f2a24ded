#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_tokens.py FOLDER

scripts/make_tokens: the files it writes, and its sentences for wrong input; with a stand-in for the package
tokenizers, whose tokens are bytes, and with the packages tokenizers and sentencepiece themselves where they are."""
import json
import os
import shutil
import struct
import subprocess
import sys

folder = os.path.abspath(sys.argv[1])
script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts", "make_tokens")
text = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "oracle", "text.txt")
shutil.rmtree(folder, ignore_errors=True)
os.makedirs(os.path.join(folder, "stand_in"))
os.chdir(folder)
failures = 0

# Its vocabulary is the number in the file.
with open("stand_in/tokenizers.py", "w") as file:
    file.write("""
class Encoding:
    def __init__(self, ids):
        self.ids = ids
class Tokenizer:
    @staticmethod
    def from_file(path):
        out = Tokenizer()
        out.size = int(open(path).read())
        return out
    def get_vocab(self, with_added_tokens):
        return {str(i): i for i in (0, self.size - 1)}
    def encode_batch(self, texts, add_special_tokens):
        assert not add_special_tokens
        return [Encoding(list(text.encode("utf-8"))) for text in texts]
    def token_to_id(self, word):
        return {"<end>": 256, "<begin>": 257}.get(word)
""")


def check(name, condition):
    global failures
    if not condition:
        failures += 1
        print("FAILED: " + name, file=sys.stderr)


def run(*words, stand_in=True):
    environment = dict(os.environ)
    if stand_in:
        environment["PYTHONPATH"] = os.path.join(folder, "stand_in")
    done = subprocess.run([sys.executable, script, *words], env=environment, capture_output=True, text=True)
    check("no traceback of %s: %s" % (words, done.stderr), "Traceback" not in done.stderr)
    return done.returncode, done.stdout.strip(), done.stderr.strip()


def refused(code, sentence, *words):
    found = run(*words)
    check("%s said %s" % (words, found), found[0] == code and found[2].endswith("make_tokens: " + sentence))


def tokens_of(path, wide=False):
    with open(path, "rb") as file:
        data = file.read()
    header = struct.unpack("<256i", data[:1024])
    size = 4 if wide else 2
    check("header of " + path, header == ((20240801, 7) if wide else (20240520, 1)) +
          ((len(data) - 1024) // size,) + (0,) * 253)
    return list(struct.unpack("<%d%s" % (header[2], "I" if wide else "H"), data[1024:]))


def write(name, content):
    with open(name, "wb") as file:
        file.write(content)


write("narrow", b"65536")
write("wide", b"65537")
write("a.txt", "größe\r\n".encode())
write("b.txt", b"xyz")
write("c.jsonl", b'{"text": "one"}\n\n{"n": 1, "text": "two\\n"}\n')

code, out, _ = run("--tokenizer", "narrow", "--out", "n", "--shard", "5", "--begin", "<begin>", "--end", "<end>",
                   "a.txt", "b.txt", "c.jsonl")
expected = []
for document in ("größe\r\n", "xyz", "one", "two\n"):
    expected += [257] + list(document.encode()) + [256]
shards = ["n_%06d.bin" % i for i in range((len(expected) + 4) // 5)]
check("shards", code == 0 and sorted(name for name in os.listdir() if name.startswith("n_")) == shards)
found = [tokens_of(name) for name in shards]
check("shards are full", all(len(part) == 5 for part in found[:-1]))
check("tokens", sum(found, []) == expected)
check("report " + out, out == "27 tokens in 6 files, n_000000.bin and on; the vocabulary has 65536")
run("--tokenizer", "wide", "--out", "w", "a.txt")
check("wide tokens", tokens_of("w_000000.bin", True) == list("größe\r\n".encode()))

narrow = ("--tokenizer", "narrow", "--out")
refused(1, "shard 'n_000000.bin' already exists; --force replaces it", *narrow, "n", "b.txt")
refused(1, "shard 'n_000001.bin' is left over from another run; remove it and the shards after it", *narrow, "n", "--force",
        "b.txt")
check("replaced", tokens_of("n_000000.bin") == list(b"xyz"))
refused(1, "text 'none' cannot be read: No such file or directory", *narrow, "x", "none")
refused(1, "shard 'no/x_000000.bin' cannot be written: No such file or directory", *narrow, "no/x", "b.txt")
write("bad.txt", b"ab\xff")
refused(1, "text 'bad.txt' is not UTF-8: byte 2", *narrow, "x", "bad.txt")
for line in (b"{}", b"[1]", b"{", b'{"text": 1}'):
    write("bad.jsonl", b'{"text": ""}\n' + line)
    refused(1, "text 'bad.jsonl': line 2 is not a JSON object with a text in the field 'text'", *narrow, "x", "bad.jsonl")
write("empty", b"")
refused(1, "the texts contain no tokens", *narrow, "x", "empty")
refused(2, "--end: the tokenizer has no token '<none>' among its 65536", *narrow, "x", "--end", "<none>", "b.txt")
check("a number of 0", run(*narrow, "x", "--shard", "0", "b.txt")[0] == 2)
check("nothing is left", not [name for name in os.listdir() if name.startswith("x") or "partial" in name])

with open(text, encoding="utf-8", newline="") as file:
    whole = file.read()
skipped = []
try:
    import tokenizers
    library = tokenizers.Tokenizer(tokenizers.models.BPE())
    library.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.train_from_iterator([whole], tokenizers.trainers.BpeTrainer(
        vocab_size=500, special_tokens=["<end>"], show_progress=False))
    library.save("bpe.json")
    code, _, problem = run("--tokenizer", "bpe.json", "--out", "h", "--end", "<end>", text, stand_in=False)
    check("tokenizers: " + problem, code == 0)
    check("tokens of tokenizers", tokens_of("h_000000.bin") == library.encode(whole).ids + [0])
except ImportError:
    skipped.append("tokenizers")
try:
    import sentencepiece
    sentencepiece.SentencePieceTrainer.train(input=text, model_prefix="piece", vocab_size=300, minloglevel=2)
    code, _, problem = run("--tokenizer", "piece.model", "--out", "s", "--end", "</s>", text, stand_in=False)
    check("sentencepiece: " + problem, code == 0)
    library = sentencepiece.SentencePieceProcessor(model_file="piece.model")
    check("tokens of sentencepiece", tokens_of("s_000000.bin") == library.encode(whole) + [library.eos_id()])
except ImportError:
    skipped.append("sentencepiece")
if skipped:
    print("without the comparison with %s, as Python has no such package" % " and ".join(skipped))
sys.exit(1 if failures else 0)
