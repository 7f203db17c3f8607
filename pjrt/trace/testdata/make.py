"""Makes the traces of this folder and what XProf's own command line says of them.

  python -m venv v && v/bin/pip install jax==0.10.2 xprof==2.24.2
  v/bin/python make.py v/bin/xprof

cpu.*: six steps of a small program, profiled by JAX on a CPU. tpu-*.xplane.pb: an XSpace with the layout of a trace of a TPU, since there is none here:
loops that hold ops, asynchronous copies, steps of several lengths; after is before with a faster kernel and a loop around more ops. XProf reads them
as traces of a TPU; it wants program_id and symbol_id of each instruction. two-* and one-*: two programs with an instruction of one name, of two names and
of one.
"""
import glob, json, os, shutil, subprocess, sys, tempfile

os.environ.setdefault("JAX_PLATFORMS", "cpu")
import jax
import jax.numpy as jnp
from jax.profiler import ProfileData

jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")  # names of files, without folders
here = os.path.dirname(os.path.abspath(__file__))
at = lambda name: os.path.join(here, name)


def cpu():
    @jax.jit
    def step(a):
        with jax.named_scope("products"):
            x = a @ a
        with jax.named_scope("state"):
            return jax.lax.fori_loop(0, 3, lambda i, s: jnp.tanh(s @ x), x)

    a = jnp.ones((192, 192))
    step(a).block_until_ready()
    o = jax.profiler.ProfileOptions()
    o.python_tracer_level = 0
    with tempfile.TemporaryDirectory() as d:
        jax.profiler.start_trace(d, profiler_options=o)
        for i in range(6):
            with jax.profiler.StepTraceAnnotation("train", step_num=i):
                step(a).block_until_ready()
        jax.profiler.stop_trace()
        for form in "xplane.pb", "trace.json.gz":
            shutil.copy(glob.glob(f"{d}/plugins/profile/*/*.{form}")[0], at(f"cpu.{form}"))


STATS = ["hlo_category", "tf_op", "source", "flops", "model_flops", "bytes_accessed", "program_id", "symbol_id", "group_id",
         "peak_teraflops_per_second", "peak_hbm_bw_gigabytes_per_second", "device_type_string"]
ID = {name: i for i, name in enumerate(STATS, 1)}
OPS = {  # name: number, text, category, scope, source, flops, bytes
    "while.4": (1, "%while.4 = (s32[], bf16[8]) while(...)", "while", "jit(step)/scan", "layer.py:40", 0, 0),
    "gated_delta_rule.1": (2, "%gated_delta_rule.1 = bf16[1,4096,8,128] custom-call(...)", "custom-call", "jit(step)/layer/gdn/pallas_call", "gdr.py:10", 0, 0),
    "fusion.2": (3, "%fusion.2 = f32[8] fusion(...)", "loop fusion", "jit(step)/layer/norm/mul", "layer.py:20", 4000, 8000),
    "dot.3": (4, "%dot.3 = bf16[8] fusion(...)", "convolution fusion", "jit(step)/layer/project/dot_general", "layer.py:30", 2000000000, 6000000),
    "while.9": (5, "%while.9 = (s32[], f32[8]) while(...)", "while", "jit(step)/layer/while", "layer.py:44", 0, 0),
    "copy.7": (6, "%copy.7 = bf16[8] copy(...)", "data formatting", "jit(step)/layer/transpose", "layer.py:50", 0, 16000),
    "copy-start.1": (7, "%copy-start.1 = (bf16[8], bf16[8], u32[]) copy-start(...)", "async-start", "jit(step)/prefetch", "layer.py:60", 0, 0),
}


def stat(name, value):
    kind = "str_value" if isinstance(value, str) else "double_value" if isinstance(value, float) else "uint64_value"
    text = json.dumps(value) if isinstance(value, str) else repr(value)
    return f"stats {{ metadata_id: {ID[name]} {kind}: {text} }} "


def tpu(file, kernel, inner):
    """kernel is the time of the rule in ps, inner that of a loop which it needs around it."""
    ops, steps, modules, copies, t = [], [], [], [], 0
    for s in range(8):
        begin, slow = t, 9_000_003 if s == 0 else 1_000 * s  # the first step is slow, as those that compile are
        loop = len(ops)
        ops.append(["while.4", t, 0])
        for name, duration in ("fusion.2", 5_000_001), ("gated_delta_rule.1", kernel), ("fusion.2", 2_500_007):
            ops.append([name, t, duration + slow])
            t += duration + slow
        if inner:
            ops.append(["while.9", t, inner])
            ops.append(["copy.7", t + 1_000_000, inner // 2])
            ops.append(["copy.7", t + 1_000_000 + inner // 2, inner // 4])
            t += inner
        t += 2_000_000
        ops[loop][2] = t - ops[loop][1]
        copies.append(["copy-start.1", begin, 12_000_000])
        t += 3_000_000  # nothing runs
        ops.append(["dot.3", t, 10_000_000])
        t += 10_000_000
        steps.append([str(s), begin, t - begin])
        modules.append(["jit_step(77)", begin, t - begin])
        t += 2_000_000
    names = {name: row[0] for name, row in OPS.items()} | {"jit_step(77)": 50} | {str(s): 100 + s for s in range(8)}
    x = 'planes { id: 2 name: "/device:TPU:0" ' + stat("peak_teraflops_per_second", 918.0) + stat("peak_hbm_bw_gigabytes_per_second", 1638.0) + stat("device_type_string", "TPU v6 lite")
    for i, name in enumerate(STATS, 1):
        x += f'stat_metadata {{ key: {i} value {{ id: {i} name: "{name}" }} }} '
    for name, i in names.items():
        x += f"event_metadata {{ key: {i} value {{ id: {i} "
        if name in OPS:
            _, text, category, scope, source, flops, size = OPS[name]
            x += f'name: "{text}" display_name: "{name}" ' + stat("hlo_category", category) + stat("tf_op", scope + ":") + stat("source", source)
            x += stat("flops", flops) + stat("model_flops", flops) + stat("bytes_accessed", size) + stat("program_id", 77) + stat("symbol_id", i)
        else:
            x += f'name: "{name}" '
        x += "} } "
    for i, (line, events) in enumerate([("Steps", steps), ("XLA Modules", modules), ("XLA Ops", ops), ("Async XLA Ops", copies)], 1):
        x += f'lines {{ id: {i} name: "{line}" timestamp_ns: 1000 '
        for name, a, d in events:
            group = stat("group_id", int(name)) if line == "Steps" else ""
            x += f"events {{ metadata_id: {names[name]} offset_ps: {a} duration_ps: {d} {group}}} "
        x += "} "
    x += '} hostnames: "t1v-n-0" '
    open(at(file), "wb").write(ProfileData.text_proto_to_serialized_xspace(x))


def plane(file, text, stats):
    """An XSpace of one plane, with a table of the names of its stats."""
    table = "".join(f'stat_metadata {{ key: {i} value {{ id: {i} name: "{name}" }} }} ' for i, name in enumerate(stats, 1))
    open(at(file), "wb").write(ProfileData.text_proto_to_serialized_xspace(f"planes {{ id: 2 {text} {table} }}"))


def two_tpu():
    """A training step of 1 us and an evaluation of 9 us, each with an instruction fusion.2."""
    x = 'name: "/device:TPU:0" ' + stat("device_type_string", "TPU v6 lite") + stat("peak_teraflops_per_second", 918.0)
    lines = {"Steps": "", "XLA Modules": "", "XLA Ops": ""}

    def event(number, begin, duration):
        return f"events {{ metadata_id: {number} offset_ps: {begin} duration_ps: {duration} }} "

    for i, (program, name, scope, duration) in enumerate([(7, "train", "gdn/mul", 1_000_000), (9, "evaluate", "attention/dot_general", 9_000_000)], 1):
        x += f'event_metadata {{ key: {i} value {{ id: {i} name: "%fusion.2 = f32[8] fusion(...)" display_name: "fusion.2" '
        x += stat("hlo_category", "loop fusion") + stat("tf_op", f"jit({name})/{scope}:") + stat("program_id", program) + "} } "
        x += f'event_metadata {{ key: {10 + i} value {{ id: {10 + i} name: "jit_{name}({program})" }} }} '
        for step in range(8):
            begin = 11_000_000 * step + 1_000_000 * (i - 1)
            lines["XLA Ops"] += event(i, begin, duration)
            lines["XLA Modules"] += event(10 + i, begin, duration)
    for step in range(8):
        x += f'event_metadata {{ key: {100 + step} value {{ id: {100 + step} name: "{step}" }} }} '
        lines["Steps"] += event(100 + step, 11_000_000 * step, 10_000_000)
    for i, (name, events) in enumerate(lines.items(), 1):
        x += f'lines {{ id: {i} name: "{name}" timestamp_ns: 1000 {events}}} '
    plane("two-tpu.xplane.pb", x, STATS)


def gpu():
    """Kernels whose tf_op says that there is a program, and whose path is in the stat name."""
    stats = ["hlo_op", "hlo_module", "program_id", "tf_op", "name"]
    x = 'name: "/device:GPU:0" lines { id: 1 name: "Stream #13(Compute)" timestamp_ns: 1000 '
    for step in range(8):
        for number, op, path, begin, duration in (1, "gemm_fusion_dot.3", "gdn/dot_general", 0, 5_000_000), (2, "loop_add_fusion", "mlp/add", 6_000_000, 2_000_000):
            values = [f'str_value: "{op}"', 'str_value: "jit_step"', "uint64_value: 5", 'str_value: "XlaModule:"', f'str_value: "jit(step)/layer/{path}"']
            x += f"events {{ metadata_id: {number} offset_ps: {10_000_000 * step + begin} duration_ps: {duration} "
            x += "".join(f"stats {{ metadata_id: {i} {v} }} " for i, v in enumerate(values, 1)) + "} "
    x += '} event_metadata { key: 1 value { id: 1 name: "gemm_fusion_dot_3" } } event_metadata { key: 2 value { id: 2 name: "loop_add_fusion" } }'
    plane("gpu.xplane.pb", x, stats)


def two_programs(file, names):
    """A small and a large program on a CPU, each with an instruction of the same name."""

    def small(x):
        with jax.named_scope("train/gdn"):
            return jnp.tanh(x) * x

    def large(x):
        with jax.named_scope("eval/attention"):
            return jnp.tanh(x) * x

    small.__name__, large.__name__ = names
    calls = [(jax.jit(small), jnp.ones((64, 64))), (jax.jit(large), jnp.ones((1500, 1500)))]
    for f, x in calls:
        f(x).block_until_ready()
    o = jax.profiler.ProfileOptions()
    o.python_tracer_level = 0
    with tempfile.TemporaryDirectory() as d:
        jax.profiler.start_trace(d, profiler_options=o)
        for i in range(8):
            with jax.profiler.StepTraceAnnotation("train", step_num=i):
                for f, x in calls:
                    f(x).block_until_ready()
        jax.profiler.stop_trace()
        shutil.copy(glob.glob(f"{d}/plugins/profile/*/*.xplane.pb")[0], at(f"{file}.xplane.pb"))


def xprof(command, file, keep, *flags):
    """What XProf says: one record a line, without those of its fields that are not times, counts and names."""
    with tempfile.TemporaryDirectory() as d:
        run = f"{d}/plugins/profile/run"
        os.makedirs(run)
        shutil.copy(at(f"{file}.xplane.pb"), run)
        said = json.loads(subprocess.run([sys.argv[1], command, f"--session_id={run}", *flags], capture_output=True, check=True).stdout)
    rows = [{k: r[k] for k in keep if k in r} for r in said.get("records", said.get("aggregates"))]
    open(at(f"{file}.xprof.json"), "w").write("[\n" + ",\n".join(json.dumps(r) for r in rows) + "\n]\n")


if "--keep" not in sys.argv:
    cpu()
    tpu("tpu-before.xplane.pb", 20_000_011, 0)
    tpu("tpu-after.xplane.pb", 12_000_005, 8_000_000)
    two_tpu()
    gpu()
    two_programs("two-cpu", ["small", "large"])
    two_programs("one-cpu", ["step", "step"])
for name in "tpu-before", "tpu-after":
    xprof("get_hlo_stats", name, ["op_name", "category", "tf_op_name", "occurrences", "total_time_us", "total_self_time_us"], "--limit=100")
xprof("aggregate_xplane_events", "cpu", ["event", "count", "total_duration_ps"])
