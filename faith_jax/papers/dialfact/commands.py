"""The command that makes claims to train DialFact's verifiers on: mutate-claims."""

from faith_jax.core.heavy_imports import quiet_tensorflow
from faith_jax.papers.dialfact.options import MutateClaimsOptions


class MutateClaims(MutateClaimsOptions):
    r"""Makes claims to train verifiers on, from Wizard of Wikipedia.

    The weak supervision of DialFact (Gupta 2022, Aug-WoW): negates claims, replaces their entities
    and adjectives, lets models respond to other sentences and fill in masked words, and gives
    claims other evidence. A run that was stopped resumes.

    Examples:
      %(prog)s sample --tagger=rules --antonyms=list --output=runs/claims
      %(prog)s downloads/wizard_of_wikipedia --model=runs/bart_wow --infiller=checkpoints/t5_base \
          --language-model=checkpoints/gpt2 --verifiers=checkpoints/dnli,checkpoints/vitaminc \
          --output=aug_wow

    then:
      FAITH_JAX_DATA_DIR=aug_wow/tfds t5x train --gin_file=dialfact_verify_finetune.gin …
    """

    opens_checkpoints = True

    def run(self) -> list[str]:
        quiet_tensorflow()
        from faith_jax.papers.dialfact.mutated_claims import mutate_claims

        return mutate_claims(self)
