"""The type checker of annotations in tests; it accepts an int as a float, as PEP 484 does."""

import beartype

_check = beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))


def checked(function):
    """Checks a function's arguments and result, except in `__init__`: settings check themselves."""
    return function if function.__name__ == "__init__" else _check(function)
