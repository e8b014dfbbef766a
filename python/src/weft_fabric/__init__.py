"""weft keeps the weights of rollouts bit-identical with a trainer's, and sends only what changed.

    trainer = weft.Trainer(site, model.named_parameters())
    optimizer.step()
    trainer.publish(version)

    rollout = weft.Rollout(site, "a", model.named_parameters())
    staged = rollout.staged(timeout=1.0)
    rollout.commit(staged)  # between two decode steps

docs/PYTHON.md has whole programs, weft.h the contract of each call.
"""

from ._binding import Blocks, Pieces
from ._declarations import VERSION as __version__
from ._here import devices, providers
from ._layout import Layout, TensorSpec
from ._library import library_path
from ._records import (
    Applied,
    Device,
    Event,
    Fault,
    Header,
    Moved,
    Peer,
    Provider,
    Rail,
    Staged,
    Stats,
    Stored,
    Update,
    Version,
)
from ._rollout import Rollout
from ._site import Site
from ._store import Kept, Store
from ._tensors import Typed
from ._trainer import Trainer
from ._update import Changes, UpdateFile, diff, digest, merge
from .errors import (
    CallError,
    ClosedError,
    Error,
    LibraryError,
    PeerError,
    SessionError,
    TensorError,
    TimeoutExpired,
    VersionError,
)

__all__ = [
    "Applied", "Blocks", "CallError", "Changes", "ClosedError", "Device", "Error", "Event", "Fault", "Header", "Kept",
    "Layout", "LibraryError", "Moved", "Peer", "PeerError", "Pieces", "Provider", "Rail", "Rollout", "SessionError",
    "Site", "Staged", "Stats", "Store", "Stored", "TensorError", "TensorSpec", "TimeoutExpired", "Trainer", "Typed",
    "Update", "UpdateFile", "Version", "VersionError", "__version__", "devices", "diff", "digest", "library_path",
    "merge", "providers",
]  # fmt: skip
