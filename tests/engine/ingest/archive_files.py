"""Writes archives, and mail to put into them."""

import io
import tarfile
import zipfile
from collections.abc import Mapping
from typing import Literal

FROM = b"From ann@x.org Fri May  3 10:00:00 2024\n"


def message(number: int, body: str = "") -> bytes:
    """Return one message."""
    header = f"Message-ID: <{number}@x.org>\nFrom: ann@x.org\nDate: {1 + number % 28} May 2024 10:00:00 +0000\n"
    return f"{header}Subject: s{number}\n\n{body or f'word{number}'}\n".encode()


def mbox(*numbers: int) -> bytes:
    """Return messages as an mbox file."""
    return b"".join(FROM + message(number) + b"\n" for number in numbers)


def zipped(files: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return a zip file."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content, method)
    return made.getvalue()


def tarred(files: Mapping[str, bytes], mode: Literal["w", "w:gz"] = "w:gz", form: int = tarfile.PAX_FORMAT) -> bytes:
    """Return a tar file."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode=mode, format=form) as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return made.getvalue()
