# SPDX-License-Identifier: Apache-2.0
# PyTorch's DistributedDataParallel, for docs/coming_from/pytorch_ddp.md: torchrun --nproc-per-node 2 ddp.py
# example-begin
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo")
torch.manual_seed(0)
features = torch.randn(256, 10)
labels = (features[:, 0] > features[:, 1]).long()
data = TensorDataset(features, labels)
sampler = DistributedSampler(data)                            # or every rank reads the same samples
loader = DataLoader(data, batch_size=16, sampler=sampler)     # 16 per rank are 32 together

model = DistributedDataParallel(torch.nn.Linear(10, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
criterion = torch.nn.CrossEntropyLoss()

step = 0
for epoch in range(2):
    sampler.set_epoch(epoch)                                  # or every epoch has the same order
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()                                       # reduces the gradients' mean
        optimizer.step()
        whole = loss.detach().clone()
        dist.all_reduce(whole)                                # the loss of this rank is not the batch's
        if dist.get_rank() == 0:
            print(f"step {step:2d}  loss {whole / dist.get_world_size():.4f}")
        step += 1
dist.destroy_process_group()
# example-end
