"""Lines that are logged once, however often the parsed gin files lead to them."""

import logging

logger = logging.getLogger("faith_jax")

_logged: set[str] = set()


def log_once(line: str) -> None:
    """Logs a line, unless it has been logged since `forget_lines`."""
    if line not in _logged:
        _logged.add(line)
        logger.info("%s", line)


def forget_lines() -> None:
    """Forgets the logged lines, before other gin files are parsed."""
    _logged.clear()
