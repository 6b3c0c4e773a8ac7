"""Where served models are: a file or folder of this machine, or an object or folder of a store."""

from __future__ import annotations

import io
import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from rankine.core.stores import is_url, open_store


class OpenFile(NamedTuple):
    """An open file, and a value that changes when the file does."""

    file: io.RawIOBase
    version: tuple[Any, ...]


class Place(ABC):
    """A model file or a folder of them.

    Attributes
    ----------
    name
        Last part of the path.
    """

    name: str

    @abstractmethod
    def is_folder(self) -> bool:
        """Whether it is a folder now."""

    @abstractmethod
    def files(self) -> list[str]:
        """Return the names of the files in the folder, sorted."""

    @abstractmethod
    def existing(self, names: Iterable[str]) -> set[str]:
        """Return those of the names that exist, in the folder or next to the file."""

    @abstractmethod
    def open(self, name: str) -> OpenFile | None:
        """Open a file in the folder or next to the file; return None for a folder."""


def find_place(path: str | os.PathLike[str]) -> Place:
    """Return the place that a path or URL names."""
    if is_url(path):
        return StorePlace(os.fspath(path))
    return LocalPlace(Path(path))


class LocalPlace(Place):
    """A file or folder of this machine. Links in a folder are not followed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.name

    def is_folder(self) -> bool:
        """Whether it is a folder now."""
        return self.path.is_dir()

    def files(self) -> list[str]:
        """Return the names of the files in the folder, sorted."""
        return sorted(os.listdir(self.path))  # noqa: PTH208 - names, not paths

    def existing(self, names: Iterable[str]) -> set[str]:
        """Return those of the names that exist, in the folder or next to the file."""
        folder = self.path if self.is_folder() else self.path.parent
        return {*names} & {*os.listdir(folder)}  # noqa: PTH208 - names, not paths

    def open(self, name: str) -> OpenFile | None:
        """Open a file in the folder or next to the file; return None for a folder."""
        descriptor = self._descriptor(name)
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            os.close(descriptor)
            return None
        version = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        return OpenFile(io.FileIO(descriptor, "rb"), version)

    def _descriptor(self, name: str) -> int:
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
        if not self.is_folder():
            return os.open(self.path.with_name(name), flags)
        flags |= getattr(os, "O_NOFOLLOW", 0)
        if os.open not in os.supports_dir_fd:
            return os.open(self.path / name, flags)
        # Relative to a descriptor of the folder, so that renaming the folder cannot redirect it.
        folder = os.open(self.path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
        try:
            return os.open(name, flags, dir_fd=folder)
        finally:
            os.close(folder)


class StorePlace(Place):
    """An object of a store, or a folder of objects."""

    def __init__(self, url: str) -> None:
        self.store, path = open_store(url)
        self.path = PurePosixPath(path)
        self.name = self.path.name

    def is_folder(self) -> bool:
        """Whether there were objects below this path, and none of this path, at the first call."""
        return self._is_folder

    @cached_property
    def _is_folder(self) -> bool:
        info = self.store.get_file_info(str(self.path))
        return bool(info.type.name == "Directory")

    def files(self) -> list[str]:
        """Return the names of the objects in the folder, sorted."""
        return [PurePosixPath(path).name for path in self.store.list_objects(str(self.path))]

    def existing(self, names: Iterable[str]) -> set[str]:
        """Return those of the names that exist, in the folder or next to the object."""
        if self.is_folder():
            return {*names} & {*self.files()}
        if not self.store.has_folders:
            return set()
        paths = [str(self.path.with_name(name)) for name in names]
        infos = self.store.get_file_info(paths)
        return {PurePosixPath(info.path).name for info in infos if info.is_file}

    def open(self, name: str) -> OpenFile:
        """Open an object in the folder or next to the object."""
        path = self.path.with_name(name)
        if self.is_folder():
            path = self.path / name
        file = self.store.open(str(path))
        return OpenFile(file, tuple(file.identity))
