import pytest


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache of ``datasets`` for one test alone; what is kept in it lies in this folder."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    return tmp_path / "cache" / "gradsurgery"
