"""What new mail leaves for the next night: answers to make anew and messages to sum up, as rows, in one batch."""

from cli.session import Session


def queue(opened: Session) -> None:
    """Note what `pkb idle` has to do since mail came in; nothing is done, and no model is loaded."""
    from cli.foresight import abstracts
    from engine.idle.asking import Asking
    from engine.idle.refresh import plan
    from store.jobs import Job, Jobs

    model, at = opened.writer.load, opened.now.timestamp()
    asked = plan(Asking(opened.ledger, opened.means, opened.room, opened.now))
    units = [*asked, *abstracts(opened, (lambda: model().model) if model else None, lambda: False)]
    Jobs(opened.ledger).offer([Job(u.kind, u.subject, u.seconds, u.gain, at, u.source) for u in units])
