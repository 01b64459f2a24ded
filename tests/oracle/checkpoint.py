# SPDX-License-Identifier: Apache-2.0
"""Checkpoints as PyTorch's distributed checkpoint reads and writes them (safetensors for Hugging Face).

  checkpoint.py read FOLDER WHOLE     every tensor of FOLDER has the bits of the file WHOLE
  checkpoint.py one FOLDER OUT        makes one file of FOLDER, in the folder OUT
  checkpoint.py write WHOLE FOLDER    two ranks write the tensors of WHOLE, cut along rows or columns
  checkpoint.py fixture FOLDER        the same of a few small tensors: tests/checkpoint/fixtures/pytorch

Exit code 77 if this PyTorch cannot do it, which PyTorch 2.8 and newer can.
"""
import os
import sys
import warnings

try:
    import safetensors.torch
    import torch
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    import torch.multiprocessing
    from torch.distributed.checkpoint import HuggingFaceStorageReader, HuggingFaceStorageWriter
    from torch.distributed.checkpoint._consolidate_hf_safetensors import consolidate_safetensors_files
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor
except ImportError as problem:
    print(f"skipped: {problem}")
    sys.exit(77)


def read(folder, whole):
    expected = safetensors.torch.load_file(whole)
    found = {name: torch.zeros_like(tensor) for name, tensor in expected.items()}
    dcp.load(found, storage_reader=HuggingFaceStorageReader(folder))
    for name, tensor in expected.items():
        if not torch.equal(tensor.view(torch.uint8), found[name].view(torch.uint8)):
            sys.exit(f"checkpoint.py: {name} differs between {folder} and {whole}")
    return expected


def one(folder, out):
    os.makedirs(out)
    names = HuggingFaceStorageReader(folder).read_metadata().state_dict_metadata
    consolidate_safetensors_files(folder, out, fqn_to_index_mapping={name: 1 for name in names})


def write_rank(rank, tensors, folder, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    state = {name: distribute_tensor(tensor, mesh, [Shard(number % tensor.dim())])
             for number, (name, tensor) in enumerate(sorted(tensors.items()))}
    dcp.save(state, storage_writer=HuggingFaceStorageWriter(folder, save_distributed=True))
    dist.destroy_process_group()


def write(tensors, folder):
    import socket
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(write_rank, args=(tensors, folder, port), nprocs=2)


def main():
    warnings.simplefilter("ignore")
    command, first, *rest = sys.argv[1:]
    if command == "read":
        read(first, rest[0])
    elif command == "one":
        one(first, rest[0])
    elif command == "write":
        write(safetensors.torch.load_file(first), rest[0])
    elif command == "fixture":
        write({"a.matrix": torch.arange(24.0).reshape(6, 4) / 2,
               "b.matrix": torch.arange(30.0).reshape(5, 6) / 4,
               "c.vector": torch.arange(7.0) * 3,
               "d.half": torch.arange(8.0).reshape(2, 4).to(torch.bfloat16)}, first)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
