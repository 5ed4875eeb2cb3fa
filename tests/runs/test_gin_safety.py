"""What gin files may name, and macros that nothing reads."""

import pytest

from faith_jax.core.errors import ConfigError
from faith_jax.runs import gin_config

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
        ("import faith_jax_evil\n", "imports faith_jax_evil."),
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
    named = r"@faith_jax\.core\.files\.whole\.os\.getcwd is in posix"
    with pytest.raises(ConfigError, match=named):
        parse(text)
    parse(text, allow=("posix",))
    nested = text.replace("@whole.os.getcwd()", "{'a': [@whole.os.getcwd()]}")
    with pytest.raises(ConfigError, match="is in posix"):
        parse(nested)


def test_a_binding_imports_nothing(parse):
    with pytest.raises(ConfigError, match="imports os"):
        parse(f"{BOUND}CHECKPOINT_PATH = 'a'\n", "INPUT_FILE='b'\nimport os")


def test_an_allowed_module_is_imported(parse):
    text = f"{HEAD}import statistics\n{BOUND}CHECKPOINT_PATH = @statistics.mean\n"
    parse(text, allow=("statistics",))


def test_a_macro_that_nothing_reads_is_an_error(parse):
    text = f"{BOUND}CHECKPOINT_PATH = 'a'\n"
    parse(text)
    told = r"mine\.gin: nothing reads the macro BACTH_SIZE\. Did you mean 'BATCH_SIZE'"
    with pytest.raises(ConfigError, match=told):
        parse(f"{text}BACTH_SIZE = 8\n")
    parse(f"{text}OWN = 8\nBATCH_SIZE = %OWN\n")
