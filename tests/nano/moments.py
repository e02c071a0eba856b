"""Made-up days, clock times, sums and counts, written as people write them."""

from dataclasses import dataclass
from datetime import date, timedelta

from tests.nano.pool import KEPT, Pool

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
UNITS = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
ORDINALS = (
    *("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh"),
    *("twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth", "eighteenth", "nineteenth"),
    *("twentieth", "twenty-first", "twenty-second", "twenty-third", "twenty-fourth", "twenty-fifth", "twenty-sixth"),
    *("twenty-seventh", "twenty-eighth", "twenty-ninth", "thirtieth", "thirty-first"),
)
MONEY = (
    "{n} pounds",
    "{n} euros",
    "£{n}",
    "€{n}",
    "${n}",
    "{n} dollars",
    "{n} francs",
    "£{n}.{c}",
    "€{n}.{c}",
    "{n}.{c} euros",
)


@dataclass(frozen=True, slots=True)
class Moment:
    """A time as written (`whole`), and its parts where it has them."""

    whole: str
    day: str | None
    clock: str | None


def number(pool: Pool, most: int) -> int:
    """Draw a number from 2; those kept for evaluation leave a rest of 3 by 6."""
    while True:
        n = pool.rng.randint(2, most)
        if (n % KEPT == 3) == pool.unseen:
            return n


def spelt(n: int) -> str:
    """Write a number below a hundred in words."""
    if n < 20:
        return UNITS[n]
    return TENS[n // 10] + (f"-{UNITS[n % 10]}" if n % 10 else "")


def count(pool: Pool) -> str:
    """Draw a count, in digits or words."""
    n = number(pool, pool.rng.choice((12, 60, 99, 400, 2500)))
    if n < 100 and pool.rng.random() < 0.4:
        return spelt(n)
    return f"{n:,}" if pool.rng.random() < 0.8 else str(n)


def money(pool: Pool) -> str:
    """Draw a sum with its unit."""
    n = number(pool, pool.rng.choice((20, 90, 500, 3000)))
    cents = pool.rng.choice(("20", "50", "60", "75", "80", "90", "95", "99"))
    if n < 100 and pool.rng.random() < 0.15:
        return f"{spelt(n)} {pool.rng.choice(('pounds', 'euros'))}"
    return pool.rng.choice(MONEY).format(n=f"{n:,}", c=cents)


def clock(pool: Pool) -> str:
    """Draw a clock time."""
    rng = pool.rng
    hour, minute = _hour(pool)
    forms = [f"{hour}:{minute:02}"] * 3 + [
        f"{hour}.{minute:02}",
        f"{(hour - 1) % 12 + 1}:{minute:02} {'ap'[hour > 11]}m",
    ]
    if not minute:
        short = (hour - 1) % 12 + 1
        forms += [f"{short} {'ap'[hour > 11]}m", f"{short}{'ap'[hour > 11]}m", f"{UNITS[short]}", f"{hour} o'clock"]
    if minute == 30:
        forms += [f"half past {UNITS[(hour - 1) % 12 + 1]}"]
    if minute in (15, 45):
        forms += [f"quarter {'past' if minute == 15 else 'to'} {UNITS[(hour - (minute == 15)) % 12 + 1]}"]
    return rng.choice(forms)


def _hour(pool: Pool) -> tuple[int, int]:
    rng = pool.rng
    while True:
        hour, minute = rng.randint(7, 22), rng.choice((0, 0, 0, 5, 10, 15, 15, 20, 30, 30, 30, 40, 45, 45, 50, 52, 55))
        if ((60 * hour + minute) // 5 % KEPT == 3) == pool.unseen:
            return hour, minute


def a_date(pool: Pool, about: date) -> date:
    """Draw a day near another; one in six days of the year is kept for evaluation."""
    while True:
        drawn = about + timedelta(days=pool.rng.randint(1, 90))
        if ((drawn.day + drawn.month) % KEPT == 3) == pool.unseen:
            return drawn


def a_day(pool: Pool, about: date) -> str:
    """Draw a day and write it in one of many ways."""
    drawn = a_date(pool, about)
    weekday, n, month = DAYS[drawn.weekday()], drawn.day, MONTHS[drawn.month - 1]
    suffix = "th" if 10 < n < 20 else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    forms = [f"{weekday} {n} {month}"] * 5 + [f"{n} {month}"] * 4 + [f"{weekday}"] * 3
    forms += [
        f"{weekday} the {ORDINALS[n - 1]} of {month}",
        f"the {ORDINALS[n - 1]} of {month}",
        f"{n}{suffix} {month}",
    ]
    forms += [f"{weekday}, {n} {month}", f"{month} {n}", f"the {n}{suffix}", f"{weekday} the {n}{suffix}"]
    forms += [f"{weekday} {n} {month} {drawn.year}", f"{month} {n}{suffix}", f"{n}.{drawn.month}.", f"next {weekday}"]
    return pool.rng.choice(forms)


def moment(pool: Pool, about: date) -> Moment:
    """Draw a day, a day and a clock time, or a clock time."""
    rng, kind = pool.rng, pool.rng.random()
    if kind < 0.35:
        day = a_day(pool, about)
        return Moment(day, day, None)
    if kind < 0.9:
        day, at = a_day(pool, about), clock(pool)
        joint = rng.choice((" at ", " at ", " at ", ", ", " from "))
        return Moment(f"{day}{joint}{at}", day, at)
    days = weekdays(pool)
    if rng.random() < 0.5:
        return Moment(days, days, None)
    until = rng.choice((hours(pool), f"at {clock(pool)}"))
    return Moment(f"{days} {until}", days, until.removeprefix("at "))


def appointment(pool: Pool, about: date) -> Moment:
    """Draw a day and from when to when, as a calendar writes it."""
    drawn = a_date(pool, about)
    day = f"{DAYS[drawn.weekday()]} {drawn.day} {MONTHS[drawn.month - 1]} {drawn.year}"
    (hour, minute), last = _hour(pool), pool.rng.randint(1, 3)
    at = f"{hour:02}:{minute:02} to {(hour + last) % 24:02}:{minute:02}"
    return Moment(f"{day}, {at}", day, at)


def weekdays(pool: Pool) -> str:
    """Draw a day of every week, or two."""
    first, second = sorted(pool.rng.sample(DAYS, 2), key=DAYS.index)
    return f"{first}s and {second}s" if pool.rng.random() < 0.45 else f"{first}s"


def hours(pool: Pool) -> str:
    """Draw from when to when."""
    return pool.rng.choice(("from {} to {}", "{} to {}", "between {} and {}")).format(clock(pool), clock(pool))
