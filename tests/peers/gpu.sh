#!/usr/bin/env bash
# What settles most on a machine with one GPU, in order, within fifteen minutes: numbers first, then times. Each step has a limit and leaves a file in OUT.
#
#     CUBINS=FOLDER tests/peers/gpu.sh OUT [FLA [FLASHINFER [VLLM]]]
#
# Run it in a checkout. FLA, FLASHINFER and VLLM are checkouts, whose tests are left out where none is given. python3 (or $PYTHON) has torch, triton, numpy
# and pytest; fla-core and einops for times beside it. gdngen is built by go, or $GDNGEN names one. CUBINS has what the pinned Triton compiled, by
# `python tests/peers/torch_cubins.py make PACKAGE FOLDER 90` with PACKAGE of the name gdr, for a machine with another Triton.
# DRY=1 runs it where no GPU is: what the interpreter can compute, small, and of the rest that it ends for want of a GPU.
set -u
out=${1:?a folder for the results}
fla=${2:-}
flashinfer=${3:-}
vllm=${4:-}
python=${PYTHON:-python3}
dry=${DRY:-}
seconds=${SECONDS_IN_ALL:-870}
mkdir -p "$out"
out=$(cd "$out" && pwd)
gdngen=${GDNGEN:-$out/gdngen}
[ -x "$gdngen" ] || go build -o "$gdngen" ./cmd/gdngen || exit 1
export GDNGEN_TRITON=${GDNGEN_TRITON:-$(command -v "$python")} PYTHONUNBUFFERED=1 PYTHONPYCACHEPREFIX="$out/pycache" FLA_FLASH_QLA=0
failed=0
: > "$out/steps"

# step NAME SECONDS COMMAND...
step() {
  local name=$1 most=$2 left=$((seconds - SECONDS)) begun=$SECONDS status
  shift 2
  if [ "$left" -lt 20 ]; then echo "$name: no time left" | tee -a "$out/steps"; failed=1; return; fi
  timeout $((most < left ? most : left)) "$@" > "$out/$name.txt" 2>&1
  status=$?
  [ "$status" = 0 ] || failed=1
  echo "$name: status $status in $((SECONDS - begun)) s" | tee -a "$out/steps"
}

# absent NAME COMMAND...: for a dry run, a command of gdngen's that must end with status 6, as no GPU is here
absent() {
  local name=$1 status
  shift
  timeout 60 "$@" > "$out/$name.txt" 2>&1
  status=$?
  [ "$status" = 6 ] || failed=1
  echo "$name: status $status, 6 is wanted" | tee -a "$out/steps"
}

"$gdngen" gen --spec bench --backend triton --package "$out/gdr" > /dev/null || exit 1
"$gdngen" gen --backend triton --package "$out/contest" > /dev/null || exit 1
if [ -n "$dry" ]; then
  absent selftest "$gdngen" device selftest --target h100 -o json
  absent calibrate "$gdngen" device calibrate --attached --out "$out/table.json"
  CASES=1 step cubins 300 "$python" tests/peers/torch_cubins.py make "$out/gdr" "$out/cubins" 90
  step gradients 300 env PYTHONPATH="$out/gdr/src" "$python" -m pytest -q "$out/gdr/tests" -k 'state_v_first or null_block'
  step times 300 "$python" tests/peers/torch_times.py "$out/gdr" --small
  step compiles 60 "$python" -m py_compile tests/peers/torch_replays.py "$out/contest/benchmark.py"
  [ -z "$fla" ] || step fla 300 "$python" tests/peers/fla_tests.py "$fla" "$out/gdr" test_chunk_state_v_first
  [ -z "$flashinfer" ] || step flashinfer 300 "$python" tests/peers/serving_tests.py flashinfer "$flashinfer" "$out/gdr" test_prefill_zero_length_sequence_state_untouched
  [ -z "$vllm" ] || step vllm 300 "$python" tests/peers/serving_tests.py vllm "$vllm" "$out/gdr" test_packed_decode_keeps_beta_in_fp32
  exit $failed
fi
step machine 30 "$python" -c 'import torch, triton; print(torch.__version__, triton.__version__, torch.cuda.get_device_properties(0))'
step selftest 150 "$gdngen" device selftest --target h100 -o json         # kernels of every form against float64, and probes of what Triton compiled wrongly
[ -z "${CUBINS:-}" ] || step cubins 60 "$python" tests/peers/torch_cubins.py run "$out/gdr" "$CUBINS" # gradients by cubins against float64
step gradients 120 env PYTHONPATH="$out/gdr/src" "$python" -m pytest -q "$out/gdr/tests" # functions of torch, forward and backward, against float64
step replays 40 "$python" tests/peers/torch_replays.py "$out/gdr"         # a graph replayed on other lengths and states, to the bit
[ -z "$fla" ] || step fla 120 "$python" tests/peers/fla_tests.py "$fla" "$out/gdr"
[ -z "$flashinfer" ] || step flashinfer 60 "$python" tests/peers/serving_tests.py flashinfer "$flashinfer" "$out/gdr"
[ -z "$vllm" ] || step vllm 40 "$python" tests/peers/serving_tests.py vllm "$vllm" "$out/gdr"
step times 150 "$python" tests/peers/torch_times.py "$out/gdr"            # as FlashQLA measures: a graph, warm, 100 repeats
step contest 90 "$python" "$out/contest/benchmark.py" --json "$out/contest.json"
step calibrate 90 "$gdngen" device calibrate --attached --out "$out/table.json"
command -v compute-sanitizer > /dev/null && step memcheck 90 env PYTHONPATH="$out/gdr/src" compute-sanitizer --tool memcheck --error-exitcode 9 "$python" -m pytest -q "$out/gdr/tests" -k 'packed or windows'
exit $failed
