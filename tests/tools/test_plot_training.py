import json

from tools import plot_training


def test_losses_by_step(tmp_path, capsys):
    run = tmp_path / "run"
    run.mkdir()
    rows = [{"step": s, "part": "train", "loss": 5.0 / s, "gradient_norm": 1.0} for s in (1, 2, 5)]
    rows.append({"step": 5, "part": "validation", "loss": 1.5})
    (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    curves = plot_training.loss_panel(run).curves
    assert curves["training"].values.tolist() == [5.0, 2.5, 1.0]
    assert curves["validation"].steps.tolist() == [5]
    output = tmp_path / "loss.png"
    assert plot_training.main([str(run), f"--output={output}"]) == 0
    assert output.read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().out == f"{output}\n"
