"""Sets published times of kernels on TPUs against their static costs, and prints a table with a factor for each target.

    python3 tests/peers/published.py

published.tsv has the times, autotune/results/peers.json in-order cycles of the peers that can be lowered. A factor is the geometric mean of published
over static cycles; the spread is the largest deviation from it.
"""

import json
import math
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
RULERS = ("issue", "in-order")


def rows():
    peers = {p["name"]: p for p in json.loads((HERE.parent.parent / "autotune" / "results" / "peers.json").read_text())["peers"]}
    for line in (HERE / "published.tsv").read_text().splitlines():
        if line.startswith("#"):
            continue
        kernel, target, work, cycles, peer, issue = line.split("\t")
        in_order = peers.get(peer, {}).get("wall", {}).get(target)
        yield {"kernel": kernel, "target": target, "work": work, "cycles": float(cycles), "issue": float(issue), "in-order": in_order}


def cell(row, ruler):
    return f"{row[ruler]:.1f}: {row['cycles'] / row[ruler]:.2f} x" if row[ruler] else "-"


def main():
    table = list(rows())
    print("| kernel | target | work | published | issue: ratio | in-order: ratio |\n|---|---|---|---:|---:|---:|")
    for r in table:
        print(f"| {r['kernel']} | {r['target']} | {r['work']} | {r['cycles']:.1f} | {cell(r, 'issue')} | {cell(r, 'in-order')} |")
    print("\n| target | ruler | kernels | factor | spread |\n|---|---|---:|---:|---:|")
    for target in sorted({r["target"] for r in table}):
        for ruler in RULERS:
            logs = [math.log(r["cycles"] / r[ruler]) for r in table if r["target"] == target and r[ruler]]
            if logs:
                mean = sum(logs) / len(logs)
                spread = max(abs(math.exp(x - mean) - 1) for x in logs)
                print(f"| {target} | {ruler} | {len(logs)} | {math.exp(mean):.2f} | {100 * spread:.0f} % |")


if __name__ == "__main__":
    main()
