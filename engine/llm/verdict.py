"""Whether an answer of a model with a role adapter stands: its own verdict and the words of the evidence, weighed."""

from math import exp, log

VERDICTS = ("yes", "no")
# Log odds that an answer is right, as a sum; fitted by tests/bench/reading.py.
_START, _YES, _SUPPORT = 0.0, 1.0, 0.0
LEAST_CHANCE = 0.3
_EDGE = 1e-6


def chance(yes: float, support: float) -> float:
    """Return the probability that an answer is right, of the model's yes and of the evidence holding one."""
    return 1 / (1 + exp(-(_START + _YES * _log_odds(yes) + _SUPPORT * _log_odds(support))))


def _log_odds(probability: float) -> float:
    kept = min(1 - _EDGE, max(_EDGE, probability))
    return log(kept / (1 - kept))
