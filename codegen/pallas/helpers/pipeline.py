_FREE = {"slice", "concatenate", "reshape", "squeeze", "broadcast_in_dim"}
_FREE |= {"bitcast", "bitcast_convert_type"}  # they choose registers and emit nothing
_UNITS = {"transpose", "gather", "reduce_sum", "reduce_max", "exp", "exp2", "log"}


def _registers(value: Any) -> int:
    """Vector registers, of 8 rows of 128 words, that a value fills."""
    shape = (1, 1, *value.shape)
    of_rows = 32 // value.dtype.itemsize
    return math.prod(shape[:-2]) * -(-shape[-2] // of_rows) * -(-shape[-1] // 128)


def _inside(eqn: core.JaxprEqn) -> list[core.JaxprEqn]:
    """The equations of a condition or loop."""

    def nests(x: Any) -> bool:
        return hasattr(x, "eqns")

    params = jax.tree.leaves(list(eqn.params.values()), is_leaf=nests)
    return [e for p in params if nests(p) for e in p.eqns]


def _weight(eqn: core.JaxprEqn) -> float:
    """How many bundles of instructions an equation fills, in proportion.

    A bundle holds one push of a register into a matrix unit, one register on the units
    for lanes and powers, two stores, or four registers on the vector unit.
    """
    name = eqn.primitive.name
    if inside := _inside(eqn):
        return sum(_weight(e) for e in inside)
    if name == "dot_general":
        return _registers(eqn.invars[0].aval)
    if name == "swap":
        return _registers(eqn.invars[1].aval) / 2
    made: Any = eqn.outvars[0].aval if eqn.outvars else None
    if name in _FREE or made is None or not made.shape:
        return 0
    return _registers(made) / (1 if name in _UNITS else 4)


def _moves_blocks(eqn: core.JaxprEqn) -> bool:
    """Whether an equation begins or awaits copies under a condition."""
    inside = _inside(eqn)
    return any(e.primitive.name.startswith("dma") or _moves_blocks(e) for e in inside)


def _times(
    eqns: list[core.JaxprEqn], phase: str, spans: dict[str, tuple[float, float]]
) -> list[float]:
    """When the equations of a phase are due, in its time slot.

    Each has a share, by its weight, of the span of its phase, or of its stage where
    that has one: stages are named scopes. None is due before what it needs. Copies
    come last: conditions part what the compiler schedules. Where spans have a piece,
    what is due within it is due when it begins.
    """
    scopes = [str(e.source_info.name_stack).split("/") for e in eqns]
    parts = [next((s for s in names[::-1] if s in spans), phase) for names in scopes]
    weights = [_weight(e) for e in eqns]
    total, done = dict.fromkeys(parts, 0.0), dict.fromkeys(parts, 0.0)
    for part, weight in zip(parts, weights, strict=True):
        total[part] += weight
    piece = spans.get("piece", (0.0, 0.0))[1]
    # values and what references hold; when they are read
    made: dict[core.Var, float] = {}
    read: dict[core.Var, float] = {}
    times: list[float] = []
    for eqn, part, weight in zip(eqns, parts, weights, strict=True):
        begin, end = spans[part]
        share = (done[part] + weight / 2) / max(total[part], 1)
        done[part] += weight
        args = [x for x in eqn.invars if isinstance(x, core.Var)]
        loads = eqn.primitive.name == "get"
        needs = [made.get(x, 0.0) for x in args]
        needs += [read.get(x, 0.0) for x in args if not loads]
        last = float(_moves_blocks(eqn))
        time = begin + (end - begin) * share
        times.append(max(time // piece * piece if piece else time, last, *needs))
        made.update(dict.fromkeys(eqn.outvars, times[-1]))
        held = {x: times[-1] for x in args if _is_ref(x)}
        (read if loads else made).update(held)
    return times


def _is_ref(x: core.Var) -> bool:
    return hasattr(x.aval, "inner_aval")


def _interleave(
    refs: Any, spans: dict[str, tuple[float, float]], *phases: tuple[int, str, Callable]
) -> None:
    """Issues the work of several phases side by side.

    The compiler of a TPU keeps the order of a kernel to a large degree, so what may
    run at the same time must stand side by side. Each phase, a time slot, a name and a
    function of the references, is traced by itself; then their equations are issued
    by the times at which they are due.
    """
    flat, tree = jax.tree.flatten(refs)
    inputs, values, due = [], [], []
    for slot, name, run in phases:
        traced = _traced(run, flat, tree)
        jaxpr = traced.jaxpr
        inputs += [*jaxpr.constvars, *jaxpr.invars]
        values += [*traced.consts, *flat]
        times = _times(jaxpr.eqns, name, spans)
        due += [(slot + t, slot, e) for t, e in zip(times, jaxpr.eqns, strict=True)]
    eqns = [e for _, _, e in sorted(due, key=lambda x: x[:2])]
    merged = jaxpr.replace(constvars=[], invars=inputs, outvars=[], eqns=eqns)
    core.jaxpr_as_fun(core.ClosedJaxpr(merged, []))(*values)


def _traced(run: Callable, flat: list[Any], tree: Any) -> core.ClosedJaxpr:
    """The equations of a phase."""

    def phase(*refs: Ref) -> None:
        run(tree.unflatten(refs))

    return jax.make_jaxpr(phase)(*flat)
