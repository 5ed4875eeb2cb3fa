"""ProCon's topics: their leading questions in our words, and the splits of Chang 2024.

The pages as scraped hold no question. `leading_question` finds one by the page's title; titles
are matched with case, punctuation, plural s and small words set aside, and by other names that
ProCon has used. A question is put so that the pro side answers yes, where ProCon's has not
changed sides over the years.

Reference: Chang 2024, table 4 (72 topics of October 2022), for the splits and their names.
"""

import hashlib
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from faith_jax.data.npov import SPLITS
from faith_jax.errors import InputError


class KnownTopic(NamedTuple):
    """A topic of ProCon: its name, its question in our words, other names it has had."""

    name: str
    question: str
    other_names: tuple[str, ...] = ()


_TRAIN = (
    KnownTopic("Animal Dissection", "Should animals be dissected in school lessons?"),
    KnownTopic(
        "Concealed Handguns",
        "Should adults have the right to carry a concealed handgun?",
        ("Concealed Guns", "Concealed Carry", "Concealed Weapons", "Right to Carry"),
    ),
    KnownTopic("Cuba Embargo", "Should the United States keep up its embargo against Cuba?"),
    KnownTopic("Filibuster", "Should the US Senate hold on to the filibuster?"),
    KnownTopic(
        "Free College",
        "Should students at public colleges pay no tuition?",
        ("Tuition-Free College", "Free College Tuition"),
    ),
    KnownTopic(
        "GMOs (Genetically Modified Organisms)",
        "Should genetically modified crops be grown for food?",
        ("GMOs", "Genetically Modified Organisms", "Genetically Modified Food"),
    ),
    KnownTopic("Net Neutrality", "Should net neutrality be guaranteed by law?"),
    KnownTopic("Obesity", "Should obesity be regarded as a disease?"),
    KnownTopic(
        "Vaping E-Cigarettes",
        "Is vaping a safe alternative to smoking?",
        ("Vaping", "E-Cigarettes"),
    ),
)
_VALIDATION = (
    KnownTopic("Binge-Watching", "Does binge-watching do people good?"),
    KnownTopic("Cancel Culture", "Is cancel culture good for society?", ("Callout Culture",)),
    KnownTopic(
        "Churches and Taxes",
        "Should churches stay exempt from taxes?",
        ("Churches", "Tax-Exempt Churches", "Church Taxes"),
    ),
    KnownTopic("College Education", "Is going to college worth it?", ("College",)),
    KnownTopic("Corporal Punishment", "Should schools be allowed to use corporal punishment?"),
    KnownTopic("Daylight Saving Time", "Should clocks go on changing for daylight saving time?"),
    KnownTopic("Dress Codes", "Should schools enforce dress codes?", ("School Dress Codes",)),
    KnownTopic("Electoral College", "Should the Electoral College decide who becomes president?"),
    KnownTopic(
        "Employer Vaccine Mandates",
        "Should employers be allowed to require vaccination?",
        ("Vaccine Mandates",),
    ),
    KnownTopic("Fighting in Hockey", "Should fights be allowed in ice hockey?"),
    KnownTopic("Golf", "Is golf a real sport?"),
    KnownTopic("Homework", "Does homework benefit students?"),
    KnownTopic(
        "Kneeling during National Anthem",
        "Is kneeling during the national anthem a fitting form of protest?",
        ("National Anthem Protest", "Taking a Knee"),
    ),
    KnownTopic("Marijuana (CBD) for Pets", "Is CBD good for pets?", ("CBD for Pets",)),
    KnownTopic("Olympics", "Do the Olympic Games benefit their host cities?", ("Olympic Games",)),
    KnownTopic("Penny", "Should the US penny stay in use?", ("Keep the Penny",)),
    KnownTopic("Pit Bull Bans", "Should pit bulls be banned?", ("Pit Bulls",)),
    KnownTopic("Pokémon", "Is Pokémon good for children?", ("Pokemon", "Pokémon Go")),
    KnownTopic("School Vouchers", "Are school vouchers a good idea?"),
    KnownTopic("Space Colonization", "Should humans settle in space?"),
    KnownTopic(
        "Standardized Tests",
        "Do standardized tests make education better?",
        ("Standardized Testing",),
    ),
    KnownTopic(
        "Student Loan Debt",
        "Should student loan debt be forgiven or easier to discharge?",
        ("Student Loans", "Student Debt"),
    ),
    KnownTopic(
        "Tablets vs. Textbooks",
        "Should tablets replace printed textbooks in schools?",
        ("Textbooks vs. Tablets", "Tablets", "Textbook Tablets"),
    ),
    KnownTopic("Teacher Tenure", "Should teachers be given tenure?"),
    KnownTopic(
        "Uber & Lyft",
        "Are ride-hailing services good for society?",
        ("Ride-Hailing", "Ride-Sharing", "Uber, Lyft and Ride-Sharing"),
    ),
    KnownTopic(
        "US Supreme Court Packing",
        "Should seats be added to the US Supreme Court?",
        ("Supreme Court Packing", "Court Packing"),
    ),
    KnownTopic(
        "Video Games and Violence",
        "Do violent video games make young people more violent?",
        ("Video Games", "Violent Video Games"),
    ),
    KnownTopic("Zoos", "Should zoos exist?"),
)
_TEST = (
    KnownTopic("Abortion", "Should abortion be allowed by law?"),
    KnownTopic("American Socialism", "Should the United States become socialist?", ("Socialism",)),
    KnownTopic("Animal Testing", "Should animals be used to test drugs and products?"),
    KnownTopic("Artificial Intelligence", "Is artificial intelligence good for society?", ("AI",)),
    KnownTopic(
        "Banned Books", "Should books be banned from schools and libraries?", ("Book Bans",)
    ),
    KnownTopic("Bottled Water Ban", "Should bottled water be banned?", ("Bottled Water",)),
    KnownTopic(
        "Cell Phone Radiation",
        "Is the radiation of cell phones harmless?",
        ("Cell Phones", "Cell Phone Safety"),
    ),
    KnownTopic(
        "Climate Change",
        "Are humans the main cause of climate change?",
        ("Global Warming", "Global Climate Change"),
    ),
    KnownTopic(
        "Corporate Tax Rate",
        "What are the arguments for and against changing the corporate tax rate?",
        ("Corporate Taxes", "Corporate Tax Rate and Jobs"),
    ),
    KnownTopic(
        "DACA & Dreamers",
        "Should immigrants who came as children get legal status?",
        ("DACA", "Dreamers"),
    ),
    KnownTopic(
        "DC and Puerto Rico Statehood",
        "Should Washington, DC, and Puerto Rico become states?",
        ("Puerto Rico Statehood", "DC Statehood", "Statehood"),
    ),
    KnownTopic("Defund the Police", "Should money be moved from the police to other services?"),
    KnownTopic(
        "Drone Strikes Overseas",
        "Should the United States carry out drone strikes abroad?",
        ("Drones", "Drone Strikes", "Drone Strikes Abroad"),
    ),
    KnownTopic("Fracking", "Should natural gas be extracted by fracking?", ("Natural Gas",)),
    KnownTopic("Gold Standard", "Should the United States return to the gold standard?"),
    KnownTopic("Gun Control", "Should there be more gun control laws?", ("Guns", "Gun Laws")),
    KnownTopic(
        "Historic Statue Removal",
        "Should historic statues be taken down?",
        ("Historic Statues", "Confederate Statues", "Statue Removal"),
    ),
    KnownTopic("Mandatory National Service", "Should young adults have to do national service?"),
    KnownTopic("Minimum Wage", "Should the federal minimum wage go up?"),
    KnownTopic(
        "OTC Birth Control",
        "Should birth control pills be sold without a prescription?",
        ("Over-the-Counter Birth Control", "Birth Control"),
    ),
    KnownTopic(
        "Paying College Athletes",
        "Should college athletes be paid?",
        ("College Athletes", "Paying Student Athletes"),
    ),
    KnownTopic("Police Body Cameras", "Should police officers wear body cameras?"),
    KnownTopic(
        "Prescription Drug Costs",
        "Should the government limit the prices of prescription drugs?",
        ("Prescription Drug Prices", "Drug Prices"),
    ),
    KnownTopic("Private Prisons", "Should prisons be run by private companies?", ("Prisons",)),
    KnownTopic(
        "Recreational Marijuana Legalization",
        "Should marijuana be legal for recreational use?",
        ("Recreational Marijuana", "Marijuana Legalization"),
    ),
    KnownTopic(
        "Reparations for Slavery",
        "Should reparations be paid for slavery?",
        ("Reparations", "Slavery Reparations"),
    ),
    KnownTopic(
        "Right to Health Care",
        "Should everyone have a right to health care?",
        ("Health Care", "Right to Healthcare", "Universal Health Care"),
    ),
    KnownTopic("Sanctuary Cities", "Should sanctuary cities receive federal money?"),
    KnownTopic("Saturday Halloween", "Should Halloween always fall on a Saturday?", ("Halloween",)),
    KnownTopic("School Uniforms", "Should students have to wear school uniforms?"),
    KnownTopic(
        "Social Media",
        "Is social media good for society?",
        ("Social Networking", "Social Networks", "Social Networking Sites"),
    ),
    KnownTopic(
        "Social Security Privatization",
        "Should Social Security be privatized?",
        ("Social Security",),
    ),
    KnownTopic("Universal Basic Income", "Should everyone receive a basic income?", ("UBI",)),
    KnownTopic(
        "Vaccines for Kids",
        "Should vaccinations be required for children?",
        ("Vaccines", "Childhood Vaccines", "Vaccinations", "Vaccinations for Kids"),
    ),
    KnownTopic(
        "Vegetarianism", "Should people become vegetarian?", ("Vegetarian", "Vegetarian Diet")
    ),
)
# Topics that ProCon has retired or added, for their questions alone.
_OTHERS = (
    KnownTopic(
        "Alternative Energy",
        "Can alternative energy replace fossil fuels?",
        ("Alternative Energy vs. Fossil Fuels",),
    ),
    KnownTopic("Big Three Auto Bailout", "Was it right to bail out the US car makers?"),
    KnownTopic(
        "Cell Phones in School", "Should students use phones in school?", ("School Phones",)
    ),
    KnownTopic("Death Penalty", "Should the death penalty be allowed?", ("Capital Punishment",)),
    KnownTopic("Drinking Age", "Should the drinking age be lowered?", ("Lower Drinking Age",)),
    KnownTopic(
        "Drug Use in Sports",
        "Should athletes be allowed to use performance-enhancing drugs?",
        ("Sports and Drugs", "Performance Enhancing Drugs in Sports"),
    ),
    KnownTopic("Euthanasia", "Should euthanasia or assisted suicide be legal?"),
    KnownTopic("Felon Voting", "Should people convicted of a felony be allowed to vote?"),
    KnownTopic(
        "Gay Marriage", "Should same-sex couples be allowed to marry?", ("Same-Sex Marriage",)
    ),
    KnownTopic(
        "Illegal Immigration",
        "Should illegal immigrants be given a way to become citizens?",
        ("Immigration",),
    ),
    KnownTopic(
        "Insider Trading by Congress", "Should members of Congress be free to trade shares?"
    ),
    KnownTopic("Lowering the Voting Age", "Should the voting age be lowered?", ("Voting Age",)),
    KnownTopic("Medical Marijuana", "Should marijuana be available as a medicine?"),
    KnownTopic("Milk", "Is drinking milk healthy?"),
    KnownTopic(
        "Obamacare", "Is the Affordable Care Act good for America?", ("Affordable Care Act",)
    ),
    KnownTopic("Plastic Bag Ban", "Should plastic bags be banned?", ("Plastic Bags",)),
    KnownTopic("Prescription Drug Ads", "Should prescription drugs be advertised to consumers?"),
    KnownTopic("Prostitution", "Should prostitution be legal?"),
    KnownTopic(
        "Under God in the Pledge", "Should the Pledge of Allegiance keep the words 'under God'?"
    ),
    KnownTopic("Voting Machines", "Do electronic voting machines improve elections?"),
)

CHANG2024 = {"train": _TRAIN, "validation": _VALIDATION, "test": _TEST}

_SMALL_WORDS = frozenset(
    ["a", "an", "and", "in", "of", "the", "vs", "versus", "us", "united", "states"]
)


def _key(title: str) -> frozenset[str]:
    """Returns what two titles must share to be the same: their words without small ones."""
    text = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    words = re.findall(r"[a-z0-9]+", text)
    content = [word for word in words if word not in _SMALL_WORDS] or words
    return frozenset(
        word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
        for word in content
    )


def _index(topics: Sequence[KnownTopic]) -> dict[frozenset[str], KnownTopic]:
    return {_key(name): topic for topic in topics for name in (topic.name, *topic.other_names)}


_KNOWN = _index((*_OTHERS, *_TRAIN, *_VALIDATION, *_TEST))
_SPLIT_OF = {topic.name: split for split, topics in CHANG2024.items() for topic in topics}


def known_topic(title: str) -> KnownTopic | None:
    """Returns the topic of ProCon that a page's title names, or None."""
    return _KNOWN.get(_key(title))


def chang2024_split(title: str) -> str | None:
    """Returns the split that Chang 2024 puts a topic in, by a page's title, or None."""
    topic = known_topic(title)
    return _SPLIT_OF.get(topic.name) if topic else None


def leading_question(
    title: str, questions: Mapping[str, str] | None = None, on_page: str = ""
) -> str:
    """Returns a topic's leading question.

    Args:
      title: the page's title.
      questions: questions by title, which go before all others.
      on_page: the question that the page holds; empty where it holds none.

    Returns:
      The given question, else the page's, else the built-in one, else a neutral one made from
      the title.
    """
    given = {_key(name): question for name, question in (questions or {}).items()}
    if _key(title) in given:
        return given[_key(title)]
    if on_page:
        return on_page
    topic = known_topic(title)
    return topic.question if topic else f"What are the arguments for and against {title}?"


def proportional_splits(ids: Sequence[str], seed: int = 0) -> dict[str, str]:
    """Returns a split for each topic id: a fifth validation, a fifth test, the rest train.

    The draw depends on the ids and the seed alone, not on their order. Each split gets at least
    one topic.

    Raises:
      InputError: for fewer than three topics.
    """
    if len(ids) < len(SPLITS):
        raise InputError(
            f"Expected at least {len(SPLITS)} topics, one for each of {', '.join(SPLITS)}, got "
            f"{len(ids)}: add pages."
        )
    drawn = sorted(ids, key=lambda i: hashlib.sha256(f"{seed}\n{i}".encode()).digest())
    fifth = max(1, round(len(ids) / 5))
    return {
        topic_id: "validation" if rank < fifth else "test" if rank < 2 * fifth else "train"
        for rank, topic_id in enumerate(drawn)
    }


def assign_splits(
    titles: Mapping[str, str], mode: str = "auto", seed: int = 0
) -> tuple[dict[str, str], str]:
    """Returns each topic's split, and which assignment was taken and why.

    Args:
      titles: title by topic id.
      mode: "chang2024" (all topics must be among that paper's), "proportional", or "auto":
        the paper's where it knows all topics and leaves no split empty, else proportional.
      seed: of the proportional draw.

    Raises:
      InputError: for "chang2024" with topics that the paper does not have; for a proportional
        split of fewer than three topics.
    """
    paper = {topic_id: chang2024_split(title) for topic_id, title in titles.items()}
    unknown = [titles[topic_id] for topic_id, split in paper.items() if split is None]
    empty = [split for split in SPLITS if split not in paper.values()]
    if mode == "chang2024" and unknown:
        raise InputError(
            f"Chang 2024 (table 4) has no topic {' and none '.join(map(repr, unknown[:5]))}: "
            "use --split proportional."
        )
    if mode == "chang2024" or (mode == "auto" and not unknown and not empty):
        why = f"chang2024 (table 4 of the paper){', which leaves ' if empty else ''}"
        why += f"{' and '.join(empty)} empty" if empty else ""
        return {topic_id: split for topic_id, split in paper.items() if split}, why
    reason = ""
    if mode == "auto" and unknown:
        reason = f", since Chang 2024 does not have {len(unknown)} of the topics ({unknown[0]} ...)"
    elif mode == "auto":
        reason = f", since Chang 2024's split would leave {' and '.join(empty)} empty"
    return proportional_splits(list(titles), seed), f"proportional (seed {seed}){reason}"
