# SPDX-License-Identifier: Apache-2.0
# A job that torchrun restarts, for docs/coming_from/torchrun.md:
#   for life in 1 2; do torchrun --nproc-per-node 2 elastic.py; done
# example-begin
import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(10, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
first = 0
if os.path.exists("snapshot.pt"):                             # what the last life of the job has left
    snapshot = torch.load("snapshot.pt")
    model.module.load_state_dict(snapshot["model"])
    optimizer.load_state_dict(snapshot["optimizer"])
    first = snapshot["step"]
for step in range(first, 40):
    generator = torch.Generator().manual_seed(2 * step + rank)
    x = torch.randn(16, 10, generator=generator)
    loss = torch.nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if rank == 0 and step % 10 == 0:
        print(f"from step {first:2d} on: step {step:2d}  loss {loss:.4f}", flush=True)
        torch.save({"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "step": step + 1},
                   "snapshot.pt")
    if rank == 1 and step == 25 and first == 0:
        os._exit(1)                                           # a rank dies
dist.destroy_process_group()
# example-end
