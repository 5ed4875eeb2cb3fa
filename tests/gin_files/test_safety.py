"""Names that gin files may use, and macros that nothing reads."""

import pytest

from faith_jax.core.errors import ConfigError
from faith_jax.gin_files import config as gin_config

HEAD = "from __gin__ import dynamic_registration\n"
BOUND = "include 'runs/infer_file.gin'\nINPUT_FILE = 'rows.jsonl'\nINFER_OUTPUT_DIR = 'out'\n"


@pytest.fixture
def parse(tmp_path):
    def run(text, *bindings, allow=()):
        path = tmp_path / "mine.gin"
        path.write_text(text)
        gin_config.parse([str(path)], bindings, allow=allow)

    return run


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import subprocess\n", "mine.gin: imports subprocess. A gin file can run what it names"),
        ("from os import path\n", "imports os."),
        ("  import  os.path as p\n", "imports os.path."),
    ],
)
def test_other_modules_are_not_imported(parse, text, told):
    with pytest.raises(ConfigError) as error:
        parse(f"{HEAD}{text}{BOUND}CHECKPOINT_PATH = 'a'\n")
    assert told in str(error.value)
    assert "if you trust this one, add --gin_allow=" in str(error.value)


def test_what_counts_is_where_a_function_was_defined(parse):
    text = f"{HEAD}from faith_jax.core.files import whole\n{BOUND}"
    text += "CHECKPOINT_PATH = @whole.os.getcwd()\n"
    named = r"@faith_jax\.core\.files\.whole\.os\.getcwd is posix\.getcwd\."
    with pytest.raises(ConfigError, match=named):
        parse(text)
    parse(text, allow=("posix",))
    nested = text.replace("@whole.os.getcwd()", "{'a': [@whole.os.getcwd()]}")
    with pytest.raises(ConfigError, match=r"is posix\.getcwd"):
        parse(nested)


def test_a_binding_imports_nothing(parse):
    with pytest.raises(ConfigError, match="imports os"):
        parse(f"{BOUND}CHECKPOINT_PATH = 'a'\n", "INPUT_FILE='b'\nimport os")


@pytest.mark.parametrize(
    ("imported", "value", "named"),
    [
        ("from faith_jax.core.files import whole", "{@whole.os.getcwd(): 'mini'}", "posix.getcwd"),
        ("from faith_jax.core.files import whole", "@whole.write_text()", "whole.write_text"),
        ("from jax import numpy", "@numpy.load()", "jax.numpy.load"),
        ("from faith_jax.runs import convert", "@convert.import_checkpoint()", "convert."),
        ("from faith_jax.training import optimizers", "@optimizers.functools.partial()", "partial"),
    ],
)
def test_only_what_is_listed_is_called(parse, imported, value, named):
    text = f"{HEAD}{imported}\n{BOUND}"
    for macro in ("CHECKPOINT_PATH = {}\n", "OTHER = {}\nCHECKPOINT_PATH = %OTHER\n"):
        with pytest.raises(ConfigError, match=f"{named}.* if you trust this one, add --gin_allow="):
            parse(text + macro.format(value))


@pytest.mark.parametrize(
    "text",
    [
        "import \\\nsubprocess\n",
        "A = 1; import subprocess\n",
        "import subprocess as optax\n",
        "A = (1,\n  2)\nimport subprocess\nB = (1)\n",
    ],
)
def test_imports_are_read_in_tokens(parse, text):
    with pytest.raises(ConfigError, match=r"imports (optax,)?(subprocess|os)"):
        parse(f"{HEAD}{text}{BOUND}CHECKPOINT_PATH = 'a'\n")


def test_a_function_may_be_allowed_by_its_name(parse):
    text = f"{HEAD}from jax import numpy\n{BOUND}CHECKPOINT_PATH = @numpy.load\n"
    parse(text, allow=("jax.numpy.load",))
    with pytest.raises(ConfigError, match=r"jax\.numpy\.load"):
        parse(text, allow=("jax.numpy.loadtxt",))


@pytest.mark.parametrize(
    ("macros", "shown"),
    [
        ("A = %B\nB = %A\n", "%A -> %B -> %A"),
        ("A = [%B, (1, {'x': %C})]\nB = 1\nC = {%A: 1}\n", "%A -> %C -> %A"),
        ("A = %A\n", "%A -> %A"),
    ],
)
def test_macros_that_lead_to_themselves(parse, macros, shown):
    with pytest.raises(ConfigError, match=f"the macro A is given by itself: {shown}"):
        parse(f"{HEAD}{BOUND}CHECKPOINT_PATH = %A\n{macros}")


def test_macros_that_end(parse):
    parse(f"{HEAD}{BOUND}CHECKPOINT_PATH = %A\nA = [%B, %C]\nB = %C\nC = 1\n")


def test_what_a_module_lacks_is_one_line(parse):
    with pytest.raises(ConfigError, match=r"errors\.nosuch"):
        parse(
            f"{HEAD}from faith_jax.core import errors\n{BOUND}CHECKPOINT_PATH = @errors.nosuch()\n"
        )


def test_all_that_recipes_name_is_listed(parse):
    """Other tests parse all recipes; these are other names that users need."""
    parse(
        f"{HEAD}import optax\nfrom flax import linen\nfrom jax import nn\nfrom jax import numpy\n"
        f"import seqio\n{BOUND}CHECKPOINT_PATH = (@optax.adamw, @linen.gelu, @nn.relu, "
        "@numpy.bfloat16, @seqio.SentencePieceVocabulary, @seqio.mixing_rate_num_examples)\n"
    )


def test_an_allowed_module_is_imported(parse):
    text = f"{HEAD}import statistics\n{BOUND}CHECKPOINT_PATH = @statistics.mean\n"
    parse(text, allow=("statistics",))


def test_a_macro_that_nothing_reads_is_an_error(parse):
    text = f"{BOUND}CHECKPOINT_PATH = 'a'\n"
    parse(text)
    message = r"mine\.gin: nothing reads the macro BACTH_SIZE\. Did you mean 'BATCH_SIZE'"
    with pytest.raises(ConfigError, match=message):
        parse(f"{text}BACTH_SIZE = 8\n")
    with pytest.raises(ConfigError, match=r"macro batch_size\. Did you mean 'BATCH_SIZE'"):
        parse(f"{text}batch_size = 8\n")
    parse(f"{text}OWN = 8\nBATCH_SIZE = %OWN\n")
    parse(f"{text}own = 8\nBATCH_SIZE = %own\n")
