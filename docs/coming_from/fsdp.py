# SPDX-License-Identifier: Apache-2.0
# PyTorch's FSDP, for docs/coming_from/pytorch_fsdp.md: torchrun --nproc-per-node 2 fsdp.py
# example-begin
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(3, 32), torch.nn.GELU(), torch.nn.Linear(32, 1))
fully_shard(model[0], mesh=mesh)                              # each call is a unit that is gathered
fully_shard(model[2], mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)   # behind fully_shard, or it has other parameters

generator = torch.Generator().manual_seed(dist.get_rank())   # each rank its own samples
for step in range(401):
    x = torch.randn(16, 3, generator=generator)
    y = (x[:, :1] * x[:, 1:2] + 0.5 * x[:, 2:])
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    whole = loss.detach().clone()
    dist.all_reduce(whole)
    if step % 200 == 0 and dist.get_rank() == 0:
        print(f"step {step:3d}  loss {whole / dist.get_world_size():.4f}")
held = sum(p.to_local().numel() for p in model.parameters())
print(f"rank {dist.get_rank()} holds {held} of {sum(p.numel() for p in model.parameters())} numbers")
dist.destroy_process_group()
# example-end
