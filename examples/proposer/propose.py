#!/usr/bin/env python3
"""Makes one change of the best variant at a time, in the order in which the question lists them: a proposer for
gdngen search run --strategy "exec:python3 examples/proposer/propose.py" --run runs/outside"""
import json, sys

docs, asked = {}, set()
for line in sys.stdin:
    q = json.loads(line)
    docs.update((axis["name"], axis["doc"]) for axis in q.get("axes", []) if axis["structural"])
    best, answer = q["champions"].get(q["targets"][0]), {"done": True}
    for change in q["moves"].get(q["targets"][0], []):
        axis, value = change.split("=")
        if axis in docs and not axis.startswith("prec") and (best["id"], change) not in asked:
            asked.add((best["id"], change))
            answer = {"change": change, "parent": best["id"], "hypothesis": f"{docs[axis]}: try {value}"}
            break
    print(json.dumps(answer), flush=True)
