"""Signals that end a command, even where what their handlers raise is lost."""

import os
import signal
import sys
import threading

_SOON_S = 0.05
_ENDING = {KeyboardInterrupt: signal.SIGINT, SystemExit: signal.SIGTERM}


def heed() -> None:
    """Have a signal sent again that comes while Python removes an object: it passes over all that is raised then."""
    usual = sys.unraisablehook

    def again(lost: "sys.UnraisableHookArgs") -> None:
        if number := next((number for kind, number in _ENDING.items() if issubclass(lost.exc_type, kind)), None):
            threading.Timer(_SOON_S, os.kill, (os.getpid(), number)).start()
        else:
            usual(lost)

    sys.unraisablehook = again
