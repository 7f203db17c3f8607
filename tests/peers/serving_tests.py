"""FlashInfer's own tests of its prefill and vLLM's own tests of states by index, their functions unchanged, through the names of a generated package.

    python serving_tests.py flashinfer|vllm CHECKOUT PACKAGE [TEST...]

CHECKOUT is a checkout of FlashInfer or vLLM (its source archive will do), PACKAGE a folder that `gdngen gen --backend triton --package` wrote. The Python has
torch, triton, numpy and pytest, but neither FlashInfer nor vLLM: of theirs the modules that the tests import are stood for by their few names. Without a GPU
kernels are interpreted, "cuda" means the CPU, and tests are called with fewer heads and shorter sequences than their own table has.
"""

import importlib
import os
import sys
import time
import types

peer, checkout, package, *only = sys.argv[1:]
sys.path[0] = os.path.join(package, "src")  # the folder of this script has a fla.py
import torch  # noqa: E402

device = "cuda" if torch.cuda.is_available() else "cpu"
if device == "cpu":
    os.environ["TRITON_INTERPRET"] = "1"
name = os.path.basename(os.path.normpath(package))
ours = importlib.import_module(name)


def stand(path, **names):
    """A module of theirs that has these names and no more."""
    parts = path.split(".")
    for i in range(1, len(parts) + 1):
        module = sys.modules.setdefault(".".join(parts[:i]), types.ModuleType(".".join(parts[:i])))
        module.__path__ = []
    vars(module).update(names)


class OnCPU:
    """torch, where "cuda" is the CPU."""

    cuda = types.SimpleNamespace(manual_seed=lambda seed: None, synchronize=lambda: None, is_available=lambda: True)

    def __getattr__(self, name):
        return getattr(torch, name)

    def device(self, *_):
        return torch.device("cpu")


def tests_of(folder, file):
    """A file of tests in a folder of the checkout."""
    stand("theirs")
    sys.modules["theirs"].__path__ = [os.path.join(checkout, folder)]
    theirs = importlib.import_module("theirs." + file)
    if device == "cpu":
        theirs.torch = OnCPU()
    return theirs


f16, f32, bf16 = torch.float16, torch.float32, torch.bfloat16


def yes(*_):
    return True


def no(*_):
    return False


def flashinfer():
    """Calls of FlashInfer's tests: of its prefill, and of states of a pool by index."""
    stand("flashinfer.utils", is_sm90a_supported=yes, is_sm100a_supported=no, is_sm12x_supported=no, get_compute_capability=lambda *_: (9, 0))
    stand("flashinfer.gdn_prefill", chunk_gated_delta_rule=ours.flashinfer.chunk_gated_delta_rule)
    prefill, pool = tests_of("tests/gdn", "test_prefill_delta_rule"), tests_of("tests/gdn", "test_prefill_state_indices")
    draw = importlib.import_module("theirs.conftest").gen_qkv
    auto = "auto"
    for dtype in ("float16", "bfloat16"):
        for heads, alpha, beta, scale in (((1, 1, 1), False, True, 1.0), ((4, 1, 1), True, False, 1.0), ((6, 2, 2), True, True, auto), ((1, 1, 2), True, True, 1.0)):
            yield prefill.test_prefill_kernel_basic, (draw, dtype, *heads, 128, 64, [64, 128], scale, alpha, beta, False)
        for lengths in ([31], [251], [31, 63, 93, 123]):
            yield prefill.test_prefill_kernel_nonfull, (draw, dtype, 1, 1, 2, 128, 32, lengths, auto, True, True, False)
        yield prefill.test_prefill_kernel_nonfull, (draw, dtype, 4, 1, 1, 128, 32, [31, 63], 1.0, False, True, True)
        for length in (256, 255):
            yield prefill.test_prefill_kernel_zero_length_sequence, (draw, dtype, 1, 1, 1, length, False)
        yield prefill.test_prefill_zero_length_sequence_state_untouched, (draw, dtype, False)
        yield prefill.test_chunked_prefill, (draw, dtype, 1, 1, 2, 128, 64, [61], [128], auto, True, True)
        yield prefill.test_chunked_prefill, (draw, dtype, 3, 1, 1, 128, 64, [123, 50], [64, 28], 1.0, True, False)
    yield prefill.test_prefill_block_end_decay, (draw,)
    for kind in (bf16, f16, torch.float8_e4m3fn, torch.float8_e5m2):
        yield prefill.test_prefill_kernel_state_dtype, (draw, "bfloat16", 1, 1, 1, 128, [64, 128], auto, kind, False)
    yield prefill.test_prefill_kernel_state_dtype, (draw, "bfloat16", 3, 1, 1, 128, [64], auto, bf16, False)
    for dtype, lengths, pad in ((bf16, [128], 0), (f16, [64, 96, 32], 96)):
        yield pool.test_prefill_state_indices_matches_packed, (dtype, lengths, 2, pad, False)
    for kind in pool.INTEGER_DTYPES:
        yield pool.test_prefill_integer_index_dtypes, (kind, False)
    yield pool.test_prefill_state_indices_preserves_inner_strides, (False,)
    yield pool.test_prefill_state_indices_requires_output_state_pool, ()
    if device == "cuda":  # they have 16 heads and up to 576 tokens
        yield pool.test_prefill_state_indices_without_final_state, (False,)
        yield pool.test_prefill_state_indices_none_is_default, (False,)


def vllm():
    """Calls of vLLM's tests: states of a pool by indices of one and two dimensions, accepted counts, skipped rows, q, k and v in one row."""
    stand("vllm.platforms", current_platform=types.SimpleNamespace(device_type=device, is_cuda_alike=yes, is_cuda=yes, is_xpu=no))
    stand("vllm.utils.torch_utils", set_random_seed=torch.manual_seed)
    ours.serving.FIRST_STATE = 1
    stand("vllm.third_party.flash_linear_attention.ops", **{n: getattr(ours.serving, n) for n in (
        "fused_recurrent_gated_delta_rule", "fused_recurrent_gated_delta_rule_packed_decode", "fused_sigmoid_gating_delta_rule_update")})
    gates, packed = tests_of("tests/kernels/fla", "test_fused_sigmoid_gating_delta_rule"), tests_of("tests/kernels/fla", "test_fused_recurrent_packed_decode")
    for dtype in (f32, bf16):
        for requests in (1, 4):
            yield gates.test_fused_sigmoid_gating_delta_rule_update_non_spec, (1, requests, 1, 2, 128, 128, dtype)
            for drafts in (1, 3):
                yield gates.test_fused_sigmoid_gating_delta_rule_update_spec, (1, requests, 1, 2, 128, 128, drafts, dtype)
    for batch, hk, hv, dtype, state in ((4, 1, 2, f16, f16), (4, 1, 2, bf16, bf16), (4, 1, 2, f32, f32), (1, 1, 4, bf16, f32), (4, 1, 3, bf16, f32), (1, 1, 3, bf16, bf16)):
        yield packed.test_fused_recurrent_packed_decode_matches_reference, (dtype, batch == 1, batch, hk, hv, state)
    yield packed.test_packed_decode_keeps_beta_in_fp32, ()
    if device == "cuda":  # it has 65536 programs
        yield packed.test_packed_decode_supports_large_batch_head_grid, ()


if peer not in ("flashinfer", "vllm"):
    sys.exit(__doc__)
passed = failed = 0
for test, args in globals()[peer]():
    if only and test.__name__ not in only:
        continue
    begin = time.process_time()
    try:
        test(*args)
        said, passed = "pass", passed + 1
    except Exception as e:
        said, failed = f"FAIL {type(e).__name__}: {' '.join(str(e).split())[:300]}", failed + 1
    shown = ", ".join(str(a) for a in args if not callable(a) or isinstance(a, torch.dtype)).replace("torch.", "")
    print(f"{test.__name__}({shown}): {said} ({time.process_time() - begin:.0f} s)", flush=True)
print(f"{passed} passed, {failed} failed")
sys.exit(1 if failed else 0)
