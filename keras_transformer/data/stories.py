"""Stories with a question each: small tasks of reasoning, drawn from a seed.

Five kinds of task in the manner of bAbI, by its numbers: one supporting fact (1), two
supporting facts (2), two-argument relations (4), basic deduction (15), basic induction
(16). The sentences are made here; nothing is taken from that data set. Every question
has one right answer, which is one word.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from keras_transformer.errors import InputError

__all__ = ["TASKS", "VOCABULARY", "Story", "encode", "tell"]

PEOPLE = ("anna", "ben", "clara", "david")
PLACES = ("bathroom", "bedroom", "garden", "hallway", "kitchen", "office")
THINGS = ("apple", "ball", "milk")
DIRECTIONS = ("east", "north", "south", "west")
SPECIES = ("cat", "mouse", "sheep", "wolf")
NAMES = ("bella", "felix", "greta", "julius", "lily", "max")
COLORS = ("gray", "green", "white", "yellow")


class Story(NamedTuple):
    """Sentences, a question and its answer, in words.

    Args:
        sentences: in the order in which they happen.
        question: about them.
        answer: one word.
        facts: the places in `sentences` of those that the answer follows from.
    """

    sentences: tuple[str, ...]
    question: str
    answer: str
    facts: tuple[int, ...]


def tell(task: int, count: int, seed: int = 0) -> list[Story]:
    """Stories of one kind of task, no two of them alike.

    Args:
        task: 1, 2, 4, 15 or 16.
        count: how many.
        seed: the same number gives the same stories.

    Raises:
        InputError: there is no such task, or there are not so many stories of it.

    Example:

    >>> from keras_transformer.data import stories
    >>> story = stories.tell(4, 1, seed=1)[0]
    >>> for sentence in story.sentences:
    ...     print(sentence)
    the bedroom is south of the kitchen
    the kitchen is south of the bathroom
    >>> story.question, story.answer
    ('what is the kitchen south of', 'bathroom')

    Reference: Weston et al., 2015, https://arxiv.org/abs/1502.05698.
    """
    if task not in TASKS:
        raise InputError(
            f"there are no stories for task {task}; use one of "
            f"{', '.join(map(str, TASKS))}"
        )
    draw = random.Random(seed)
    told: dict[Story, None] = {}  # a set in the order of telling
    repeats = 0
    while len(told) < count:
        before = len(told)
        told[TASKS[task](draw)] = None
        repeats = repeats + 1 if len(told) == before else 0
        if repeats == 1000:
            raise InputError(
                f"task {task} has hardly more than {before} stories, {count} are asked "
                f"for; ask for fewer"
            )
    return list(told)


def encode(
    stories: Sequence[Story], max_sentences: int, max_words: int = 7
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Stories as ids, the places of words in `VOCABULARY`; 0 fills up.

    Args:
        stories: of any tasks.
        max_sentences: S.
        max_words: J.

    Returns:
        `{"story": (N, S, J), "question": (N, J)}` and the answers (N,), int32.

    Raises:
        InputError: a story has more sentences, or a sentence more words.
    """
    ids = {word: index for index, word in enumerate(VOCABULARY)}
    story = np.zeros((len(stories), max_sentences, max_words), "int32")
    question = np.zeros((len(stories), max_words), "int32")
    for number, its in enumerate(stories):
        longest = max(len(text.split()) for text in (*its.sentences, its.question))
        if len(its.sentences) > max_sentences or longest > max_words:
            raise InputError(
                f"story {number} has {len(its.sentences)} sentences of up to {longest} "
                f"words, but there is room for {max_sentences} of {max_words}; give "
                f"larger max_sentences and max_words"
            )
        for row, text in zip(story[number], its.sentences, strict=False):
            row[: len(text.split())] = [ids[word] for word in text.split()]
        words = its.question.split()
        question[number, : len(words)] = [ids[word] for word in words]
    answers = np.array([ids[its.answer] for its in stories], "int32")
    return {"story": story, "question": question}, answers


def _one_fact(draw: random.Random) -> Story:
    """Where somebody is, who has gone from place to place."""
    sentences: list[str] = []
    last: dict[str, tuple[int, str]] = {}
    for index in range(draw.randint(2, 8)):
        person = draw.choice(PEOPLE)
        last[person] = index, draw.choice(PLACES)
        sentences.append(f"{person} went to the {last[person][1]}")
    person = draw.choice(sorted(last))
    fact, place = last[person]
    return Story(tuple(sentences), f"where is {person}", place, (fact,))


def _two_facts(draw: random.Random) -> Story:
    """Where a thing is, which somebody has taken along, and perhaps left behind."""
    sentences: list[str] = []
    people: dict[str, tuple[int, str]] = {}  # the last going of each, and where to
    things: dict[str, tuple[tuple[int, int], str]] = {}  # the facts, and the place
    holders: dict[str, str] = {}
    for index in range(draw.randint(6, 12)):
        person, thing = draw.choice(PEOPLE), draw.choice(THINGS)
        going, here = people.get(person, (index, ""))
        has = holders.get(thing) == person
        sees = thing not in holders and things.get(thing, ((), here))[1] == here
        if not here or not (has or sees) or draw.random() < 0.5:
            people[person] = index, draw.choice(PLACES)
            sentences.append(f"{person} went to the {people[person][1]}")
            for held in (held for held in holders if holders[held] == person):
                (_, taking), _ = things[held]
                things[held] = (index, taking), people[person][1]
            continue
        sentences.append(f"{person} {'dropped' if has else 'took'} the {thing}")
        things[thing] = (going, index), here
        if has:
            del holders[thing]
        else:
            holders[thing] = person
    if not things:
        return _two_facts(draw)
    thing = draw.choice(sorted(things))
    facts, place = things[thing]
    return Story(tuple(sentences), f"where is the {thing}", place, tuple(sorted(facts)))


def _relations(draw: random.Random) -> Story:
    """What is on one side of a place that has a neighbour on each of two sides."""
    first, middle, last = draw.sample(PLACES, 3)
    direction = draw.choice(DIRECTIONS)
    order = draw.sample(range(2), 2)
    sentences = [
        f"the {first} is {direction} of the {middle}",
        f"the {middle} is {direction} of the {last}",
    ]
    place = draw.randrange(2)
    question = (
        f"what is {direction} of the {middle}",
        f"what is the {middle} {direction} of",
    )[place]
    return Story(
        tuple(sentences[index] for index in order),
        question,
        (first, last)[place],
        (order.index(place),),
    )


def _deduction(draw: random.Random) -> Story:
    """Whom an animal is afraid of, for all of its species are."""
    enemies = {s: draw.choice([e for e in SPECIES if e != s]) for s in SPECIES}
    names = draw.sample(NAMES, 4)
    species = {name: draw.choice(SPECIES) for name in names}
    rules = [f"every {its} is afraid of the {enemies[its]}" for its in SPECIES]
    members = [f"{name} is a {species[name]}" for name in names]
    sentences = _shuffled(draw, rules + members)
    name = draw.choice(names)
    rule, member = rules[SPECIES.index(species[name])], members[names.index(name)]
    return Story(
        sentences,
        f"what is {name} afraid of",
        enemies[species[name]],
        tuple(sorted(sentences.index(text) for text in (rule, member))),
    )


def _induction(draw: random.Random) -> Story:
    """The color of an animal, of whose species one has a color that was told."""
    names = draw.sample(NAMES, 5)
    asked, alike, *others = names
    species = {name: draw.choice(SPECIES) for name in names}
    species[asked] = species[alike]
    colors = {its: draw.choice(COLORS) for its in SPECIES}  # all of a species have one
    of_species = {name: f"{name} is a {species[name]}" for name in names}
    of_color = {n: f"{n} is {colors[species[n]]}" for n in (alike, *others)}
    sentences = _shuffled(draw, [*of_species.values(), *of_color.values()])
    facts = (of_species[asked], of_species[alike], of_color[alike])
    return Story(
        sentences,
        f"what color is {asked}",
        colors[species[asked]],
        tuple(sorted(sentences.index(text) for text in facts)),
    )


def _shuffled(draw: random.Random, sentences: list[str]) -> tuple[str, ...]:
    return tuple(draw.sample(sentences, len(sentences)))


#: The number of a kind of task -> what tells a story of it.
TASKS: dict[int, Callable[[random.Random], Story]] = {
    1: _one_fact,
    2: _two_facts,
    4: _relations,
    15: _deduction,
    16: _induction,
}
OTHERS = (
    *("a", "afraid", "color", "dropped", "every", "is", "of", "the", "to", "took"),
    *("went", "what", "where"),
)
#: All words of all tasks, each at the place that is its id; 0 is no word.
VOCABULARY = (
    "",
    *OTHERS,
    *PEOPLE,
    *PLACES,
    *THINGS,
    *DIRECTIONS,
    *SPECIES,
    *NAMES,
    *COLORS,
)
