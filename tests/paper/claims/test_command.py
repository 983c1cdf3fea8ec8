"""``gradsurgery claims``, end to end with a claim that trains in milliseconds."""

import json

import pytest

from gradsurgery.lab import problem
from gradsurgery.lab.cli import main
from gradsurgery.lab.errors import UserError
from gradsurgery.lab.run import RunRecord, RunSpec
from gradsurgery.lab.store import Store
from gradsurgery.paper.claims.claim import Claim, Grid
from gradsurgery.paper.claims.ledger import CLAIMS
from gradsurgery.paper.claims.ledger.criteria import ahead
from gradsurgery.paper.claims.records import read_records, write_records
from gradsurgery.paper.claims.summary import TOPICS, Clause


@problem(main="m", aux="a", settings={"gain": 0.5}, lams=(0.5, 1.0, 2.0), name="toy-claim")
def toy(run):
    """Bloop's main is ``gain`` times that of mixed."""
    gain = run.settings["gain"] if run.spec.method == "bloop" else 1.0
    main, aux = gain * run.lam * (1 + run.seed / 100), 1 / run.lam
    yield {"step": 0, "main_train": 9.0, "aux_train": 9.0, "surgery/removed": 0.5}
    yield {"step": 1, "main_train": main, "aux_train": aux, "main_test": main, "aux_test": aux, "surgery/removed": 0.5}


def claim(name, gain):
    return Claim(
        id=name,
        sentence="Bloop leads to a better | front.",
        section="none",
        problem=toy,
        grids={"demo": Grid("default", (0, 1, 2), settings={"gain": str(gain)}, registered="2026-01-01 (1a2b3c4)")},
        statistics=ahead("bloop", "mixed", "train"),
        decides="More toys.",
    )


@pytest.fixture(autouse=True)
def toy_claims(monkeypatch):
    monkeypatch.setitem(CLAIMS, "T1", claim("T1", 0.5))
    monkeypatch.setitem(CLAIMS, "T2", claim("T2", 2.0))
    clauses = tuple(Clause(name, "Bloop leads on", f"toys {name}", ("hypervolume", "main")) for name in ("T1", "T2"))
    monkeypatch.setitem(TOPICS, "Toys", clauses)


def test_claims_are_trained_once_and_written_again_from_the_export(tmp_path, capsys):
    runs, page = tmp_path / "runs", tmp_path / "claims.md"
    records = tmp_path / "records.parquet"
    command = ["claims", "T1", "t2", "--folder", str(runs), "--workers", "0", "--markdown", str(page)]
    assert main([*command, "--export", str(records)]) == 0
    printed = capsys.readouterr().out
    assert "holds: 1, does not hold: 1, undecided: 0" in printed
    assert "36 runs written" in printed
    assert "[1/36]" in printed, "the bar counts the runs of all claims from the start"
    assert "better &#124; front" in page.read_text()
    assert "**holds**, 3 seeds<br>registered 2026-01-01 (1a2b3c4)" in page.read_text()
    assert (
        "- **Toys.** Bloop leads on toys T1 (main −50 %; T1). Does not hold: Bloop leads on toys T2" in page.read_text()
    )
    html = (runs / "report" / "claims" / "claims.html").read_text()
    assert html.count('class="verdict ') == html.count("registered 2026-01-01 (1a2b3c4)") == 2
    assert html.count("<img alt=") == 2
    with Store(runs / "store.sqlite") as store:
        assert len(store.select("toy-claim")) == 36

    assert main(command) == 0
    assert "(in the store)" in capsys.readouterr().out

    again = tmp_path / "again.md"
    assert (
        main(["claims", "T1", "T2", "--from", str(records), "--folder", str(tmp_path), "--markdown", str(again)]) == 0
    )
    assert again.read_text() == page.read_text()
    assert not (tmp_path / "store.sqlite").exists()


def test_an_export_keeps_the_rows_and_the_key_of_each_run(tmp_path):
    assert main(["claims", "T1", "--folder", str(tmp_path), "--workers", "0"]) == 0
    with Store(tmp_path / "store.sqlite") as store:
        stored = store.select("toy-claim")
    write_records(stored, tmp_path / "records.parquet")
    read = {record.spec.key: record for record in read_records(tmp_path / "records.parquet")}
    for record in stored:
        rows = [{name: value for name, value in row.items() if name != "surgery/removed"} for row in record.metrics]
        assert list(read[record.spec.key].metrics) == rows


def test_an_export_leaves_out_diagnostics(tmp_path):
    rows = tuple({"step": step, "main_train": 1.0, "aux_train": 2.0, "surgery/conflict": 1.0} for step in range(3))
    spec = RunSpec("ema", "demo", "bloop", lam=0.2, rho=0.1, seed=0)
    write_records([RunRecord(spec, "done", {}, rows)], tmp_path / "records.parquet")
    (record,) = read_records(tmp_path / "records.parquet")
    assert [row["step"] for row in record.metrics] == [0, 1, 2]
    assert "surgery/conflict" not in record.final


MISTAKES = {
    "an unknown id": (["claims", "T3"], "there is no claim 'T3'"),
    "an unknown scale": (["claims", "--scale", "paper"], "there is no scale 'paper' of the claims"),
    "a scale without runs": (["claims", "T1", "--scale", "laptop"], "T1 cannot be tested at the scale laptop"),
    "no such file": (["claims", "--from", "nowhere.parquet"], "there is no file nowhere.parquet"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_sentence(mistake, capsys, tmp_path):
    arguments, sentence = MISTAKES[mistake]
    assert main([*arguments, "--folder", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert len(error.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_another_file_is_refused(tmp_path):
    path = tmp_path / "records.parquet"
    path.write_text(json.dumps({}))
    with pytest.raises(UserError, match="must be a file that gradsurgery claims --export wrote"):
        read_records(path)


def test_an_export_without_the_runs_of_a_claim(tmp_path, capsys):
    write_records([], tmp_path / "records.parquet")
    assert main(["claims", "T1", "--from", str(tmp_path / "records.parquet"), "--folder", str(tmp_path)]) == 2
    assert "no run of T1 is finished" in capsys.readouterr().err
