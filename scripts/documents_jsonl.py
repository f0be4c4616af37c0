"""Write documents/documents.jsonl from documents/*.txt, for `cipherloom calibrate` and `cipherloom audit`.

The label is in the name of the file: *-positive.txt or *-negative.txt. Needs only Python 3.

    python3 scripts/documents_jsonl.py
"""
import json
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent / "documents"


def main():
    with open(ROOT / "documents.jsonl", "w", encoding="utf-8") as out:
        for path in sorted(ROOT.glob("*.txt")):
            label = {"negative": 0, "positive": 1}[path.stem.rsplit("-", 1)[1]]
            row = {"id": path.name, "text": path.read_text(encoding="utf-8"), "label": label}
            out.write(json.dumps(row, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
