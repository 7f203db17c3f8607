"""Costs public kernels of the gated delta rule by the libtpu that costs ours, and writes the table that `gdngen list results` shows.

    python3 tests/peers/run.py [--target v5e,v6e,tpu7x] [--out autotune/results/peers.json]

Needs Go, a network to fetch the wheels that requirements.txt pins, and Python 3.12 or later for the JAX they want. A compile takes
10 to 300 seconds of a core; gdngen keeps each in its cache, so that a run that was stopped goes on where it was.
"""

import argparse
import datetime
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TOKENS, HEADS = 4096, 8


def cache():
    base = os.environ.get("GDNGEN_CACHE") or pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "gdngen"
    return pathlib.Path(base)


def interpreter():
    """The first Python that is new enough."""
    for name in (sys.executable, "python3.13", "python3.12"):
        path = shutil.which(name)
        new = path and subprocess.run([path, "-c", "import sys; sys.exit(sys.version_info < (3, 12))"], capture_output=True)
        if new and new.returncode == 0:
            return path
    sys.exit("no Python 3.12 or later: the peers want JAX 0.11, which asks for it; install one and name it python3.12")


def environment():
    """A Python with the peers, made once for each content of the two lists."""
    lists = [HERE / "base.txt", HERE / "requirements.txt"]
    stamp = hashlib.sha256(b"".join(f.read_bytes() for f in lists)).hexdigest()[:16]
    venv = cache() / f"peers-{stamp}"
    python = venv / "bin" / "python"
    if not (venv / "ready").exists():
        shutil.rmtree(venv, ignore_errors=True)
        subprocess.run([interpreter(), "-m", "venv", venv], check=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "-r", lists[0]], check=True)
        subprocess.run([*pip, "--no-deps", "-r", lists[1]], check=True)
        (venv / "ready").touch()
    return python


def explain(gdngen, module, tables, target):
    """What gdngen says of a module, or why it says nothing."""
    scalars = [f"--scalars={operand}={','.join(map(str, values))}" for operand, values in tables.items()]
    run = subprocess.run(
        [gdngen, "explain", module, "--target", target, "--tokens", str(TOKENS), "--heads", str(HEADS), *scalars, "-o", "json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    if run.returncode != 0:
        why = run.stderr.strip().splitlines()[-1].removeprefix("gdngen: ")
        return None, re.sub(r" in /[^\s,]+|\b\d{16,}-", "", why)  # the same in each run
    return json.loads(run.stdout)["targets"][0], None


def figure(cycles):
    return round(cycles / (TOKENS * HEADS), 2)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--target", default="v5e,v6e,tpu7x")
    p.add_argument("--out", type=pathlib.Path, default=ROOT / "results" / "peers.json")
    a = p.parse_args()
    python, work = environment(), cache() / "peers"
    work.mkdir(parents=True, exist_ok=True)
    gdngen = work / "gdngen"
    subprocess.run(["go", "build", "-o", gdngen, "./cmd/gdngen"], cwd=ROOT, check=True)
    rows, table = {}, {"date": datetime.date.today().isoformat()}
    for target in a.target.split(","):
        out = work / target
        subprocess.run([python, HERE / "lower.py", out, "--target", target], check=True)
        lowered = json.loads((out / "peers.json").read_text())
        table["jax"] = lowered["jax"]
        for peer in lowered["peers"]:
            row = rows.setdefault(
                peer["name"], {k: peer[k] for k in ("name", "version", "work", "note")} | {"cycles": {}, "wall": {}, "refused": {}}
            )
            cost, why = explain(gdngen, out / peer["file"], peer["tables"], target) if peer["file"] else (None, peer["refused"])
            if cost is None:
                row["refused"][target] = why
                continue
            table["compiler"] = cost["compiler"]
            row["cycles"][target] = figure(cost["report"]["cycles"])
            if cost["report"]["wall"]["cycles"] > 0:
                row["wall"][target] = figure(cost["report"]["wall"]["cycles"])
            print(peer["name"], target, row["cycles"][target], file=sys.stderr)
    table["peers"] = [{k: v for k, v in row.items() if v} for row in rows.values()]
    a.out.write_text(json.dumps(table, indent=2) + "\n")


if __name__ == "__main__":
    main()
