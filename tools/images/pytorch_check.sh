#!/bin/sh -eu
# gloo is there, and torchrun starts two processes that find each other by it.
torchrun --help | grep -q nproc_per_node
cat >/tmp/ranks.py <<'END'
import torch
import torch.distributed as dist

assert dist.is_gloo_available()
dist.init_process_group("gloo")
mine = torch.tensor([dist.get_rank() + 1.0])
dist.all_reduce(mine)
assert mine.item() == 3.0, mine
print("torch", torch.__version__)
END
OMP_NUM_THREADS=1 torchrun --standalone --nproc_per_node 2 /tmp/ranks.py
python -c 'import numpy'
