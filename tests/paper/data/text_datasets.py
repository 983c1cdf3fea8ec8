"""Text datasets for tests."""

import json


def write_dataset(folder, **splits):
    """Write a dataset of JSON lines with a column ``text``; return the data folder that contains it."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, texts in splits.items():
        lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
        (folder / f"{split}.jsonl").write_text(lines, "utf-8")
    return folder.parent
