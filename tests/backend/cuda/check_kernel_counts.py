#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The counts of the kernels as compiled by nvcc: instructions, registers, spilled bytes and how many 16-byte loads of
a thread are under way at a time. With a nvcc whose numbers are known, they are compared.

  check_kernel_counts.py CUOBJDUMP PROGRAM [COMPILER_VERSION]

PROGRAM is kernels_counts.cu, compiled for sm_90. Without a version it prints the numbers only.
"""

import os
import re
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

KNOWN = "13.0"  # whose numbers these are
Limit = namedtuple("Limit", "instructions loads")  # at most, at least
# Kernels that read rows, at their full width. The instructions are those measured and a tenth more.
LIMITS = {
    "accumulate_positions_kernel<4, bfloat16, float>": Limit(420, 0),  # of 8 bytes
    "adamw_kernel<4, float, float, bfloat16>": Limit(1330, 4),
    "add_positions_kernel<8, bfloat16>": Limit(770, 2),
    "add_row_kernel<8, bfloat16>": Limit(530, 4),
    "column_sums_kernel<8, bfloat16, float>": Limit(940, 4),
    "copy_blocks_kernel<8, bfloat16>": Limit(330, 4),
    "cross_entropy_backward_kernel<8, bfloat16, one_hot_target>": Limit(1260, 2),
    "cross_entropy_statistics_kernel<8, one_hot_target, bfloat16>": Limit(1120, 4),
    "cross_entropy_terms_kernel<8, one_hot_target, bfloat16>": Limit(760, 4),
    "cross_entropy_with_gradient_kernel<8, bfloat16, one_hot_target>": Limit(1760, 4),
    "gather_rows_kernel<8, bfloat16>": Limit(400, 4),
    "layer_norm_backward_input_kernel<8, bfloat16>": Limit(930, 2),
    "layer_norm_backward_kernel<8, 3, 2, bfloat16>": Limit(5250, 6),  # of 768 columns
    "layer_norm_backward_parameters_kernel<8, bfloat16, float>": Limit(1740, 2),
    "layer_norm_kernel<8, bfloat16>": Limit(1150, 4),
    "row_max_kernel<8, bfloat16>": Limit(490, 4),
    "row_products_kernel<8, bfloat16>": Limit(460, 2),
    "squares_kernel<float>": Limit(430, 4),
}
# Causal attention of equal heads side by side, as it was when no other was there: its kernels do not pay for the
# others. Instructions and registers may be 2 % more.
Causal = namedtuple("Causal", "instructions registers")
CAUSAL = {
    "attention_backward_keys_core_kernel<bfloat16, attention_extents>": Causal(1680, 127),
    "attention_backward_keys_kernel<attention_sizes<float, 128, 32>, 1, bfloat16, attention_extents>": Causal(1760, 120),
    "attention_backward_keys_kernel<attention_sizes<float, 128, 32>, 8, bfloat16, attention_extents>": Causal(2208, 118),
    "attention_backward_keys_kernel<attention_sizes<float, 256, 16>, 1, bfloat16, attention_extents>": Causal(1608, 128),
    "attention_backward_keys_kernel<attention_sizes<float, 256, 16>, 8, bfloat16, attention_extents>": Causal(2056, 128),
    "attention_backward_keys_kernel<attention_sizes<float, 64, 64>, 1, bfloat16, attention_extents>": Causal(2280, 128),
    "attention_backward_keys_kernel<attention_sizes<float, 64, 64>, 8, bfloat16, attention_extents>": Causal(2640, 128),
    "attention_backward_queries_core_kernel<bfloat16, attention_extents>": Causal(1456, 127),
    "attention_backward_queries_kernel<attention_sizes<float, 128, 32>, 1, bfloat16, attention_extents>": Causal(1568, 121),
    "attention_backward_queries_kernel<attention_sizes<float, 128, 32>, 8, bfloat16, attention_extents>": Causal(2056, 117),
    "attention_backward_queries_kernel<attention_sizes<float, 256, 16>, 1, bfloat16, attention_extents>": Causal(1448, 89),
    "attention_backward_queries_kernel<attention_sizes<float, 256, 16>, 8, bfloat16, attention_extents>": Causal(1952, 79),
    "attention_backward_queries_kernel<attention_sizes<float, 64, 64>, 1, bfloat16, attention_extents>": Causal(2008, 128),
    "attention_backward_queries_kernel<attention_sizes<float, 64, 64>, 8, bfloat16, attention_extents>": Causal(2504, 128),
    "attention_core_kernel<bfloat16, attention_extents>": Causal(1640, 80),
    "attention_kernel<attention_sizes<float, 128, 64>, 1, bfloat16, attention_extents>": Causal(2392, 128),
    "attention_kernel<attention_sizes<float, 128, 64>, 8, bfloat16, attention_extents>": Causal(2704, 128),
    "attention_kernel<attention_sizes<float, 256, 32>, 1, bfloat16, attention_extents>": Causal(1896, 127),
    "attention_kernel<attention_sizes<float, 256, 32>, 8, bfloat16, attention_extents>": Causal(2208, 127),
    "attention_kernel<attention_sizes<float, 64, 64>, 1, bfloat16, attention_extents>": Causal(2080, 128),
    "attention_kernel<attention_sizes<float, 64, 64>, 8, bfloat16, attention_extents>": Causal(2416, 128),
}
Counts = namedtuple("Counts", "instructions registers spilled loads")


def output_of(*command):
    # cuobjdump calls nvdisasm, which is in its folder.
    path = f"{Path(command[0]).parent}:{os.environ['PATH']}"
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, universal_newlines=True,
                          env={**os.environ, "PATH": path}).stdout


def names_of(mangled):
    """The name and first template arguments of each kernel: "layer_norm_kernel<8, plait::bfloat16>"."""
    said = subprocess.run(["c++filt"], input="\n".join(mangled), check=True, stdout=subprocess.PIPE,
                          universal_newlines=True).stdout.splitlines()
    names = {}
    for symbol, text in zip(mangled, said):
        text = re.sub(r"plait::(cuda_kernels|functions|ext)::|detail::|\(int\)", "", text)
        names[symbol] = re.sub(r"^void ", "", text.split("(")[0]).replace("plait::", "")
    return names


def loads_under_way(lines):
    """The most loads of 16 bytes that are begun before the first instruction that needs one of them."""
    pending, most = {}, 0
    for line in lines:
        words = re.findall(r"\bR(\d+)(\.64)?\b", line)
        load = re.search(r"\bLDG\.E\.128\S*\s+R(\d+)", line)
        read = [int(number) for number, _ in (words[1:] if load else words)]
        if any(begin <= register < begin + 4 for register in read for begin in pending):
            pending = {}
        if load:
            pending[int(load[1])] = True
            most = max(most, len(pending))
    return most


def counts_of(cuobjdump, program):
    found, symbol = {}, None
    code = {}
    for line in output_of(cuobjdump, "-sass", program).splitlines():
        begin = re.search(r"Function : (\S+)", line)
        if begin:
            symbol = begin[1]
            code[symbol] = []
        elif symbol and re.match(r"\s+/\*[0-9a-f]{4,}\*/\s+\S", line):
            code[symbol].append(line)
    usage = {}
    for line in output_of(cuobjdump, "--dump-resource-usage", program).splitlines():
        begin = re.search(r"Function (\S+):", line)
        if begin:
            symbol = begin[1]
        numbers = dict(re.findall(r"\b(REG|STACK|LOCAL):(\d+)", line))
        if numbers and symbol:
            usage[symbol] = numbers
    names = names_of(list(code))
    for symbol, lines in code.items():
        if symbol not in usage:
            continue
        of = {key: int(value) for key, value in usage[symbol].items()}
        found[names[symbol]] = Counts(len(lines), of["REG"], of["STACK"] + of["LOCAL"],
                                      loads_under_way(lines))
    return found


def main():
    cuobjdump, program, *version = sys.argv[1:]
    found = counts_of(cuobjdump, program)
    wrong = []
    for name, of in sorted(found.items()):
        print(f"{of.instructions:6d} instructions {of.registers:4d} registers {of.spilled:4d} bytes "
              f"spilled {of.loads:3d} loads  {name}")
    if version and not version[0].startswith(KNOWN):
        print(f"skipped: the numbers are those of nvcc {KNOWN}, this is {version[0]}")
        return
    if not version:
        return
    for name, of in found.items():
        if of.spilled:
            wrong.append(f"{name} spills {of.spilled} bytes")
    for name, limit in LIMITS.items():
        of = found.get(name)
        if of is None:
            wrong.append(f"{name} is not there")
        elif of.instructions > limit.instructions:
            wrong.append(f"{name} has {of.instructions} instructions, more than {limit.instructions}")
        elif of.loads < limit.loads:
            wrong.append(f"{name} has {of.loads} loads under way, fewer than {limit.loads}")
    for name, was in CAUSAL.items():
        of = found.get(name)
        if of is None:
            wrong.append(f"{name} is not there")
        elif of.instructions > 1.02 * was.instructions or of.registers > 1.02 * was.registers:
            wrong.append(f"{name} has {of.instructions} instructions and {of.registers} registers, 2 % more than "
                         f"{was.instructions} and {was.registers}")
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
