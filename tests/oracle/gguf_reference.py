# SPDX-License-Identifier: Apache-2.0
"""GGUF by the package gguf of PyPI, for tests/checkpoint/save_gguf_test.cpp.

  gguf_reference.py --blocks   prints the bytes that the package makes of numbers given by formulas; they are stored in
                               tests/checkpoint/fixtures/gguf/blocks.txt
  gguf_reference.py --check    compares the stored bytes with it
  gguf_reference.py FILE       prints the metadata and the dequantised tensors of a file
Exit code 77: the package is missing.
"""
import pathlib
import sys

try:
    import gguf
    import numpy as np
except ImportError:
    print("skipped: Python has no package gguf")
    sys.exit(77)

STORED = pathlib.Path(__file__).parent.parent / "checkpoint" / "fixtures" / "gguf" / "blocks.txt"


def words():
    """512 floats with bits of all kinds, without NaN."""
    bits = (np.arange(512, dtype=np.uint64) * 2654435761 + 12345) % 2**32
    values = bits.astype(np.uint32).view(np.float32)
    return np.where(np.isfinite(values), values, np.float32(1))


def halves():
    """Numbers near those in half precision: each number, halfway to the next, and a little beside it."""
    bits = np.arange(0, 0x7C00, 97, dtype=np.uint16)
    low, high = bits.view(np.float16).astype(np.float32), (bits + 1).view(np.float16).astype(np.float32)
    middle = (low + np.where(np.isfinite(high), high, np.float32(65536))) / np.float32(2)
    return np.concatenate([low, middle, np.nextafter(middle, np.float32(0)), np.nextafter(middle, np.float32(1e9)), -middle])


def blocks():
    """Blocks of 32 numbers: zeros, halves of the scale, and ten of other sizes."""
    i = np.arange(320)
    size = np.exp2((i // 32) * 4 - 24).astype(np.float32)
    other = ((i * 7919 + 13) % 2003 - 1001).astype(np.float32) * size
    tie = np.concatenate([[127], np.arange(31) - 15.5]).astype(np.float32)
    return np.concatenate([np.zeros(32, np.float32), tie, other])


def text_of_blocks():
    lines = []
    for name, values, kind in (("F16 words", words(), "F16"), ("F16 halves", halves(), "F16"),
                               ("BF16 words", words(), "BF16"), ("Q8_0 blocks", blocks(), "Q8_0")):
        with np.errstate(over="ignore"):
            made = gguf.quants.quantize(values.astype(np.float32), gguf.GGMLQuantizationType[kind])
        lines.append(f"{name} {made.tobytes().hex()}\n")
    return "".join(lines)


def text_of_file(path):
    reader = gguf.GGUFReader(path)
    lines = []
    for field in reader.fields.values():
        if field.name.startswith("GGUF."):
            continue
        value = field.contents()
        lines.append(f"{field.name} = {value}\n")
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        # All offsets are multiples of the alignment.
        assert tensor.data_offset % 32 == 0
        lines.append(f"{tensor.name} {tensor.tensor_type.name} {[int(n) for n in tensor.shape]} "
                     f"{values.tobytes().hex()}\n")
    return "".join(lines)


if sys.argv[1:] == ["--blocks"]:
    sys.stdout.write(text_of_blocks())
elif sys.argv[1:] == ["--check"]:
    if STORED.read_text() != text_of_blocks():
        sys.exit("gguf_reference.py: the stored bytes differ from what the package makes")
elif len(sys.argv) == 2:
    sys.stdout.write(text_of_file(sys.argv[1]))
else:
    sys.exit(__doc__)
