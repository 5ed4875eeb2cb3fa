"""Joins the encoder of one encoder-decoder with the decoder of another of the same dimensions.

    python tools/join_checkpoints.py --encoder=runs/a --decoder=runs/b --output=joined

The shared token embedding comes from the first model, the output layer from the second. The output
is a folder in Hugging Face format, with the tokenizer of the second.
"""

import argparse
import dataclasses
import pathlib
import shutil
import sys

from faith_jax.checkpoints.checkpoint import Checkpoint, flatten, unflatten
from faith_jax.checkpoints.embedded import checkpoint_path
from faith_jax.checkpoints.hugging_face.folder import write_huggingface
from faith_jax.checkpoints.open import open_checkpoint
from faith_jax.core.errors import ConfigError, FaithJaxError
from faith_jax.tokenizers.vocabularies import find_tokenizer_file


def main(arguments: list[str] | None = None) -> int:
    """Runs the tool; returns its exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("encoder", "decoder"):
        parser.add_argument(f"--{name}", required=True, metavar="FOLDER", help=f"whose {name}")
    parser.add_argument("--output", required=True, type=pathlib.Path, metavar="FOLDER")
    options = parser.parse_args(arguments)
    try:
        if options.output.exists():
            raise ConfigError(f"{options.output}: exists; give another --output.")
        joined_params = joined(open_checkpoint(options.encoder), open_checkpoint(options.decoder))
        tokenizer = find_tokenizer_file(checkpoint_path(options.decoder))
        write_huggingface(joined_params, options.output)
        if tokenizer is not None:
            shutil.copy(tokenizer, options.output)
    except FaithJaxError as error:
        print(f"join_checkpoints.py: {error}", file=sys.stderr)
        return 2
    print(options.output)
    return 0


def joined(first: Checkpoint, second: Checkpoint) -> Checkpoint:
    """Returns the second checkpoint with the first one's encoder and token embedding.

    Raises:
      ConfigError: the dimensions of the two differ.
    """
    first_params, second_params = flatten(first.params), flatten(second.params)
    shapes = [
        {name: array.shape for name, array in flat.items()}
        for flat in (first_params, second_params)
    ]
    if shapes[0] != shapes[1]:
        differ = sorted(set(shapes[0].items()) ^ set(shapes[1].items()))
        raise ConfigError(f"The checkpoints' parameters differ, such as {differ[0][0]}.")
    params = {
        name: array if name.startswith("decoder/") else first_params[name]
        for name, array in second_params.items()
    }
    return dataclasses.replace(second, params=unflatten(params))


if __name__ == "__main__":
    sys.exit(main())
