"""Reference logits of the shipped documents, computed by the library `transformers` itself.

Writes documents/reference_logits.json: for every document in documents/documents.jsonl the logits of
models/mamba2-moviedoc at the last 128 and the last 512 tokens, in single and in double precision. The body
is transformers' Mamba2Model; pooling (mean over the tokens) and the linear head follow the convention of
models/ATTRIBUTION.md. No padding is used.

    python3 -m venv /tmp/reference && /tmp/reference/bin/pip install torch transformers safetensors
    /tmp/reference/bin/python scripts/reference_logits.py
"""
import json
import pathlib

import torch
import transformers
from safetensors.torch import load_file
from tokenizers import Tokenizer
from transformers import Mamba2Model

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODEL = ROOT / "models" / "mamba2-moviedoc"
LENGTHS = (128, 512)


def logits(body, head, ids, dtype):
    """Mean of the last hidden state over the tokens, then the linear head."""
    weight, bias = (t.to(dtype) for t in head)
    hidden = body(input_ids=torch.tensor([ids])).last_hidden_state[0].to(dtype)
    return (hidden.mean(0) @ weight.T + bias).tolist()


def main():
    torch.set_num_threads(1)
    tokenizer = Tokenizer.from_file(str(MODEL / "tokenizer.json"))
    weights = load_file(str(MODEL / "model.safetensors"))
    head = (weights["classifier.weight"], weights["classifier.bias"])
    bodies = {}
    for name, dtype in (("f32", torch.float32), ("f64", torch.float64)):
        bodies[name] = (Mamba2Model.from_pretrained(str(MODEL)).to(dtype).eval(), dtype)
    rows = []
    with torch.no_grad():
        for line in open(ROOT / "documents" / "documents.jsonl", encoding="utf-8"):
            document = json.loads(line)
            ids = tokenizer.encode(document["text"]).ids
            row = {"id": document["id"], "label": document["label"], "tokens": len(ids)}
            for length in LENGTHS:
                for name, (body, dtype) in bodies.items():
                    row[f"{name}_tail{length}"] = logits(body, head, ids[-length:], dtype)
            rows.append(row)
    out = {
        "made_by": "scripts/reference_logits.py",
        "model": "models/mamba2-moviedoc",
        "transformers": transformers.__version__,
        "torch": torch.__version__,
        "documents": rows,
    }
    (ROOT / "documents" / "reference_logits.json").write_text(json.dumps(out, indent=1) + "\n")
    worst = max(
        abs(a - b)
        for r in rows
        for n in LENGTHS
        for a, b in zip(r[f"f32_tail{n}"], r[f"f64_tail{n}"])
    )
    print(f"{len(rows)} documents, largest f32-f64 difference {worst:.2e}")


if __name__ == "__main__":
    main()
