"""What checks annotations in tests: an int will do for a float, as PEP 484 has it."""

import beartype

_check = beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))


def checked(function):
    """Checks a function's arguments and result; not a dataclass's: settings check themselves."""
    return function if function.__name__ == "__init__" else _check(function)
