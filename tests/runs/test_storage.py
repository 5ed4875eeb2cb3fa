"""Commands that read and write Google Cloud Storage, emulated on this machine."""

import json

import pytest

from faith_jax.core.files.staging import local_copy
from faith_jax.core.files.stores import path_of, versions
from tests.stores import SECRET

ROWS = [
    {"id": "1", "grounding": "Tea is a leaf.", "generated_text": "Tea.", "label": 1},
    {"id": "2", "grounding": "Tea is a leaf.", "generated_text": "No.", "label": 0},
    {"id": "3", "grounding": "Ice is cold.", "generated_text": "Ice is hot.", "label": 0},
]


def objects(folder):
    return list(versions(path_of(folder)))


@pytest.fixture
def rows(gs):
    path = path_of(f"{gs}/rows.jsonl")
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return str(path)


def test_scores_tables_and_pages_on_a_store_are_those_of_a_disk(command, gs, rows, tmp_path):
    local_rows = tmp_path / "rows.jsonl"
    local_rows.write_text(path_of(rows).read_text())
    for place, source in ((gs, rows), (tmp_path, local_rows)):
        status, out, err = command(
            "score", "--scorers=token_f1", f"--input={source}", f"--output={place}/s.jsonl"
        )
        assert (status, out) == (0, f"{place}/s.jsonl: 3 rows, 1 scorer\n"), err
        command.succeeds(
            *("evaluate", f"{place}/s.jsonl", f"--json={place}/t.json", f"--csv={place}/t.csv"),
            f"--roc-curves={place}/roc.png",
        )
        command.succeeds("report", f"{place}/s.jsonl", f"--output={place}/page.html")
    names = ["page.html", "roc.png", "s.jsonl", "t.csv", "t.json"]
    assert objects(gs) == sorted([*names, "rows.jsonl", ".s.jsonl.finished.json"])
    for name in names:
        assert path_of(f"{gs}/{name}").read_bytes() == (tmp_path / name).read_bytes(), name
    # An output that is there is kept.
    assert f"{gs}/s.jsonl exists already; remove it or name another output" in command.refuses(
        "score", "--scorers=token_recall", f"--input={rows}", f"--output={gs}/s.jsonl"
    )


@pytest.mark.faults
def test_a_scoring_that_was_stopped_resumes_from_the_store(command, gs, rows, monkeypatch, caplog):
    from faith_jax.runs.scores import score

    arguments = ["score", "--scorers=token_f1", "--batch-size=1", f"--input={rows}"]
    arguments.append(f"--output={gs}/s.jsonl")
    appended, seen = score.append_rows, []

    def stops(path, batch):
        appended(path, batch)
        seen.append(batch[0]["id"])
        if len(seen) == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(score, "append_rows", stops)
        status, _, err = command(*arguments)
    assert status == 130
    assert "2 scored rows are kept; the same command resumes there." in err
    assert "s.jsonl" not in objects(gs)
    status, out, err = command(*arguments)
    assert (status, out) == (0, f"{gs}/s.jsonl: 3 rows, 1 scorer\n")
    assert "2 of 3 rows are scored already" in caplog.text
    lines = path_of(f"{gs}/s.jsonl").read_text().splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["1", "2", "3"]
    assert not any(".partial" in name or ".lock" in name for name in objects(gs))


@pytest.mark.faults
def test_a_data_set_whose_upload_was_stopped_is_not_read(command, gs, rows):
    target = path_of(f"{gs}/scores")
    score = ["score", "--scorers=token_f1", f"--input={rows}", f"--output={target}"]
    assert command(*score, "--format=tfds")[0] == 0
    mark = json.loads((target / "_upload.json").read_bytes())
    (target / "_upload.json").write_text(json.dumps(mark | {"complete": False, "files": {}}))
    status, _, err = command("evaluate", str(target))
    assert status == 2
    assert err.strip().splitlines()[-1] == (
        f"faith-jax: {target} is not complete: the run that writes it has not finished; run it "
        "again."
    )
    # The same command makes it.
    command.succeeds(*score, "--format=tfds")
    assert local_copy(target).is_dir()


@pytest.mark.parametrize(
    ("option", "path", "told"),
    [
        ("input", "gs://no-such-bucket/r.jsonl", "there is no bucket 'no-such-bucket'"),
        ("input", f"gs://{SECRET}/r.jsonl", f"no permission to list gs://{SECRET}; log in with"),
        ("output", f"gs://{SECRET}/s.jsonl", f"no permission to list gs://{SECRET}; log in with"),
        ("output", "az://container/s.jsonl", "unknown storage; expected gs://, s3:// or a local"),
    ],
)
def test_a_bucket_that_cannot_be_used_is_one_clear_error(command, rows, gs, option, path, told):
    arguments = {"input": rows, "output": f"{gs}/s.jsonl", option: path}
    status, out, err = command(
        "score", "--scorers=token_f1", *(f"--{n}={v}" for n, v in arguments.items())
    )
    assert (status, out) == (2, "")
    (line,) = err.strip().splitlines()
    assert line.startswith(f"faith-jax: {path}: {told}")
    assert objects(gs) == ["rows.jsonl"]


@pytest.mark.parametrize(
    ("code", "status", "told"),
    [(403, 2, "Forbidden: https://storage/o no permission"), (400, 1, "bad, 400")],
)
def test_a_store_that_fails_meanwhile_is_told(command, gs, rows, monkeypatch, code, status, told):
    from gcsfs.retry import HttpError

    from faith_jax.runs.scores import score

    errors = {
        403: OSError("Forbidden: https://storage/o\nno permission"),
        400: HttpError({"code": 400, "message": "bad"}),
    }

    def fails(*_):
        raise errors[code]

    monkeypatch.setattr(score, "append_rows", fails)
    exit_status, _, err = command(
        "score", "--scorers=token_f1", f"--input={rows}", f"--output={gs}/s.jsonl"
    )
    assert exit_status == status
    assert err.splitlines()[-1] == f"faith-jax: {told}; run this again when it is mended."


@pytest.mark.usefixtures("undecoded")
def test_gin_files_and_search_paths(command, gs, tiny_run, tmp_path, caplog):
    """With a checkpoint on a store, and responses to a file on the store, written there."""
    queries = path_of(f"{gs}/queries.jsonl")
    queries.write_text('{"query": "Tea?", "pro": ["Yes."], "con": ["No."]}\n')
    path_of(f"{gs}/gin/lengths.gin").write_text("DECODE_LENGTH = 2\n")
    path_of(f"{gs}/own.gin").write_text(
        f"include 'runs/infer_file.gin'\ninclude 'lengths.gin'\nINPUT_FILE = '{queries}'\n"
    )
    arguments = ["infer", f"--gin_file={gs}/own.gin", f"--gin_search_paths={gs}/gin"]
    arguments += [f"--gin.CHECKPOINT_PATH={tiny_run}"]
    for place in (gs, tmp_path):
        command.succeeds(*arguments, f"--gin.INFER_OUTPUT_DIR={place}/responses")
    assert objects(f"{gs}/responses") == ["_upload.json", "predictions.jsonl", "summary.json"]
    for name in ("predictions.jsonl", "summary.json"):
        text = path_of(f"{gs}/responses/{name}").read_text()
        assert text == (tmp_path / "responses" / name).read_text()
    command.succeeds(*arguments, f"--gin.INFER_OUTPUT_DIR={gs}/responses")
    assert f"{gs}/responses is kept" in caplog.text
    assert f"There is no gin file '{gs}/ow.gin'." in command.refuses(
        "infer", f"--gin_file={gs}/ow.gin"
    )
