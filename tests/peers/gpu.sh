#!/usr/bin/env bash
# What settles most on a machine with one GPU, in order, within fifteen minutes: numbers first, then times. Each step has a limit and leaves a file in OUT.
#
#     tests/peers/gpu.sh OUT [FLA]
#
# Run it in a checkout. FLA is a checkout of flash-linear-attention; without it its tests are left out. python3 (or $PYTHON) has torch, triton as pinned,
# numpy and pytest; fla-core and einops for times beside it. gdngen is built by go, or $GDNGEN names one.
set -u
out=${1:?a folder for the results}
fla=${2:-}
python=${PYTHON:-python3}
seconds=${SECONDS_IN_ALL:-870}
mkdir -p "$out"
gdngen=${GDNGEN:-$out/gdngen}
[ -x "$gdngen" ] || go build -o "$gdngen" ./cmd/gdngen || exit 1
export GDNGEN_TRITON=${GDNGEN_TRITON:-$(command -v "$python")} PYTHONUNBUFFERED=1 FLA_FLASH_QLA=0
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

"$gdngen" gen --spec bench --backend triton --package "$out/gdr" > /dev/null || exit 1
"$gdngen" gen --backend triton --package "$out/contest" > /dev/null || exit 1
step machine 30 "$python" -c 'import torch, triton; print(torch.__version__, triton.__version__, torch.cuda.get_device_properties(0))'
step selftest 150 "$gdngen" selftest --target h100 -o json                # kernels of every form against float64
step gradients 150 "$python" -m pytest -q "$out/gdr/tests"                # functions of torch, forward and backward, against float64
step replays 40 "$python" tests/peers/torch_replays.py "$out/gdr"         # a graph replayed on other lengths and states, to the bit
[ -z "$fla" ] || step fla 150 "$python" tests/peers/fla_tests.py "$fla" "$out/gdr"
step times 150 "$python" tests/peers/torch_times.py "$out/gdr"            # as FlashQLA measures: a graph, warm, 100 repeats
step contest 90 "$python" "$out/contest/benchmark.py" --json "$out/contest.json"
step calibrate 90 "$gdngen" calibrate --device --out "$out/table.json"
command -v compute-sanitizer > /dev/null && step memcheck 120 compute-sanitizer --tool memcheck --error-exitcode 9 "$python" -m pytest -q "$out/gdr/tests" -k 'packed or windows'
exit $failed
