import contextlib
import json
import os

import pytest

from faith_jax.core.errors import InputError
from faith_jax.core.files import atomic_file, atomic_folder, check_outputs, staging, write_jsonl
from faith_jax.core.files.staging import local_copy
from faith_jax.core.files.stores import is_remote, path_of, versions
from faith_jax.core.files.whole import UPLOAD, check_whole, is_complete, upload_folder


def objects(folder):
    return {name: size for name, (_, size) in versions(path_of(folder)).items()}


def test_a_file_appears_when_it_is_written_whole(store):
    path = f"{store}/a.jsonl"
    with atomic_file(path) as beside:
        assert not is_remote(beside)
        beside.write_text("one")
        assert not objects(store)
    assert path_of(path).read_text() == "one"
    with contextlib.suppress(RuntimeError), atomic_file(path) as beside:
        beside.write_text("tw")
        raise RuntimeError
    assert path_of(path).read_text() == "one"
    assert objects(store) == {"a.jsonl": 3}
    write_jsonl(path, [{"id": "1"}])
    assert path_of(path).read_text() == '{"id": "1"}\n'


def test_a_file_of_several_uploads_appears_whole(store, tmp_path):
    data = os.urandom(7_000_000)  # more than one request
    with atomic_file(f"{store}/large.bin") as beside:
        beside.write_bytes(data)
    assert path_of(f"{store}/large.bin").read_bytes() == data
    assert local_copy(f"{store}/large.bin").read_bytes() == data


def made(folder, files):
    with atomic_folder(path_of(folder), "test", replaces=True) as beside:
        for name, text in files.items():
            (beside / name).parent.mkdir(parents=True, exist_ok=True)
            (beside / name).write_text(text)


def test_a_folder_says_what_it_has(store):
    made(f"{store}/set", {"info.json": "{}", "1.0.0/a.txt": "one"})
    assert set(objects(f"{store}/set")) == {"info.json", "1.0.0/a.txt", UPLOAD}
    assert is_complete(path_of(f"{store}/set"))
    mark = json.loads(path_of(f"{store}/set/{UPLOAD}").read_bytes())
    assert mark == {
        "made_by": "faith_jax",
        "complete": True,
        "files": {"1.0.0/a.txt": 3, "info.json": 2},
    }
    made(f"{store}/set", {"info.json": "{ }"})
    assert set(objects(f"{store}/set")) == {"info.json", UPLOAD}
    # Neither a lock nor a working folder is left.
    assert set(objects(store)) == {"set/info.json", f"set/{UPLOAD}"}


@pytest.mark.parametrize("number", [0, 1, 4])
def test_a_folder_whose_upload_is_killed_is_not_complete(gs, monkeypatch, number):
    """Kills before each of the uploads: two marks and three files."""
    folder = path_of(f"{gs}/set")
    files = {"a": "1", "b": "22", "c": "333"}
    count = 0

    class Killed(Exception):
        pass

    def counting(upload):
        def run(*args, **kwargs):
            nonlocal count
            if count == number:
                raise Killed
            count += 1
            return upload(*args, **kwargs)

        return run

    with monkeypatch.context() as patch:
        # Files are uploaded several at once.
        uploads = {name: getattr(folder.fs, name) for name in ("_put_file", "pipe_file")}
        made_locally = gs_source(files)
        for name, upload in uploads.items():
            patch.setattr(folder.fs, name, counting(upload))
        with pytest.raises(Killed):
            upload_folder(made_locally, folder)
    if number == 0:
        assert not objects(folder)
        with pytest.raises(InputError, match=r"/set: no such folder\."):
            check_whole(folder)
    else:
        assert UPLOAD in objects(folder)
        assert len(objects(folder)) <= number  # the mark, and files
        with pytest.raises(InputError, match=r"/set is not complete: the run that writes it"):
            local_copy(str(folder))
    assert not is_complete(folder)
    upload_folder(made_locally, folder)
    assert is_complete(folder)
    copy = local_copy(str(folder))
    assert {path.name: path.read_text() for path in copy.iterdir()} == files


def gs_source(files):
    source = staging.cache_folder().parent / "source"
    source.mkdir(exist_ok=True)
    for name, text in files.items():
        (source / name).write_text(text)
    return source


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda path: path.unlink(), "b is gone"),
        (lambda path: path.write_text("2"), "b has 1 bytes of 2"),
    ],
)
def test_a_folder_that_lacks_an_object_is_not_complete(gs, spoil, told):
    made(f"{gs}/set", {"a": "1", "b": "22"})
    spoil(path_of(f"{gs}/set/b"))
    with pytest.raises(InputError, match=rf"/set is not complete: {told}; make it again\."):
        local_copy(f"{gs}/set")


def test_a_folder_that_others_have_made_is_read_as_it_is_and_not_replaced(store):
    for name in ("config.json", "deep/model.bin"):
        path_of(f"{store}/model/{name}").write_text(name)
    copy = local_copy(f"{store}/model")
    assert copy.name == "model"
    assert (copy / "deep" / "model.bin").read_text() == "deep/model.bin"
    with pytest.raises(Exception, match=r"is there, and no run has made it|exists already"):
        made(f"{store}/model", {"a": "1"})
    assert objects(f"{store}/model") == {"config.json": 11, "deep/model.bin": 14}


def test_a_copy_is_made_again_only_if_an_object_has_changed(store, monkeypatch):
    folder = f"{store}/model"
    path_of(f"{folder}/a").write_text("1")
    path_of(f"{folder}/b").write_text("2")
    first = local_copy(folder)
    files = path_of(folder).fs
    fetched = []
    get_file = files._get_file

    def counted(*args, **options):
        fetched.append(args[0])
        return get_file(*args, **options)

    monkeypatch.setattr(files, "_get_file", counted)
    assert local_copy(folder) == first
    assert fetched == []
    path_of(f"{folder}/b").write_text("3")
    second = local_copy(folder)
    assert (first / "b").read_text() == "2"
    assert (second / "b").read_text() == "3"
    assert len(fetched) == 2
    only = local_copy(folder, names={"a", "z"})
    assert [path.name for path in only.iterdir()] == ["a"]
    assert local_copy(str(only)) == only


def test_outputs_on_a_store_are_checked(store, tmp_path):
    path_of(f"{store}/folder/in.jsonl").write_text("{}")
    check_outputs([f"{store}/folder/in.jsonl"], {"--output": f"{store}/new/folder/out.jsonl"})
    for output, message in {
        f"{store}/folder": "cannot be written (a folder)",
        f"{store}/folder/in.jsonl": "would overwrite the input",
    }.items():
        with pytest.raises(Exception, match="--output: ") as caught:
            check_outputs([f"{store}/folder/in.jsonl", str(tmp_path)], {"--output": output})
        assert message in str(caught.value)
