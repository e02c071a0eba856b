"""The tokenizer: byte-level BPE of 1,024 entries in which a name is the same tokens wherever it stands."""

from collections.abc import Iterator
from random import Random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from tests.nano import common
from tests.nano.pool import Pool
from tests.nano.samples import HARD, LONG, Sample, sample

END = "<|end|>"
SIZE = 1024
# Small words carry the blank before them; capitals, digits and marks never do.
_PIECES = r" ?\p{Ll}+|\p{Lu}+\p{Ll}*|\p{L}+|\p{N}|[^\s\p{L}\p{N}]|\s"
_FOLDED = r"\n ?(?=\p{Ll})"  # a line that goes on in the next: what was cut there is copied like anything else


def train(seed: int, contexts: int = 5000) -> Tokenizer:
    """Train on generated contexts and lone words."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Replace(Regex(_FOLDED), " ")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=SIZE,
        special_tokens=[AddedToken(END, normalized=False)],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_texts(seed, contexts), trainer)
    return tokenizer


def _texts(seed: int, contexts: int) -> Iterator[str]:
    rng = Random(seed)
    pool = Pool(rng)
    for number in range(contexts):
        drawn = sample(rng, HARD if number % 2 else LONG)
        system, *chunks = drawn.context()
        # The fixed words are in every prompt: they must be cheap, but take no more of the vocabulary than they need.
        yield from chunks + ([system] if number % 4 == 0 else [])
        yield from (drawn.question(asked) + asked.reply for asked in drawn.asked[:3])
        for _ in range(12):
            word = pool.word() if number % 2 else rng.choice(common.WORDS)
            yield f" {word}" if rng.random() < 0.6 else word.capitalize()


def end_of(tokenizer: Tokenizer) -> int:
    """Return the id that ends an answer."""
    end = tokenizer.token_to_id(END)
    assert end is not None, "a tokenizer without an end"
    return end


def context_ids(tokenizer: Tokenizer, drawn: Sample) -> list[int]:
    """Return the ids of all segments before the question, each tokenised alone."""
    return [one for segment in drawn.context() for one in ids(tokenizer, segment)]


def block_ids(tokenizer: Tokenizer, drawn: Sample) -> list[list[int]]:
    """Return the ids of the system segment, then of each number line and each chunk, which are read in blocks."""
    system, chunks = ("", drawn.context()) if drawn.bare else (drawn.context()[0], drawn.context()[1:])
    apart = (chunk.partition("\n") for chunk in chunks)
    halves = [half for number, end, text in apart for half in (number + end, text)]
    return [ids(tokenizer, segment) for segment in (system, *halves)]


def ids(tokenizer: Tokenizer, text: str) -> list[int]:
    """Return the ids of a segment."""
    return list(tokenizer.encode(text, add_special_tokens=False).ids)
