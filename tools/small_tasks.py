"""Five small tasks with planted errors, for trying a recipe for labelled responses.

Writes labelled.csv (grounding, response, label) of one task, in which half of the responses have an
error of one kind. All texts are made from the templates below.

    python tools/small_tasks.py numbers 150 --seed=0 --output=my_labels/labelled.csv
"""

import argparse
import csv
import pathlib
import random
from collections.abc import Callable
from typing import NamedTuple

THINGS = [
    "lamp",
    "kettle",
    "bicycle",
    "heater",
    "tent",
    "camera",
    "drill",
    "radio",
    "clock",
    "stove",
    "ladder",
    "pump",
]
COLOURS = ["red", "green", "blue", "grey", "white", "black", "yellow", "brown"]
NAMES = [
    "Ana",
    "Ben",
    "Carla",
    "Dov",
    "Emma",
    "Farid",
    "Greta",
    "Hugo",
    "Ines",
    "Jonas",
    "Karin",
    "Luis",
    "Mona",
    "Nils",
    "Olga",
    "Petr",
]
TOWNS = [
    "Cork",
    "Riga",
    "Turin",
    "Graz",
    "Lyon",
    "Porto",
    "Bergen",
    "Malaga",
    "Ghent",
    "Split",
    "Tampere",
    "Brno",
]
PLACES = ["park", "library", "pool", "museum", "garden", "station", "hall", "market"]
GUESTS = ["dogs", "children", "bicycles", "cameras", "visitors", "musicians", "groups", "scooters"]
JOBS = ["teacher", "baker", "doctor", "painter", "farmer", "pilot", "tailor", "driver"]


class Answer(NamedTuple):
    """A grounding with a supported and an unsupported response."""

    grounding: str
    supported: str
    unsupported: str


def _other(draw: random.Random, values: list[str], *excluded: str) -> str:
    return draw.choice([value for value in values if value not in excluded])


def numbers(draw: random.Random) -> Answer:
    """Draws an answer whose error is a wrong number."""
    product, weight, days = draw.choice(THINGS), draw.randint(2, 90), draw.randint(5, 60)
    wrong = draw.choice([n for n in range(2, 90) if n not in (weight, days)])
    grounding = (
        f"The {product} weighs {weight} kilograms. You may return it within {days} days. "
        f"It is made in {draw.choice(TOWNS)}."
    )

    def response(value: int) -> str:
        return (
            f"You can send the {product} back within {days} days. Its weight is {value} kilograms."
        )

    return Answer(grounding, response(weight), response(wrong))


def names(draw: random.Random) -> Answer:
    """Draws an answer whose error is a person or town that the grounding does not mention."""
    person, town, job = draw.choice(NAMES), draw.choice(TOWNS), draw.choice(JOBS)
    friend = _other(draw, NAMES, person)
    grounding = (
        f"{person} was born in {town} and works there as a {job}. "
        f"On Sundays {person} plays chess with {friend}."
    )

    def response(partner: str, place: str) -> str:
        return f"{person} is a {job} from {place} who plays chess with {partner}."

    if draw.random() < 0.5:
        wrong = response(_other(draw, NAMES, person, friend), town)
    else:
        wrong = response(friend, _other(draw, TOWNS, town))
    return Answer(grounding, response(friend, town), wrong)


def negations(draw: random.Random) -> Answer:
    """Draws an answer whose error turns a permission into a prohibition, or the reverse."""
    place, first = draw.choice(PLACES), draw.choice(GUESTS)
    second = _other(draw, GUESTS, first)
    grounding = (
        f"{first.capitalize()} are allowed in the {place}. "
        f"{second.capitalize()} are not allowed in the {place} of {draw.choice(TOWNS)} on any day."
    )
    if draw.random() < 0.5:
        right, wrong = f"{first} may be in", f"{first} may not be in"
    else:
        right, wrong = f"{second} may not be in", f"{second} may be in"
    return Answer(grounding, f"In short, {right} the {place}.", f"In short, {wrong} the {place}.")


def additions(draw: random.Random) -> Answer:
    """Draws an answer whose error is an additional sentence without support."""
    product, colour, town = draw.choice(THINGS), draw.choice(COLOURS), draw.choice(TOWNS)
    years, price = draw.randint(2, 9), draw.randint(10, 99)
    facts = [
        (f"The {product} comes in {colour}.", f"It comes in {colour}."),
        (f"Spare parts are sent from {town}.", f"We send spare parts from {town}."),
        (f"There is a guarantee of {years} years.", f"The guarantee lasts {years} years."),
        (f"It costs {price} euros.", f"The price is {price} euros."),
    ]
    draw.shuffle(facts)
    grounding = " ".join(fact for fact, _ in facts[:3])
    told_facts, added = [text for _, text in facts[:2]], facts[3][1]
    return Answer(grounding, " ".join(told_facts), " ".join([*told_facts, added]))


def roles(draw: random.Random) -> Answer:
    """Draws an answer whose error exchanges who does something to whom, in the same words."""
    giver, taker = draw.sample(NAMES, 2)
    product = draw.choice(THINGS)
    grounding = f"{giver} sold a {product} to {taker}. They met in {draw.choice(TOWNS)}."
    return Answer(
        grounding, f"{giver} sold {taker} the {product}.", f"{taker} sold {giver} the {product}."
    )


TASKS: dict[str, Callable[[random.Random], Answer]] = {
    task.__name__: task for task in (numbers, names, negations, additions, roles)
}


def labelled_rows(task: str, count: int, seed: int) -> list[dict[str, str | int]]:
    """Returns rows with different groundings; every second response is unsupported."""
    draw = random.Random(seed)
    answers: dict[str, Answer] = {}
    while len(answers) < count:
        answer = TASKS[task](draw)
        answers.setdefault(answer.grounding, answer)
    return [
        {
            "grounding": answer.grounding,
            "response": answer.unsupported if number % 2 else answer.supported,
            "label": 1 - number % 2,
        }
        for number, answer in enumerate(answers.values())
    ]


def main() -> None:
    """Writes the table of a task."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("rows", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    rows = labelled_rows(arguments.task, arguments.rows, arguments.seed)
    with arguments.output.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
