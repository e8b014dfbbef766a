"""Placements recorded with real vLLM's models, each process's held against vLLM's own recording fakes."""

import multiprocessing
import os
from pathlib import Path
from queue import Empty

from vllm_engine import config_of, names_of

CASES = (
    ("dense", 1, False),
    ("dense", 2, False),
    ("tied", 2, False),
    ("moe", 1, False),
    ("moe", 2, False),
    ("moe", 2, True),
)  # model, tensor-parallel processes, experts parted


def _recorded(rank, size, path, experts, shapes, port, queue):
    """The copies of one process by weft's recorder and by vLLM's own fakes, without addresses."""
    import torch
    from vllm.config import set_current_vllm_config
    from vllm.distributed import init_distributed_environment, initialize_model_parallel
    from vllm.distributed.weight_transfer.sharded_rdt_fake import BakeSink, FakeRDTTensor
    from vllm.engine.arg_utils import EngineArgs
    from vllm.model_executor.model_loader.utils import initialize_model
    from vllm.utils.torch_utils import set_default_torch_dtype

    import weft_fabric as weft
    from weft_fabric.engine._recorder import record

    os.environ["VLLM_DIST_IDENT"] = str(port)
    config = EngineArgs(
        model=path,
        skip_tokenizer_init=True,
        dtype="bfloat16",
        enforce_eager=True,
        max_model_len=128,
        tensor_parallel_size=size,
        enable_expert_parallel=experts,
        load_format="dummy",
    ).create_engine_config()
    copies, judged = [], []
    with set_current_vllm_config(config):
        init_distributed_environment(size, rank, f"tcp://127.0.0.1:{port}", rank, "gloo")
        initialize_model_parallel(size, 1)
        with set_default_torch_dtype(torch.bfloat16):
            model = initialize_model(vllm_config=config)
        layout = weft.Layout.of((name, "BF16", shape) for name, shape in shapes)
        own = record(model, layout.tensors, torch.device("cpu"))
        begin = {name: tensor.untyped_storage().data_ptr() for name, tensor in model.named_parameters()}
        for copy in own:
            copies.append([*copy[:4], copy.data - begin[copy.parameter], *copy[5:]])

        class Sink(BakeSink):
            def accept_copy(self, target, source):
                elements = torch.empty(dict(shapes)[source._name], dtype=torch.bfloat16, device="meta")
                for name, args, options in source._ops:
                    elements = (
                        elements[args[0]] if name == "__getitem__" else getattr(elements, name)(*args, **dict(options))
                    )
                storage = target.untyped_storage().data_ptr()
                place = next(name for name, address in begin.items() if address == storage)
                judged.append(
                    [
                        source._name,
                        elements.storage_offset(),
                        tuple(elements.shape),
                        tuple(elements.stride()),
                        target.data_ptr() - storage,
                        tuple(target.stride()),
                        target.element_size(),
                        place,
                    ]
                )
                return target

        sink, cpu = Sink(), torch.device("cpu")
        model.load_weights(
            (n, FakeRDTTensor(name=n, shape=torch.Size(s), dtype=torch.bfloat16, device=cpu, sink=sink))
            for n, s in shapes
        )
    queue.put((rank, copies, judged))


def _got(queue, processes):
    """What the next process found; an error if one ends without that."""
    while True:
        try:
            return queue.get(timeout=1)
        except Empty:
            if any(process.exitcode for process in processes):
                raise RuntimeError("a process that records failed") from None


def tables(folder):
    """Recorded tables of models and parallelism, each process's held against vLLM's fakes."""
    models = []
    context = multiprocessing.get_context("spawn")
    for number, (name, size, experts) in enumerate(CASES):
        config = config_of(name)
        shapes = [(n, tuple(s)) for n, s in names_of(config)]
        path = Path(folder) / f"config-{name}"
        config.save_pretrained(path)
        queue = context.Queue()
        port = 23000 + os.getpid() % 4000 + number
        processes = [
            context.Process(target=_recorded, args=(rank, size, str(path), experts, shapes, port, queue))
            for rank in range(size)
        ]
        for process in processes:
            process.start()
        ranks = sorted(_got(queue, processes) for _ in processes)
        for process in processes:
            process.join(60)
        models.append(
            {
                "name": f"{name} tp{size}{' ep' if experts else ''}",
                "layout": [(n, "BF16", s) for n, s in shapes],
                "ranks": [copies for _, copies, _ in ranks],
                "judged": [judged for _, _, judged in ranks],
            }
        )
    return {"models": models}
