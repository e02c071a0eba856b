"""The made-up archive of the measurement at scale: drawn by number alone, with threads and quotes."""

import email
from email.utils import parsedate_to_datetime
from pathlib import Path

from tests.bench.scale import message, own, place, write

COUNT = 600


def test_a_message_depends_on_its_number_alone(tmp_path: Path) -> None:
    write(tmp_path, 5, 15, COUNT)
    assert [place(tmp_path, number).read_text() for number in range(5, 15)] == [
        message(number, COUNT) for number in range(5, 15)
    ]


def test_replies_name_an_earlier_message_and_some_quote_it() -> None:
    made = [email.message_from_string(message(number, COUNT)) for number in range(COUNT)]
    replies = [(number, one) for number, one in enumerate(made) if one["In-Reply-To"]]
    assert 0.2 < len(replies) / COUNT < 0.4
    quoting = 0
    for number, one in replies:
        answered = int(one["In-Reply-To"].strip("<>").partition("@")[0])
        assert answered < number
        assert (
            one["Subject"] == f"Re: {made[answered]['Subject'].removeprefix('Re: ')}" or made[answered]["In-Reply-To"]
        )
        quoting += own(answered) != "" and own(answered) in message(number, COUNT)
    assert quoting > len(replies) / 2
    days = [parsedate_to_datetime(one["Date"]) for one in made]
    assert days == sorted(days)
