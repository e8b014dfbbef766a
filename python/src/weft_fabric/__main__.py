"""The command inside the wheel, as `weft-fabric` and as `python -m weft_fabric`."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> None:
    """Becomes the command, which keeps the process's arguments, signals and exit code. WEFT_COMMAND names another one."""
    path = os.environ.get("WEFT_COMMAND") or str(Path(__file__).with_name("weft-fabric"))
    called = sys.argv[0] if Path(sys.argv[0]).name != "__main__.py" else "python -m weft_fabric"
    try:
        os.execv(path, [called, *sys.argv[1:]])
    except OSError as error:
        sys.exit(
            f"weft-fabric: {path} cannot be run: {error.strerror}; install the wheel, or set WEFT_COMMAND to weft's path"
        )


if __name__ == "__main__":
    main()
