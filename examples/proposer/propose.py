#!/usr/bin/env python3
"""Changes one axis of the best variant at a time, in the order of the axes: a proposer for
gdngen search run --strategy "exec:python3 examples/proposer/propose.py" --run runs/outside"""
import json, sys

axes, asked = [], set()
for line in sys.stdin:
    q = json.loads(line)
    axes = q.get("axes", axes)
    best = q["champions"].get(q["targets"][0])
    answer = {"done": True}
    for axis in (a for a in axes if best and a["structural"] and not a["name"].startswith("prec")):
        for value in axis["values"]:
            parts = dict(p.split("=") for p in best["variant"].split(","))
            if parts.get(axis["name"], axis["default"]) != value and (best["id"], axis["name"], value) not in asked and "variant" not in answer:
                parts[axis["name"]] = value
                answer = {"variant": ",".join(f"{k}={v}" for k, v in parts.items()), "parent": best["id"], "hypothesis": f"{axis['doc']}: try {value}"}
                asked.add((best["id"], axis["name"], value))
    print(json.dumps(answer), flush=True)
