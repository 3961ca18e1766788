"""The pipeline file of the documentation, and a screen to run it on."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

from rich.console import Console

from doc_names import ROOT

EXAMPLE = ROOT / "examples" / "prices"


def example(folder: Path) -> Path:
    """A copy of the example that writes to its own folder."""
    shutil.copytree(EXAMPLE, folder)
    file = folder / "pipeline.toml"
    file.write_text(file.read_text().replace("../../demo-output/prices/", ""))
    return file


def console_of(*, terminal: bool) -> Console:
    """A screen whose text is kept."""
    return Console(file=io.StringIO(), width=100, force_terminal=terminal)
