"""The least similarity at which a question is lent another's answer, learnt from hits that were judged since. Pure."""

import math
from collections.abc import Iterable, Sequence

CONFIDENCE_Z = 1.645  # one-sided 95 %


def learnt(labels: Iterable[tuple[float, bool]], max_error: float, floor: float) -> float:
    """Give the least threshold, `floor` or above, whose hits are wrong for at most a share `max_error`, to be safe.

    `labels` are the similarities of judged hits and whether they were right. As in vCache (arXiv 2502.03771) the bound
    is on an upper estimate of the error, not on the error itself. Unlike there, where nothing above a threshold was
    wrong that is enough: with a few questions a day the estimate alone would never let the first hit be served.
    """
    judged = list(labels)
    wrong = sorted({similarity for similarity, right in judged if not right and similarity >= floor})
    thresholds = (floor, *(math.nextafter(similarity, math.inf) for similarity in wrong))
    return next(tau for tau in thresholds if _safe([right for at, right in judged if at >= tau], max_error))


def upper(wrong: int, judged: int, z: float = CONFIDENCE_Z) -> float:
    """Give the upper end of the Wilson score interval of a share: wrong of judged (Wilson 1927)."""
    if not judged:
        return 1.0
    share, spread = wrong / judged, z * z / judged
    root = z * math.sqrt(share * (1 - share) / judged + spread / (4 * judged))
    return min(1.0, (share + spread / 2 + root) / (1 + spread))


def _safe(judged: Sequence[bool], max_error: float) -> bool:
    wrong = judged.count(False)
    return not wrong or upper(wrong, len(judged)) <= max_error
