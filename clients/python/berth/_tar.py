# SPDX-License-Identifier: Apache-2.0
"""
Copies of files and trees to and from berthd, which takes and gives tar archives.

What comes out of a sandbox is hostile: names stay below the destination, links are made last, so that nothing is
written through one, and neither devices nor owners, set-id bits and absolute names are taken over.
"""
from __future__ import annotations

import contextlib
import os
import tarfile
import tempfile
from typing import IO, Callable, Iterator, List, Optional, Set

from . import errors

ENTRIES_MAX = 1000000
MEMORY_MAX = 8 << 20        # of an archive; a larger one is in a temporary file


def spool() -> IO[bytes]:
    return tempfile.SpooledTemporaryFile(MEMORY_MAX)


@contextlib.contextmanager
def new_file(path: str) -> Iterator[IO[bytes]]:
    """A file that is not there yet, and is not after an exception; or a device."""
    device = os.path.exists(path) and not os.path.isfile(path)
    try:
        file = open(path, "wb" if device else "xb")
    except FileExistsError:
        raise errors.Exists(f"{path} exists", "another file, or remove it") from None
    except OSError as e:
        raise errors.System(f"make {path}: {e.strerror}") from None
    try:
        with file:
            yield file
    except BaseException:
        if not device:
            os.unlink(path)
        raise


def plain(member: tarfile.TarInfo) -> Optional[tarfile.TarInfo]:
    return member if member.isfile() or member.isdir() or member.issym() or member.islnk() else None


def pack(local: str) -> IO[bytes]:
    """The file or tree as an archive below its own name, or below "." when local ends with /. ."""
    if not os.path.lexists(local):
        raise errors.NotFound(f"{local}: no such file or directory")
    out = spool()
    try:
        with tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as tar:
            tar.add(local, arcname="." if is_contents(local) else os.path.basename(os.path.abspath(local)), filter=plain)
    except OSError as e:
        out.close()
        raise errors.System(f"read {e.filename or local}: {e.strerror}") from None
    out.seek(0)
    return out


def is_contents(path: str) -> bool:
    return path == "." or path.endswith("/.")


def place(member: str, top: str, into: str, contents: bool) -> str:
    """Where the member comes to be: below into, or into itself in place of the archive's first name."""
    parts = [p for p in member.split("/") if p not in ("", ".")]
    if ".." in parts or (not contents and parts[:1] != [top]):
        raise errors.Corrupt(f"the archive has the name {member!r}")
    return os.path.join(into, *(parts if contents else parts[1:]))


def unpack(archive: IO[bytes], remote: str, local: str, parents: bool) -> int:
    """As `berth cp` does: into local where it is a directory, else local is the new name.  Returns the bytes of files."""
    total, entries = 0, 0
    links: List[tarfile.TarInfo] = []
    files: Set[str] = set()     # that hard links may be to
    contents = is_contents(remote)
    if parents and os.path.dirname(local):
        os.makedirs(os.path.dirname(local), exist_ok=True)
    try:
        with tarfile.open(fileobj=archive, mode="r:") as tar:
            first = tar.next()
            top = [p for p in first.name.split("/") if p not in ("", ".")][:1] if first else []
            if first is None or (not contents and not top):
                raise errors.Corrupt("the archive is empty")
            name = top[0] if top else ""
            into = local
            if os.path.isdir(local):        # where the caller's own links lead is the caller's wish
                into = os.path.realpath(local) if contents else os.path.join(local, name)
            member: Optional[tarfile.TarInfo] = first
            while member:
                path = place(member.name, name, into, contents)
                only_directories(into, path)
                total += one(tar, member, path, links)
                if member.isfile():
                    files.add(path)
                entries += 1
                if entries > ENTRIES_MAX:
                    raise errors.Limit(f"more than {ENTRIES_MAX} entries in one copy")
                tar.members = []        # type: ignore[attr-defined]
                member = tar.next()
            for link in links:
                path = place(link.name, name, into, contents)
                only_directories(into, path)
                make_link(link, path, files, lambda target: place(target, name, into, contents))
    except (tarfile.TarError, EOFError) as e:
        raise errors.Corrupt(f"the archive of {remote}: {e}") from None
    except OSError as e:
        raise errors.System(f"write {e.filename or local}: {e.strerror}") from None
    return total


def only_directories(into: str, path: str) -> None:
    """What lies between into and path is not a link, which an entry before this one may have made."""
    parent = into
    for part in os.path.relpath(path, into).split("/")[:-1]:
        if os.path.islink(parent):
            break
        parent = os.path.join(parent, part)
    if path != into and os.path.islink(parent):
        raise errors.Corrupt(f"the archive has a name below the symbolic link {parent}")


def one(tar: tarfile.TarFile, member: tarfile.TarInfo, path: str, links: List[tarfile.TarInfo]) -> int:
    if member.isdir():
        if os.path.islink(path):
            raise errors.Corrupt(f"the archive has a directory where {path} is a symbolic link")
        os.makedirs(path, exist_ok=True)
    elif member.issym() or member.islnk():
        links.append(member)
    elif member.isfile():
        content = tar.extractfile(member)
        assert content
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0), member.mode & 0o777)
        with os.fdopen(fd, "wb") as f:
            # a hole stays one: what a sandbox calls a large file takes no room here
            for start, size in getattr(member, "sparse", None) or [(0, member.size)]:
                content.seek(start)
                f.seek(start)
                copy(content, f, size)
            f.truncate(member.size)
        return member.size
    return 0


def copy(content: IO[bytes], f: IO[bytes], size: int) -> None:
    while size:
        piece = content.read(min(size, 1 << 20))
        if not piece:
            raise errors.Corrupt("the archive is cut short")
        f.write(piece)
        size -= len(piece)


def make_link(link: tarfile.TarInfo, path: str, files: Set[str], where: Callable[[str], str]) -> None:
    if link.issym():
        if os.path.islink(path):
            os.unlink(path)
        os.symlink(link.linkname, path)
        return
    target = where(link.linkname)
    if target not in files:
        raise errors.Corrupt(f"the archive has a hard link to {link.linkname!r}")
    if os.path.lexists(path) and path != target:
        os.unlink(path)
    if path != target:
        os.link(target, path, follow_symlinks=False)
