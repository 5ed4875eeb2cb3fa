"""All corpora of TRUE by name, in the order of its tables."""

from faith_jax.datasets.raw.true.dialogue import BEGIN, DIALFACT, Q2
from faith_jax.datasets.raw.true.summarization import FRANK, MNBM, QAGS_C, QAGS_X, SUMMEVAL
from faith_jax.datasets.raw.true.verification import FEVER, PAWS, VITAMINC

CORPORA = {
    "frank": FRANK,
    "mnbm": MNBM,
    "summeval": SUMMEVAL,
    "qags_c": QAGS_C,
    "qags_x": QAGS_X,
    "begin": BEGIN,
    "q2": Q2,
    "dialfact": DIALFACT,
    "paws": PAWS,
    "fever": FEVER,
    "vitaminc": VITAMINC,
}
# TRUE's averages leave out what many models were trained on.
AVERAGED = tuple(name for name in CORPORA if name not in ("fever", "vitaminc"))
