"""Which files a registration's labellings stand in, as they are now: files, and those of folders.

Lists names; reads no file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from prereg_judge.registration.schema import Registration
from prereg_judge.registration.schema_forms import TableRegistration
from prereg_judge.registration.schema_labellings import LabellingFile
from prereg_judge.workspace import Workspace


def labelling_files(workspace: Workspace, model: Registration) -> tuple[str, ...]:
    """The names of all files that would be read of a registration's labellings, as they are now."""
    told = model.labellings if isinstance(model, TableRegistration) else None
    names = (name for file in (told.files if told else ()) for name in _names(workspace, file))
    return tuple(dict.fromkeys(names))


def _names(workspace: Workspace, file: LabellingFile) -> Iterator[str]:
    if file.format != "brat":
        yield file.file
        return
    for _, folder in brat_folders(file):
        root = workspace.input(folder)
        for path in sorted(root.iterdir()) if root.is_dir() else ():
            if path.suffix == ".ann":
                yield f"{folder}/{path.name}"
                if path.with_suffix(".txt").exists():
                    yield f"{folder}/{path.with_suffix('.txt').name}"


def brat_folders(file: LabellingFile) -> Iterator[tuple[str, str]]:
    """The name of each labelling of a folder of standoff files, and the folder that it lies in."""
    for name, place in file.labellings.items():
        sub = str(PurePosixPath(str(place)))
        yield name, file.file.rstrip("/") + ("" if sub == "." else f"/{sub}")
