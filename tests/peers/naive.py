"""Compares the float64 references of kda and gdn2, forward and backward, with flash-linear-attention's recurrences in plain torch, on the CPU.

    go test ./gdn/truth -run Naive -naive DIR
    PYTHON tests/peers/naive.py DIR

PYTHON has fla-core 0.6.0, torch 2.15.0 and einops. Their code takes float32; here its casts give float64. Nothing of it is copied.
"""

import importlib.util
import json
import pathlib
import sys

sys.path.pop(0)  # this folder has a fla.py of its own

import torch  # noqa: E402

torch.Tensor.float = torch.Tensor.double


class Wide:
    """torch, whose float32 is float64."""

    def __getattr__(self, name):
        return torch.float64 if name in ("float", "float32") else getattr(torch, name)


def recurrence(rule):
    ops = pathlib.Path(importlib.util.find_spec("fla").submodule_search_locations[0]) / "ops"
    spec = importlib.util.spec_from_file_location(rule, ops / rule / "naive.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.torch = Wide()
    return getattr(module, f"naive_recurrent_{rule}")


for rule, gates in {"kda": ["g", "beta"], "gdn2": ["g", "erase", "write"]}.items():
    stored = json.loads((pathlib.Path(sys.argv[1]) / f"{rule}.json").read_text())
    stored = {name: torch.tensor(x["values"], dtype=torch.float64).reshape(x["shape"]) for name, x in stored.items()}
    names = ["q", "k", "v", *gates]
    given = [stored["in." + name].clone().requires_grad_() for name in names]
    start = stored["in.initial_state"].clone().requires_grad_()
    o, state = recurrence(rule)(*given, initial_state=start, output_final_state=True)
    ((o * stored["in.do"]).sum() + (state * stored["in.dfinal_state"]).sum()).backward()
    theirs = {"o": o, "final_state": state, "dinitial_state": start.grad, **{"d" + name: x.grad for name, x in zip(names, given)}}
    for name, x in theirs.items():
        ours = stored["out." + name]
        print(rule, name, f"{((x - ours).norm() / ours.norm()).item():.1e}")
