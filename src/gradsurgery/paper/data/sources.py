"""Where the datasets of a problem come from, in words."""

from dataclasses import asdict
from typing import TYPE_CHECKING

from gradsurgery.paper.data.images.builtin import IMAGES
from gradsurgery.paper.data.text.builtin import DOCUMENTS, SENTENCE_PAIRS

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def data_sources(settings: "DataclassInstance") -> list[str]:
    """One line for each dataset that the settings name."""
    datasets = [value for name, value in asdict(settings).items() if name.split("_")[-1] == "data"]
    return [_source(dataset) for dataset in dict.fromkeys(datasets)]


def _source(dataset: str) -> str:
    if dataset in {**IMAGES, **DOCUMENTS, **SENTENCE_PAIRS}:
        return f"{dataset}, built in"
    folder = dataset.partition(":")[0].rpartition("/")[2]
    return f"{dataset} of the Hugging Face hub, or --data-dir/{folder}" if "/" in dataset else f"--data-dir/{folder}"
