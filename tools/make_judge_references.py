"""Makes faith_jax/runs/judges/references.json: the scores of the judges' own code for tiny models.

The models are those of `faith_jax.runs.judges.reference_models`. The authors' code runs unchanged,
from clones of their repositories, which are not part of this project. For judges that only have a
model card, Transformers computes what the card describes. The authors' code was written for
Transformers 4 and so needs an environment of its own:

    python tools/make_judge_references.py models MODELS
    git clone https://github.com/Liyan06/MiniCheck CLONES/MiniCheck      # and the others of CODE
    python -m venv ENV; ENV/bin/pip install torch "transformers<5" sentencepiece protobuf nltk \
        tqdm scipy scikit-learn prettytable
    ENV/bin/python tools/make_judge_references.py scores MODELS CLONES
"""

import contextlib
import importlib
import json
import pathlib
import sys
import types

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
REFERENCES = REPOSITORY / "faith_jax" / "runs" / "judges" / "references.json"
# The repositories whose code runs; the other judges only have model cards.
CODE = {
    "minicheck_flan_t5_large": "MiniCheck",
    "minicheck_roberta_large": "MiniCheck",
    "minicheck_deberta_v3_large": "MiniCheck",
    "factcg_deberta_v3_large": "FactCG",
    "alignscore": "AlignScore",
    "summac_zs_vitaminc": "summac",
    "summac_conv_vitaminc": "summac",
    "unieval_fact": "UniEval",
    "unieval_sum": "UniEval",
    "scale_flan_t5": "scale-score",
    "lettucedetect_qa": "LettuceDetect",
    "lettucedetect_summary": "LettuceDetect",
}


def write_models(folder):
    """Writes the tiny model and the pairs of each card."""
    sys.path.insert(0, str(REPOSITORY))
    from faith_jax.runs.judges import certify
    from faith_jax.scoring.judges.card import preset_names, read_card

    pairs = certify.certification_pairs()
    for name in preset_names():
        card = read_card(name)
        certify.reference_model(folder / name, name, card.architectures[0])
        rows = "".join(json.dumps(row) + "\n" for row in certify.pair_rows(pairs, card))
        (folder / f"{name}.jsonl").write_text(rows)


def prepare_libraries(clones):
    """Makes the authors' code importable without the libraries that it does not need here."""
    import nltk.tokenize
    import nltk.tokenize.punkt
    import torch
    import transformers

    # Punkt's English model would have to be downloaded. No sentence here has an abbreviation, so
    # Punkt splits them the same way without a model.
    splitter = nltk.tokenize.punkt.PunktSentenceTokenizer()
    words = nltk.tokenize.destructive.NLTKWordTokenizer()

    def split(text, language="english"):
        return splitter.tokenize(text)

    def split_words(text, language="english", preserve_line=False):
        return [word for sentence in split(text) for word in words.tokenize(sentence)]

    for module in (nltk, nltk.tokenize):
        module.sent_tokenize, module.word_tokenize = split, split_words
    # AlignScore and FactCG import training libraries.
    lightning = types.ModuleType("pytorch_lightning")
    lightning.LightningModule = type(
        "LightningModule", (torch.nn.Module,), {"save_hyperparameters": lambda self, *_, **__: None}
    )
    sys.modules["pytorch_lightning"] = lightning
    sys.modules["spacy"] = types.ModuleType("spacy")
    transformers.AdamW = torch.optim.AdamW
    for place in ("MiniCheck", "FactCG", "AlignScore/src", "summac", "UniEval", "scale-score"):
        sys.path.insert(0, str(clones / place))
    sys.path.insert(0, str(clones / "LettuceDetect"))


@contextlib.contextmanager
def published_as(folder):
    """Makes Transformers open this folder for any name that the authors' code asks for."""
    import transformers

    classes = [
        *(transformers.AutoConfig, transformers.AutoTokenizer, transformers.AutoModelForSeq2SeqLM),
        *(transformers.AutoModelForSequenceClassification, transformers.T5Tokenizer),
        transformers.T5ForConditionalGeneration,
    ]
    former = {cls: cls.from_pretrained for cls in classes}
    unused = ("cache_dir", "revision", "token", "device_map", "finetuning_task")

    def opener(cls):
        def from_pretrained(name, *args, **options):
            used_options = {key: value for key, value in options.items() if key not in unused}
            return former[cls](str(folder), *args, **used_options)

        return from_pretrained

    for cls in classes:
        cls.from_pretrained = opener(cls)
    try:
        yield
    finally:
        for cls, method in former.items():
            cls.from_pretrained = method


def minicheck(folder, rows, name):
    """Returns the scores of MiniCheck, by minicheck/minicheck.py."""
    module = importlib.import_module("minicheck.minicheck")
    model = {"t5": "flan-t5-large", "roberta": "roberta-large", "deberta": "deberta-v3-large"}
    key = next(key for key in model if key in name)
    with published_as(folder):
        judge = module.MiniCheck(model_name=model[key], batch_size=1)
    return judge.score([row["grounding"] for row in rows], [row["response"] for row in rows])[1]


def factcg(folder, rows, name):
    """Returns the scores of FactCG, by factcg/inference.py."""
    module = importlib.import_module("factcg.inference")
    with published_as(folder):
        judge = module.Inferencer(batch_size=1, verbose=False)
    return [judge.batch_inference([row["grounding"]], [row["response"]])[0][0] for row in rows]


def alignscore(folder, rows, name):
    """Returns AlignScore's scores, by src/alignscore/inference.py, with renamed tensors.

    docs/judges.md describes the renaming.
    """
    import torch
    import transformers
    from safetensors.torch import load_file

    module = importlib.import_module("alignscore.inference")
    stored = load_file(str(folder / "model.safetensors"))
    names = {"classifier.dense": "base_model.pooler.dense", "classifier.out_proj": "tri_layer"}
    names["roberta"] = "base_model"
    renamed = {}
    for key, tensor in stored.items():
        start = next(start for start in names if key.startswith(f"{start}."))
        renamed[names[start] + key.removeprefix(start)] = tensor
    judge = module.Inferencer.__new__(module.Inferencer)
    model = importlib.import_module("alignscore.model").BERTAlignModel
    config = transformers.AutoConfig.from_pretrained(str(folder))
    with published_config(config):
        judge.model = model(model="roberta", using_pretrained=False)
    missing, unexpected = judge.model.load_state_dict(renamed, strict=False)
    assert not unexpected, unexpected
    assert all(n.startswith(("mlm_head", "bin_layer", "reg_layer")) for n in missing), missing
    judge.model.eval()
    judge.device, judge.batch_size, judge.verbose = "cpu", 8, False
    judge.tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder), model_max_length=512)
    judge.softmax = torch.nn.Softmax(dim=-1)
    judge.nlg_eval_mode, judge.disable_progress_bar_in_inference = "nli_sp", True
    scores = []
    for row in rows:
        # NLTK keeps white space before the first sentence; the card's reader drops it.
        texts = row["grounding"].strip(), row["response"].strip()
        score = judge.nlg_eval([texts[0]], [texts[1]])[1]
        scores.append(float(score[0]))
    return scores


@contextlib.contextmanager
def published_config(config):
    """Makes AutoConfig return this config."""
    import transformers

    former = transformers.AutoConfig.from_pretrained
    transformers.AutoConfig.from_pretrained = lambda *_, **__: config
    try:
        yield
    finally:
        transformers.AutoConfig.from_pretrained = former


def summac(folder, rows, name):
    """Returns SummaC's scores, by summac/model_summac.py as in its README; None = no sentences."""
    import torch
    from safetensors.torch import load_file

    module = importlib.import_module("summac.model_summac")
    options = {"granularity": "sentence", "imager_load_cache": False, "device": "cpu"}
    with published_as(folder):
        if name == "summac_zs_vitaminc":
            judge = module.SummaCZS(model_name="vitc", **options)
            prepare_imager(judge.imager)
            scored = [judge.score_one(row["grounding"], row["response"]) for row in rows]
            return [float(s["score"]) if s["image"].any() else None for s in scored]
        judge = module.SummaCConv(models=["vitc"], bins="percentile", nli_labels="e", **options)
        judge.load_state_dict(load_file(str(folder / "summac_conv.safetensors")))
        prepare_imager(judge.imagers[0])
        scores = []
        for row in rows:
            with torch.no_grad():
                logits, _, images = judge([row["grounding"]], [row["response"]])
            scores.append(float(logits.softmax(-1)[0, 1]) if images[0].any() else None)
    return scores


def prepare_imager(imager):
    """Makes SummaC's imager read the whole grounding, and work with current Transformers."""
    imager.max_doc_sents = 10**6
    imager.load_nli()
    encode = imager.tokenizer.batch_encode_plus

    def encode_pairs(pairs, truncation_strategy, **options):
        # Transformers no longer accepts `truncation_strategy`, and nothing here is truncated.
        return encode(pairs, **options)

    imager.tokenizer.batch_encode_plus = encode_pairs


def unieval(folder, rows, name):
    """Returns the scores of UniEval, by metric/evaluator.py."""
    module = importlib.import_module("metric.evaluator")
    cls = module.FactEvaluator if name == "unieval_fact" else module.SumEvaluator
    with published_as(folder):
        judge = cls(device="cpu")
    data = [{"source": row["grounding"], "system_output": row["response"]} for row in rows]
    if name == "unieval_fact":
        return [row["consistency"] for row in judge.evaluate(data)]
    return [row["consistency"] for row in judge.evaluate(data, dims=["consistency"], overall=False)]


def scale(folder, rows, name):
    """Returns SCALE's scores, by scale_score/utils.py, averaged over sentences as our card does."""
    import nltk

    module = importlib.import_module("scale_score.scorer")
    with published_as(folder):
        judge = module.SCALEScorer(device="cpu")
    scores = []
    for row in rows:
        sentences = nltk.sent_tokenize(row["response"].strip())
        sentence_scores = judge.score([row["grounding"]], [sentences])
        scores.append(sum(sentence_scores) / len(sentence_scores))
    return scores


def lettucedetect(folder, rows, name):
    """Returns LettuceDetect's scores, by detectors/transformer.py, with one passage."""
    detector = importlib.import_module("lettucedetect.detectors.transformer")
    judge = detector.TransformerDetector(str(folder), device="cpu")
    scores = []
    for row in rows:
        question = row["query"] if name == "lettucedetect_qa" else None
        tokens = judge.predict([row["grounding"]], row["response"], question, "tokens")
        # The last token is the special token after the response.
        scores.append(1 - max(token["prob"] for token in tokens[:-1]) if tokens[1:] else None)
    return scores


def first_token_logits(folder, texts, limit):
    """Yields a T5's tokenizer and its logits of the first output token, for each text."""
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder))
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(str(folder)).eval()
    for text in texts:
        read = tokenizer(text, return_tensors="pt", truncation=True, max_length=limit)
        with torch.no_grad():
            logits = model(**read, decoder_input_ids=torch.tensor([[0]])).logits[0, 0]
        yield tokenizer, logits


def nli_t5(folder, rows, name):
    """Returns the probability of "1" in the whole vocabulary, as TRUE's and TrueTeacher's cards."""
    texts = [f"premise: {row['grounding']} hypothesis: {row['response']}" for row in rows]
    return [
        float(logits.softmax(-1)[tokenizer("1").input_ids[0]])
        for tokenizer, logits in first_token_logits(folder, texts, 2048)
    ]


def attrscore(folder, rows, name):
    """Returns, for the prompt of AttrScore's README, the probability of the first of three words.

    The three words are those of our card.
    """
    # Our card quotes the prompt.
    import tomllib

    card = tomllib.loads(
        (REPOSITORY / "faith_jax/scoring/presets/attrscore_flan_t5.toml").read_text()
    )
    texts = []
    for row in rows:
        front, rest = card["input"]["text"].split("{query} {response}")
        rest, _ = rest.split("{grounding}")
        texts.append(f"{front}{row['query']} {row['response']}{rest}{row['grounding']}")
    scores = []
    for tokenizer, logits in first_token_logits(folder, texts, 512):
        words = [tokenizer(word).input_ids[0] for word in card["reads"]["words"]]
        scores.append(float(logits[words].softmax(-1)[0]))
    return scores


def hhem(folder, rows, name):
    """Returns HHEM-2.1-Open's scores, from the first token of a T5ForTokenClassification."""
    import torch
    import transformers
    from safetensors.torch import load_file

    fields = json.loads((folder / "config.json").read_text())
    sizes = ("d_model", "d_kv", "d_ff", "num_heads", "num_layers", "vocab_size")
    config = transformers.T5Config(
        **{key: fields[key] for key in sizes}, feed_forward_proj="gated-gelu", num_labels=2
    )
    model = transformers.T5ForTokenClassification(config).eval()
    stored = load_file(str(folder / "model.safetensors"))
    missing, unexpected = model.load_state_dict(
        {key.removeprefix("t5."): tensor for key, tensor in stored.items()}, strict=False
    )
    assert not unexpected, unexpected
    assert all("embed_tokens" in key for key in missing), missing
    tokenizer = transformers.T5TokenizerFast.from_pretrained(str(folder))
    scores = []
    for row in rows:
        text = "<pad> Determine if the hypothesis is true given the premise?\n\nPremise: "
        text += f"{row['grounding']}\n\nHypothesis: {row['response']}"
        with torch.no_grad():
            logits = model(**tokenizer([text], return_tensors="pt")).logits[0, 0]
        scores.append(float(logits.softmax(-1)[1]))
    return scores


def wecheck(folder, rows, name):
    """Returns WeCheck's scores: the sigmoid of the first logit, as its model card says."""
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder))
    model = transformers.AutoModelForSequenceClassification.from_pretrained(str(folder)).eval()
    scores = []
    for row in rows:
        read = tokenizer(
            row["grounding"], row["response"], return_tensors="pt",
            truncation="only_first", max_length=512,
        )  # fmt: skip
        with torch.no_grad():
            scores.append(float(model(**read).logits[0, 0].sigmoid()))
    return scores


JUDGES = {
    **dict.fromkeys((n for n in CODE if n.startswith("minicheck")), minicheck),
    "factcg_deberta_v3_large": factcg,
    "alignscore": alignscore,
    "summac_zs_vitaminc": summac,
    "summac_conv_vitaminc": summac,
    "unieval_fact": unieval,
    "unieval_sum": unieval,
    "scale_flan_t5": scale,
    "true_t5_xxl": nli_t5,
    "trueteacher_t5_11b": nli_t5,
    "attrscore_flan_t5": attrscore,
    "hhem_2_1_open": hhem,
    **dict.fromkeys((n for n in CODE if n.startswith("lettucedetect")), lettucedetect),
    "wecheck_deberta_v3": wecheck,
}


def commit_of(clone):
    """Returns the first digits of a clone's commit hash."""
    import subprocess

    command = ["git", "-C", str(clone), "rev-parse", "--short=12", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def write_scores(models, clones, names):
    """Scores the pairs of each card, and writes the references."""
    import transformers

    prepare_libraries(clones)
    references = json.loads(REFERENCES.read_text()) if REFERENCES.exists() else {}
    for name in names or sorted(JUDGES):
        rows = [json.loads(line) for line in (models / f"{name}.jsonl").read_text().splitlines()]
        scores = JUDGES[name](models / name, rows, name)
        code = f"Transformers {transformers.__version__}"
        if name in CODE:
            code = f"{CODE[name]}'s code ({commit_of(clones / CODE[name])}), {code}"
        rounded = [None if score is None else round(float(score), 6) for score in scores]
        references[name] = {"code": code, "scores": rounded}
        print(name, min(s for s in rounded if s is not None), max(filter(None, rounded)))
        lines = [f' "{name}": {json.dumps(references[name])}' for name in sorted(references)]
        REFERENCES.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def main():
    """Runs the step that the command line names."""
    step, *folders = sys.argv[1:]
    if step == "models":
        write_models(pathlib.Path(folders[0]))
    else:
        models, clones, *names = folders
        write_scores(pathlib.Path(models), pathlib.Path(clones), names)


if __name__ == "__main__":
    main()
