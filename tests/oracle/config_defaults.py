#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the fields of config.json that plait knows with those of transformers.

  config_defaults.py

The fields are in include/plait/checkpoint/config_fields.ipp. Each default must be the default of the configuration class
in transformers, each field that a class writes must be known, and accepted fields must have accepted values. Prints the
differences. Exit codes: 0 none, 1 some, 77 Python has no transformers, or has another version with other defaults.
"""
import json
import pathlib
import sys

try:
    import transformers
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
except ImportError as problem:
    print(f"skipped: {problem}")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Fields that check_config compares, in addition to those with defaults.
COMPARED = ["architectures", "layer_types", "max_window_layers", "model_type", "rope_parameters", "rope_scaling",
            "_sliding_window_pattern"]


def main():
    text = (ROOT / "include/plait/checkpoint/config_fields.ipp").read_text(encoding="utf-8")
    known = json.loads(text.split('R"json(')[1].split(')json"')[0])
    problems = []
    for kind, defaults in known["defaults"].items():
        theirs = transformers.AutoConfig.for_model(kind).to_dict()
        rope = theirs.get("rope_parameters") or {}
        if "full_attention" in rope:
            theirs["rope_theta"] = rope["full_attention"]["rope_theta"]
            theirs["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
        elif rope:
            theirs["rope_theta"] = rope["rope_theta"]
        if "_sliding_window_pattern" in theirs:
            theirs["sliding_window_pattern"] = theirs["_sliding_window_pattern"]
        if theirs.get("use_sliding_window") is False:  # the class replaces the window by none
            theirs["sliding_window"] = type(transformers.AutoConfig.for_model(kind)).sliding_window
        for name, value in defaults.items():
            # Transformers stores derived values; a class without the field has none of the biases, windows and heads.
            derived = {"num_key_value_heads": theirs.get("num_attention_heads"),
                       "head_dim": theirs.get("hidden_size", 0) // theirs.get("num_attention_heads", 1)}
            wanted = derived.get(name, None) if value is None else value
            absent = {"attention_bias": False, "mlp_bias": False, "sliding_window": None, **derived}
            if name not in theirs and name in absent:
                continue
            if name not in theirs or theirs[name] != wanted:
                problems.append(f"{kind}: {name} is {wanted}, and in transformers {theirs.get(name, 'missing')}")
        covered = {*defaults, *COMPARED, *known["accepted"], *known["dropout"], *known["harmless"]}
        for name, value in theirs.items():
            if name not in covered:
                problems.append(f"{kind}: {name}, {value} in transformers, is not known")
            elif name in known["accepted"] and value not in known["accepted"][name]:
                problems.append(f"{kind}: {name} is {value} in transformers, and none of {known['accepted'][name]}")
        wanted = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[kind]
        if known["architectures"][kind] != wanted:
            problems.append(f"{kind}: the class is {known['architectures'][kind]}, and in transformers {wanted}")
    for problem in problems:
        print(problem)
    if problems and transformers.__version__ != known["transformers"]:
        print(f"skipped: transformers is {transformers.__version__}, and the defaults are of {known['transformers']}")
        sys.exit(77)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
