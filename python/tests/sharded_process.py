"""One process of a sharded trainer, started by test_torch.py through torch.distributed.run: FSDP2, or that over
tensor-parallel, or FSDP2 whose float32 masters are published as bfloat16. Each process publishes what it has; the first has a rollout of the whole model beside, which must have
the bits that all processes together have."""

import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import weft_fabric as weft
import weft_fabric.torch
from support import BOUND, quiet


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(64, 130)
        self.down = torch.nn.Linear(130, 64)
        self.norm = torch.nn.LayerNorm(64)

    def forward(self, x):
        return self.norm(self.down(torch.relu(self.up(x))))


def sharded(kind, world):
    torch.manual_seed(0)
    model = Model()
    if kind in ("fsdp", "cast"):
        return fully_shard(model, mesh=init_device_mesh("cpu", (world,)))
    mesh = init_device_mesh("cpu", (world // 2, 2), mesh_dim_names=("data", "tensor"))
    parallelize_module(model, mesh["tensor"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
    return fully_shard(model, mesh=mesh["data"])


def site(world):
    sections = "".join(f"[source.{r}]\nlisten = 127.0.0.{r + 1}:0\n" for r in range(world))
    return weft.Site(f"[trainer]\nlisten = 127.0.0.1:0\n{sections}[peer.a]\n", {"peers.provider": "tcp"})


def main(kind):
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    model = sharded(kind, world)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    cast, served = ("bf16", torch.bfloat16) if kind == "cast" else (None, torch.float32)
    with weft.torch.publish_after(optimizer, model, site(world), cast=cast, log=quiet) as publisher:
        blocks = weft.torch.holding(model, cast=cast)[1]
        own = (publisher.trainer.stats().listen, blocks.slices) if publisher.trainer else None
        every = [None] * world
        dist.all_gather_object(every, own)
        follower = None
        if rank == 0:
            sources = [source for source in every if source]
            follower = weft.torch.follow(Model().to(served), site(world), "a", empty=True, sources=sources, log=quiet)
            follower.until(0, BOUND)
        for version in (1, 2, 3):
            dist.barrier()
            if version == 3:
                before = publisher.run
                publisher.load_state_dict(publisher.state_dict())  # as after a restart: a later run, the same in all
                assert publisher.run > before and publisher.version == 2
            optimizer.zero_grad()
            torch.manual_seed(version)
            model(torch.randn(8, 64)).square().mean().backward()
            optimizer.step()
            whole = {name: tensor.full_tensor().to(served) for name, tensor in model.state_dict().items()}
            if follower:
                follower.until(version, BOUND)
                for name, tensor in follower.model.state_dict().items():
                    assert torch.equal(tensor, whole[name]), f"version {version}: {name} differs"
        dist.barrier()
        if follower:
            follower.close()
            print(f"{kind}: {len(sources)} sources, equal", flush=True)
    dist.destroy_process_group()


main(sys.argv[1])
