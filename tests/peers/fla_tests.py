"""flash-linear-attention's own tests of the gated delta rule and of KDA, their functions unchanged, through the names of a generated package.

    python fla_tests.py FLA PACKAGE [TEST...]

FLA is a checkout of flash-linear-attention, PACKAGE a folder that `gdngen gen --backend triton --package` wrote. The Python has torch, triton, einops and
fla-core. Without a GPU kernels are interpreted: tests are called with fewer heads and shorter rows than their own table has.
"""

import importlib
import importlib.util
import os
import sys
import time

checkout, package, *only = sys.argv[1:]
sys.path[0] = os.path.join(package, "src")
# the folder of this script has a fla.py
os.environ["FLA_DISABLE_BACKEND_DISPATCH"] = "1"
import torch  # noqa: E402

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
ours = importlib.import_module(os.path.basename(os.path.normpath(package)))


def tests_of(file):
    """A file of tests, whose functions call ours."""
    spec = importlib.util.spec_from_file_location("theirs_" + file, os.path.join(checkout, "tests", "ops", file + ".py"))
    theirs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(theirs)
    theirs.device = "cuda" if torch.cuda.is_available() else "cpu"
    for name in ours.__all__:
        setattr(theirs, name, getattr(ours, name))
    return theirs


f16, f32, bf16 = torch.float16, torch.float32, torch.bfloat16
GDN = {
    "test_fused_recurrent": [(1, 20, 1, 1, 64, 1, 1, f32), (2, 20, 1, 1, 60, 1, 1, f32), (1, 20, 1, 2, 128, 1, 10, f16)],
    "test_fused_recurrent_state_v_first": [(1, 20, 1, 2, 32, 1, 1, f32)],
    "test_fused_recurrent_gate_in_kernel": [(1, 20, 1, 2, 32, 1, True, f32)],
    "test_fused_recurrent_beta_sigmoid_in_kernel": [(1, 20, 1, 2, 32, 1, True, f32)],
    "test_fused_recurrent_gate_in_kernel_varlen": [(1, 2, 32, True, [0, 5, 20], f32)],
    "test_chunk": [
        (1, 96, 1, 1, 128, 0.1, 1, 1.0, False, f16), (2, 75, 1, 1, 64, 1, 0.01, 0, False, f16), (1, 150, 1, 1, 60, 1, 1, 0, False, f16),
        (1, 130, 1, 1, 64, 0.1, 1, 0.5, False, f16), (1, 96, 1, 1, 100, 1, 0.1, 0, False, f16), (1, 130, 1, 1, 128, 0.1, 10, 0, False, f16),
        (1, 96, 1, 2, 64, 1, 1, 0, False, f16), (1, 96, 1, 4, 64, 1, 0.1, 0, True, f16), (1, 130, 1, 1, 64, 0.1, 10, 0, False, bf16),
    ],
    "test_chunk_with_chunk_size": [(1, 64, 1, 2, 32, 0.1, 1.0, f32, 64)],
    "test_chunk_beta_sigmoid_in_kernel": [(1, 75, 1, 2, 64, 1, True, True, f16)],
    "test_chunk_state_v_first": [(1, 75, 1, 64, 1, 1, f16)],
    "test_chunk_varlen": [(1, 1, 60, 0, [0, 15], f16), (1, 2, 64, 0.5, [0, 40, 65, 140], f16)],
    "test_chunk_varlen_prefill": [(1, 64, 0, [0, 40, 65, 140], f16)],
    "test_chunk_gate_in_kernel": [(1, 75, 1, 64, 1, True, True, f16), (1, 75, 1, 60, 1, False, False, f16)],
    "test_chunk_gate_in_kernel_gqa": [(1, 75, 1, 2, 64, 1, True, f16)],
    "test_chunk_gate_in_kernel_varlen": [(1, 64, True, [0, 40, 65, 140], f16)],
}
KDA = {
    "test_chunk_invalid_chunk_size": [()],
    "test_fused_recurrent": [(1, 20, 1, 1, 64, 1, 1, False, f32), (1, 20, 1, 2, 100, 0.1, 1, True, f32)],
    "test_fused_recurrent_use_beta_sigmoid_in_kernel": [(1, 20, 2, 60, True, f32)],
    "test_fused_recurrent_state_v_first": [(1, 20, 2, 60, 1, 1, f32)],
    "test_fused_recurrent_gate_in_kernel": [
        (1, 20, 1, 1, 64, 1, True, False, False, f32), (1, 20, 1, 2, 64, 0.1, True, True, True, f16), (1, 20, 1, 2, 64, 1, False, True, True, f32)],
    "test_chunk": [
        (1, 63, 1, 1, 64, 1, 1, 0, False, False, f16, True, False, 64), (1, 100, 1, 1, 60, 1, 1, 0, False, False, f16, True, True, 64),
        (1, 130, 1, 1, 64, 0.1, 1, 0.5, False, False, f16, False, True, 64), (1, 96, 1, 1, 100, 1, 0.1, 0, False, False, f16, False, False, 64),
        (1, 96, 1, 1, 128, 0.1, 1, 0, True, False, f16, True, False, 64), (1, 130, 1, 1, 64, 0.1, 10, 0, False, True, f16, False, True, 64),
        (1, 75, 1, 2, 64, 0.1, 1, 0, False, True, f16, True, True, 32), (1, 200, 1, 2, 64, 0.1, 1, 0, True, True, bf16, True, False, 64),
        (1, 96, 1, 2, 64, 0.1, 1, 0, False, True, bf16, False, False, 64),
    ],
    "test_chunk_state_v_first": [(1, 63, 1, 64, 1, 1, f16), (1, 75, 2, 60, 1, 1, f16)],
    "test_chunk_use_beta_sigmoid_in_kernel": [(1, 75, 1, 64, True, f16)],
    "test_chunk_varlen": [(1, 60, 0.1, [0, 15], f16, True, False, False, 64), (1, 60, 0.1, [0, 31, 96, 130], f16, True, False, True, 32)],
    "test_chunk_varlen_prefill": [(1, 64, 0.9, [0, 40, 65, 140], f16, True, False, False), (1, 100, 0, [0, 15, 100], f16, False, True, True)],
}
failed = 0
for file, tests in (("test_gdn", GDN), ("test_kda", KDA)):
    theirs = tests_of(file)
    for name, calls in tests.items():
        for args in calls if not only or name in only or file in only else ():
            begin = time.process_time()
            try:
                getattr(theirs, name)(*args)
                said = "pass"
            except Exception as e:
                said, failed = f"FAIL {type(e).__name__}: {str(e)[:300]}", failed + 1
            print(f"{file} {name}{args}: {said} ({time.process_time() - begin:.0f} s)".replace("torch.", ""), flush=True)
sys.exit(1 if failed else 0)
