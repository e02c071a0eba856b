"""The errors meant for a person: one tree, one line each, and what to type next.

PkbError                  1   anything else that went wrong
├── UsageError            2   a flag or argument that cannot be
├── NoStore              10   nothing was ever ingested
├── Locked               11   another pkb is writing
└── NoModel              12   the model asked for is not here
"""


class PkbError(Exception):
    """An error for the user: what went wrong, and the command that helps, if one does."""

    code = 1

    def __init__(self, message: str, next_step: str | None = None) -> None:
        super().__init__(message)
        self.message, self.next_step = message, next_step


class UsageError(PkbError):
    """A flag or argument that cannot be."""

    code = 2


class NoStore(PkbError):
    """Nothing was ever ingested into this home."""

    code = 10

    def __init__(
        self, message: str = "nothing has been ingested yet", next_step: str | None = "pkb ingest FOLDER"
    ) -> None:
        super().__init__(message, next_step)


class Locked(PkbError):
    """Another process holds the lock that this one needs."""

    code = 11


class NoModel(PkbError):
    """The model asked for is not on this machine."""

    code = 12
