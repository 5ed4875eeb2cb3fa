"""What checks annotations in tests: an int will do for a float, as PEP 484 has it."""

import beartype

checked = beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))
