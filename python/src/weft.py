"""Not in any wheel: tells programs of an earlier checkout, which have this folder in PYTHONPATH, the package's new name."""

raise ImportError("this package is weft_fabric now: write `import weft_fabric as weft`")
