#: ALL constant
_ALL = np.uint32(0xFFFFFFFF)

#: HIGH constant
_HIGH = np.uint32(0xFFFF0000)  # the upper of two bf16 in a word

#: pool constant
_SLOTS, _AHEAD = 4, 2  # steps whose states are in VMEM, and how long before their own

#: interleave constant
T = TypeVar("T")
Work = Generator[int, None, T]  # yields how long it waits, a chunk taking 10 000

#: pin
def _pin(x: jax.Array, interpret: bool) -> jax.Array:
    """An operand that stays in main memory."""
    return x if interpret else pltpu.with_memory_space_constraint(x, pltpu.HBM)

#: pinned
def _pinned(
    shape: tuple[int, ...], dtype: jnp.dtype, interpret: bool
) -> jax.ShapeDtypeStruct | pl.MemoryRef:
    """The type of a result that stays in main memory."""
    return jax.ShapeDtypeStruct(shape, dtype) if interpret else pltpu.HBM(shape, dtype)

#: f32
def _f32(x: jax.Array) -> jax.Array:
    return x.astype(jnp.float32)

#: bf16
def _bf16(x: jax.Array) -> jax.Array:
    return x.astype(jnp.bfloat16)

#: dot
def _dot(a: jax.Array, b: jax.Array) -> jax.Array:
    """a [m, k] times b [k, n], summed in float32."""
    return _dot_general(a, b, 1, 0)

#: dot_nt
def _dot_nt(a: jax.Array, b: jax.Array) -> jax.Array:
    """a [m, k] times the transpose of b [n, k], summed in float32."""
    return _dot_general(a, b, 1, 1)

#: dot_tn
def _dot_tn(a: jax.Array, b: jax.Array) -> jax.Array:
    """The transpose of a [k, m] times b [k, n], summed in float32."""
    return _dot_general(a, b, 0, 0)

#: dot_tt
def _dot_tt(a: jax.Array, b: jax.Array) -> jax.Array:
    """The transpose of a [k, m] times that of b [n, k], summed in float32."""
    return _dot_general(a, b, 0, 1)

#: dot_general
def _dot_general(a: jax.Array, b: jax.Array, i: int, j: int) -> jax.Array:
    exact = a.dtype == jnp.bfloat16 and b.dtype == jnp.bfloat16
    return lax.dot_general(
        a,
        b,
        (((i,), (j,)), ((), ())),
        precision=None if exact else lax.Precision.HIGHEST,
        preferred_element_type=jnp.float32,
    )

#: words
def _words(x: jax.Array) -> jax.Array:
    """Pairs of bf16 rows as rows of u32 words: [2n, m] to [n, m]."""
    return pltpu.bitcast(x, jnp.uint32)

#: halves
def _halves(words: jax.Array) -> jax.Array:
    """The bf16 rows of u32 words: [n, m] to [2n, m]."""
    return pltpu.bitcast(words, jnp.bfloat16)

#: pack
def _pack(low: jax.Array, high: jax.Array, interpret: bool) -> jax.Array:
    """u32 words of two float32 rounded to bf16."""
    if not interpret:
        return pltpu.pack_elementwise([low, high], packed_dtype=jnp.bfloat16)

    def bits(x: jax.Array) -> jax.Array:
        rounded = x.astype(jnp.bfloat16).astype(jnp.float32)
        return lax.bitcast_convert_type(rounded, jnp.uint32)

    return bits(low) >> 16 | bits(high)  # interpret mode has no packing

#: store_words
def _store_words(
    ref: Ref, start: int, stride: int, words: jax.Array, interpret: bool
) -> None:
    """Writes words to the pairs of bf16 rows start, start + stride, ..."""
    n = words.shape[0]
    if not interpret:
        ref.bitcast(jnp.uint32)[pl.ds(start, n, stride=stride), :] = words
        return
    rows = _halves(words).reshape(n, 2, -1)
    for half in range(2):  # interpret mode stores through no bitcast
        ref[pl.ds(2 * start + half, n, stride=2 * stride), :] = rows[:, half]

#: interleave
def _interleave(*tasks: tuple[float, Work[None]]) -> None:
    """Issues the work of several phases side by side.

    The compiler of a TPU keeps the order of a kernel's text to a large degree, so
    what may run at the same time must stand side by side. Each phase begins at its
    time in chunks, and gives way whenever its next piece is due after another's.
    """
    queue = [(start, i) for i, (start, _) in enumerate(tasks)]
    heapq.heapify(queue)
    while queue:
        time, i = heapq.heappop(queue)
        wait = next(tasks[i][1], None)
        if wait is not None:
            heapq.heappush(queue, (time + wait / 10_000, i))

#: beside
def _beside(*lines: Work[Any]) -> Work[list[Any]]:
    """Issues lines of work of one phase side by side and returns their results."""
    results = [None] * len(lines)
    queue = [(0, i) for i in range(len(lines))]
    now = 0
    while queue:
        due, i = heapq.heappop(queue)
        if due > now:
            yield due - now
            now = due
        try:
            heapq.heappush(queue, (due + next(lines[i]), i))
        except StopIteration as stop:
            results[i] = stop.value
    return results

#: pool
def _over_pool(
    indices: jax.Array,
    kernel: Callable,
    *,
    grid: tuple[int, ...],
    in_specs: list[pl.BlockSpec],
    out_specs: list[pl.BlockSpec],
    out_shape: tuple[jax.ShapeDtypeStruct, ...],
    compiler_params: pltpu.CompilerParams,
    **options: Any,
) -> Callable:
    """A pallas_call whose last operand and result are a pool of states [P, ...].

    The pool stays in main memory, and a row's state is read and written where indices
    say; a row of an index that no state has, as -1, has none, and its o is 0.
    """
    hbm, states = pl.BlockSpec(memory_space=pltpu.HBM), in_specs[-1].block_shape
    semaphores = pltpu.SemaphoreType.DMA((_SLOTS,))

    def looked(spec: pl.BlockSpec) -> pl.BlockSpec:
        """A window of a grid that has a table."""
        return pl.BlockSpec(spec.block_shape, lambda *at: spec.index_map(*at[:-1]))

    def call(*args: jax.Array) -> tuple[jax.Array, jax.Array]:
        pool = args[-1]
        return pl.pallas_call(
            functools.partial(_pool_kernel, kernel, rows=states[0]),
            grid_spec=pltpu.PrefetchScalarGridSpec(
                num_scalar_prefetch=1,
                grid=grid,
                in_specs=[*map(looked, in_specs[:-1]), hbm],
                out_specs=[looked(out_specs[0]), hbm],
                scratch_shapes=[
                    pltpu.VMEM((_SLOTS, *states), pool.dtype),
                    semaphores,
                    semaphores,
                ],
            ),
            out_shape=(out_shape[0], jax.ShapeDtypeStruct(pool.shape, pool.dtype)),
            input_output_aliases={len(args): 1},
            compiler_params=dataclasses.replace(
                compiler_params, dimension_semantics=len(grid) * ("arbitrary",)
            ),
            **options,
        )(indices, *args)

    return call

#: pool_kernel
def _pool_kernel(kernel: Callable, table: Ref, *refs: Ref, rows: int) -> None:
    """One step: states are copied to VMEM steps before, and leave in steps after."""
    *inputs, pool, o, after, slots, arrived, left = refs
    step, last, behind = pl.program_id(0), pl.num_programs(0) - 1, _SLOTS - _AHEAD

    def named(index: jax.Array) -> jax.Array:
        """A copy that is not of a state of the pool would be of anything."""
        return (index >= 0) & (index < pool.shape[0])

    def each(step: jax.Array, method: str, leaves: bool = False) -> None:
        """Starts or awaits the copies of the states of a step."""
        slot = lax.rem(step, _SLOTS)
        for row in range(rows):
            index, state = table[step * rows + row], slots.at[slot, row]
            source, target, semaphore = pool.at[index], state, arrived.at[slot]
            if leaves:
                source, target, semaphore = state, after.at[index], left.at[slot]
            copy = pltpu.make_async_copy(source, target, semaphore)
            pl.when(named(index))(getattr(copy, method))

    @pl.when(step == 0)
    def _():
        for i in range(_AHEAD):
            pl.when(i <= last)(functools.partial(each, i, "start"))

    @pl.when(step >= behind)
    def _():
        each(step - behind, "wait", leaves=True)

    @pl.when(step + _AHEAD <= last)
    def _():
        each(step + _AHEAD, "start")

    each(step, "wait")
    states = slots.at[lax.rem(step, _SLOTS)]
    kernel(*inputs, states, o, states)
    each(step, "start", leaves=True)
    for row in range(rows):

        @pl.when(~named(table[step * rows + row]))
        def _(row=row):
            o[row] = jnp.zeros(o.shape[1:], o.dtype)

    @pl.when(step == last)
    def _():
        for i in reversed(range(behind)):
            pl.when(i <= last)(functools.partial(each, last - i, "wait", leaves=True))

#: ragged
def _ragged_call(
    kernel: Callable,
    *,
    in_specs: list[pl.BlockSpec],
    compiler_params: pltpu.CompilerParams,
    **options: Any,
) -> Callable:
    """A pallas_call whose arrays of tokens may end within a block.

    What a window shows behind the end of its array is undefined, and may be no number:
    the step that has it sets it to 0. What is written there is dropped.
    """

    def clear(ref: Ref, rows: int) -> None:
        """Keeps the first rows of a block; stores to others begin at whole tiles."""
        block, tile = ref.shape[1], math.gcd(ref.shape[1], 32)
        begin = rows // tile * tile
        edge = ref[:, begin : begin + tile].astype(jnp.float32)
        inside = lax.broadcasted_iota(jnp.int32, edge.shape, 1) < rows - begin
        ref[:, begin : begin + tile] = jnp.where(inside, edge, 0.0).astype(ref.dtype)
        if begin + tile < block:
            rest = (ref.shape[0], block - begin - tile, *ref.shape[2:])
            ref[:, begin + tile :] = jnp.zeros(rest, ref.dtype)

    def call(*args: jax.Array) -> Any:
        ends = []  # windows, and which of their blocks has how many rows
        for i, (x, spec) in enumerate(zip(args, in_specs, strict=True)):
            if rows := x.shape[1] % spec.block_shape[1]:
                ends.append((i, x.shape[1] // spec.block_shape[1], rows))

        def run(*refs: Ref) -> None:
            at = [pl.program_id(i) for i in range(len(options["grid"]))]
            for i, last, rows in ends:
                here = in_specs[i].index_map(*at)[1] == last
                pl.when(here)(functools.partial(clear, refs[i], rows))
            kernel(*refs)

        body, params = kernel, compiler_params
        if ends:  # not all blocks lie inside their arrays
            body = run
            params = dataclasses.replace(params, disable_bounds_checks=False)
        return pl.pallas_call(
            body, in_specs=in_specs, compiler_params=params, **options
        )(*args)

    return call
