#: Tiles constant
Tiles = list[jax.Array]

#: ALL constant
_ALL = np.uint32(0xFFFFFFFF)

#: HIGH constant
_HIGH = np.uint32(0xFFFF0000)  # the upper of two bf16 in a word

#: EXPONENTS constant
_EXPONENTS = np.uint32(0x7F807F80)  # of the two bf16 of a word

#: ONES constant
_ONES = np.uint32(0x00800080)  # what makes an exponent of ones, of no number, overflow

#: SIGNS constant
_SIGNS = np.uint32(0x80008000)  # where it overflows to

#: HUGE constant
_HUGE = 0x00800080  # a bit of each exponent: without it NaN is about 2**127

#: LARGE constant
_LARGE = 0x08000800  # a bit of each exponent: without it NaN is about 2**112

#: MIDDLE constant
_MIDDLE = 0x40004000  # a bit of each exponent: without it NaN is about 1

#: SCALE constant
_SCALE = {scale}  # of q, or of what is made of it

#: FLOOR constant
_FLOOR = -40.0  # of a log decay: exp(-40) is nothing beside what is kept

#: LOG2E constant
_LOG2E = 1.4426950408889634  # decays are powers of 2

#: HELD constant
_HELD = -57.7077439277569  # below: a log decay at its floor, in powers of 2

#: LEAST constant
_LEAST = 1e-20  # beta: its logarithm is taken

#: Sizes
class _Sizes(NamedTuple):
    """What the kernels are run for."""

    rows: int  # of a batch, or packed sequences
    steps: int
    interpret: bool

#: pin
@jax.custom_batching.custom_vmap
def _in_hbm(x: jax.Array) -> jax.Array:
    return pltpu.with_memory_space_constraint(x, pltpu.HBM)


@_in_hbm.def_vmap
def _in_hbm_mapped(_size: int, mapped: list[bool], x: jax.Array):
    return _in_hbm(x), mapped[0]  # the constraint has no rule for vmap


def _pin(x: jax.Array, interpret: bool) -> jax.Array:
    """An operand that stays in main memory."""
    return x if interpret else _in_hbm(x)

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

#: stacked
def _stacked(*rows: Tiles) -> jax.Array:
    return jnp.concatenate([x for row in rows for x in row], axis=0)

#: joined
def _joined(columns: Tiles) -> jax.Array:
    return jnp.concatenate(columns, axis=1)

#: woven
def _woven(*lists: list[Any]) -> list[Any]:
    """The first of each list, then the second of each, ..."""
    return [x for xs in zip(*lists, strict=True) for x in xs]

#: word_mask
def _word_mask(low: jax.Array, upper: jax.Array) -> jax.Array:
    """Words of two bf16, all ones where the lower one is meant, and the upper one."""
    zero = np.uint32(0)
    return jnp.where(low, np.uint32(0xFFFF), zero) | jnp.where(upper, _HIGH, zero)

#: half
def _half(words: jax.Array, half: int) -> jax.Array:
    """The lower or the upper bf16 of words, as float32."""
    bits = words & _HIGH if half else words << np.uint32(16)
    return lax.bitcast_convert_type(bits, jnp.float32)

#: rows
def _rows(ref: Ref, start: int, n: int, stride: int) -> jax.Array:
    """The bf16 rows start, start + stride, ... of a reference, as float32."""
    words = ref.bitcast(jnp.uint32)[pl.ds(start // 2, n, stride=stride // 2)]
    return _half(words, start % 2)

#: take
def _take(x: jax.Array, lanes: jax.Array) -> jax.Array:
    """In each row the lanes that are named."""
    if x.shape[0] == 1:  # JAX lowers the lanes of two rows, not those of one  #? one_row
        rows = (jnp.broadcast_to(t, (2, t.shape[1])) for t in (x, lanes))  #? one_row
        return _take(*rows)[:1]  #? one_row
    return jnp.take_along_axis(x, lanes, axis=1, mode="promise_in_bounds")

#: eliminate
def _eliminate(
    x: Tiles, blocks: Tiles, first: jax.Array, lane: jax.Array, j: int, up: bool = False
) -> None:
    """Puts row j of the inverses of unit triangles into the rows below it, or above.

    Words of blocks are pairs of rows of the triangles, whose columns begin at the
    lanes that first names; lane is the column of each element in its own block.
    """
    lanes = first + j if j else first
    rows = range(j) if up else range(j + 1, len(x))
    for m in range(rows.start // 2, (rows.stop + 1) // 2):
        factor = _take(blocks[m], lanes)
        for r in range(max(2 * m, rows.start), min(2 * m + 2, rows.stop)):
            if len(rows) == len(x) - 1:
                x[r] = jnp.where(lane == r, 1.0, 0.0)
            x[r] += _half(factor, r % 2) * x[j]

#: merge
def _merge(
    x: list[Tiles], a: list[Tiles], bits: int | None = None, up: bool = False
) -> None:
    """Merges the inverses x of blocks on the diagonal of unit triangles, in place.

    Neighbours [B0, 0; -A, B1] have the inverse [X0, 0; X1 A X0, X1] of twice as many
    rows; up, [B0, -A; 0, B1] has [X0, X0 A X1; 0, X1]. x and a are words of the rows of
    blocks of each head.
    """
    n = 1
    while n < len(x[0]):
        _merge_level(x, a, n, bits, up)
        n *= 2


def _merge_level(
    x: list[Tiles], a: list[Tiles], n: int, bits: int | None, up: bool
) -> None:
    """Merges neighbouring blocks of n rows of x.

    A product takes few rows from the left, so that blocks with lanes of their own are
    packed into n. It is of two heads, the second turned by a block: what one of them
    has is zero where the other is.
    """
    column = lax.broadcasted_iota(jnp.int32, x[0][0].shape, 1)
    blocks, width = len(x[0]), column.shape[1]
    size = n * width // blocks
    filled = jnp.full(column.shape, width, jnp.int32)
    turned = [column + turn for turn in (width - size, size)]
    turned = [lanes - lax.div(lanes, filled) * width for lanes in turned]
    own = column >> (size.bit_length() - 1)
    masks = [jnp.where(own == i, _ALL, np.uint32(0)) for i in range(up, blocks // n, 2)]
    grow = [i for i in range(blocks) if i // n % 2 != up]

    def packed(t: Any) -> Tiles:
        return [_union([t[i] for i in grow if i % n == m]) for m in range(n)]

    def masked(t: Tiles) -> dict[int, jax.Array]:
        return {i: t[i % len(t)] & masks[i // (2 * n)] for i in grow}

    def spread(t: Tiles) -> dict[int, jax.Array]:
        return masked(t) if 2 * n < blocks else {i: t[i % n] for i in grow}

    def product(left: list[Tiles], right: list[Any], side: int) -> jax.Array:
        rows = _stacked(left[0], [_take(t, turned[side]) for t in left[1]])
        first = [i // n % 2 == side for i in range(blocks)]  # of the first head
        both = [right[0][i] if f else right[1][i ^ n] for i, f in enumerate(first)]
        return _dot(_halves(rows), _halves(_stacked(both)))

    def parts(product: jax.Array, contained: bool) -> list[Tiles]:
        words = _words(_bf16(product))
        t = [words[i : i + len(column)] for i in range(0, len(words), len(column))]
        t = [_finite(y, bits) for y in t] if contained else t
        return [t[:n], t[n:]]

    pairs = [slice(h, h + 2) for h in range(0, len(x), 2)]
    products = []
    for h in pairs:
        between = [masked(t) for t in a[h]]
        left, right = (x[h], between) if up else (between, x[h])
        products.append(product([packed(t) for t in left], right, 0))
    for i, h in enumerate(pairs):
        half = parts(products[i], True)
        left, right = half, x[h]
        if not up:
            left, right = [packed(t) for t in x[h]], [spread(t) for t in half]
        products[i] = product(left, right, 1)
    for i, h in enumerate(pairs):
        for t, z in zip(x[h], parts(products[i], 2 * n < blocks), strict=True):
            for j, y in spread(z).items():
                t[j] |= y

#: union
def _union(parts: Tiles) -> jax.Array:
    return functools.reduce(jnp.bitwise_or, parts)

#: block
def _block(i: jax.Array, n: int) -> slice | pl.Slice:
    """Elements of block i of n."""
    return pl.ds(pl.multiple_of(i * n, n), n)

#: start
def _start(source: Ref, target: Ref, sem: Ref, when: jax.Array | bool = True) -> None:
    """Starts a copy, where a condition holds."""
    copy = pltpu.make_async_copy(source, target, sem)
    pl.when(when)(copy.start)

#: wait
def _wait(source: Ref, target: Ref, sem: Ref, when: jax.Array | bool = True) -> None:
    """Waits for a copy, where a condition holds."""
    copy = pltpu.make_async_copy(source, target, sem)
    pl.when(when)(copy.wait)

#: feedback
def _feedback(x: jax.Array, groups: int) -> jax.Array:
    """Rounds to bf16 by groups of rows: each takes what the one before has lost."""
    n = x.shape[0] // groups
    rounded = _bf16(x)
    lost = (x - _f32(rounded))[:n]
    parts = [rounded[:n]]
    for i in range(1, groups):
        y = x[n * i : n * (i + 1)] + lost
        parts.append(_bf16(y))
        if i + 1 < groups:
            lost = y - _f32(parts[i])
    return jnp.concatenate(parts, axis=0)

#: finite
def _finite(x: jax.Array, bits: int | None = None) -> jax.Array:
    """bf16, or words of them, all finite: in others x - x has bits, which change."""
    if x.dtype == jnp.bfloat16:
        return _halves(_finite(_words(x), bits))
    halves = _halves(x)
    wrong = _words(halves - halves)
    return x ^ (wrong if bits is None else wrong & np.uint32(bits))

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

#: cost
def _cost(
    grid: tuple[Any, ...], flops: int, powers: int, args: Any, outs: Any
) -> pl.CostEstimate:
    """What XLA may plan with: the work of a point of the grid, and arrays once."""
    points = math.prod(n for n in grid if isinstance(n, int))
    arrays = jax.tree.leaves((args, outs))
    moved = sum(math.prod(x.shape) * jnp.dtype(x.dtype).itemsize for x in arrays)
    return pl.CostEstimate(points * flops, points * powers, moved)

#: delayed
def _delayed(x: jax.Array, rows: int) -> pl.BlockSpec:
    """Blocks of tokens or heads of x, one step late; the first step has a few rows."""
    n, tile = x.shape[1], 32 if x.ndim == 3 else 1  # heads are in no tile
    few = (n - 1) // tile * tile  # of the last tile, of which most is not there

    def begin(c: jax.Array) -> jax.Array:
        return jnp.where(c > 0, rows * jnp.minimum(c - 1, (n - 1) // rows), few)

    rest, zeros = x.shape[2:], (0,) * (x.ndim - 2)
    block = (pl.Element(1), pl.Element(rows, (0, rows)), *map(pl.Element, rest))
    return pl.BlockSpec(block, lambda b, _h, c: (b, begin(c), *zeros))

#: kind
def _kind() -> str:
    """The kind of device that is lowered for: that of the mesh, or of the first one."""
    device = jax.sharding.get_abstract_mesh().abstract_device or jax.devices()[0]
    return device.device_kind

#: cores
def _cores() -> int:
    """Cores that share a grid's rows: those of the device that is lowered for."""
    device = jax.sharding.get_abstract_mesh().abstract_device or jax.devices()[0]
    return int(getattr(device, "num_cores", None) or 1)

#: in_line
def _in_line(
    call: Callable, kernel: Any, *, lags: Any, grid: tuple[int, ...], **options: Any
) -> Callable:
    """A pallas_call whose rows follow one another in one program, which fills once.

    The kernel is that of one row of more steps, whose state is set where a row begins.
    A row has all steps of its grid but the last, in which the last phase drains. lags
    says for each window how many steps behind a row's first one its first block is.
    """
    rows, heads, steps = grid[0], grid[1], grid[2] - 1
    n = 1 if rows % _cores() else rows // _cores()  # rows of a program
    if n == 1:
        return call(functools.partial(kernel, row_steps=0), grid=grid, **options)
    row_steps = np.int32(steps)  # as the grid counts, whatever JAX's default is

    def moved(lag: int, spec: Any) -> pl.BlockSpec:
        def index(b: jax.Array, h: jax.Array, c: jax.Array) -> tuple[jax.Array, ...]:
            at = jnp.clip(c - lag, 0, n * steps - 1)
            step = jnp.where(c < lag, c, lax.rem(at, row_steps) + lag)
            return spec.index_map(n * b + lax.div(at, row_steps), h, step)

        return dataclasses.replace(spec, index_map=index)

    for name, lag in zip(("in_specs", "out_specs"), lags, strict=True):
        options[name] = jax.tree.map(moved, lag, options[name])
    more = n * kernel.keywords["steps"]
    kernel = functools.partial(kernel, steps=more, row_steps=row_steps)
    return call(kernel, grid=(rows // n, heads, n * steps + 1), **options)

#: ragged
def _ragged_call(
    kernel: Callable,
    *,
    in_specs: list[Any],  # windows
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
            n = spec.block_shape[1]
            n, unit = (n.block_size, 1) if isinstance(n, pl.Element) else (n, n)
            if rows := x.shape[1] % n:
                ends.append((i, (x.shape[1] - rows) // unit, rows))

        def run(*refs: Ref) -> None:
            at = [pl.program_id(i) for i in range(len(options["grid"]))]
            for i, last, rows in ends:
                here = in_specs[i].index_map(*at)[1] == last
                pl.when(here)(functools.partial(clear, refs[i], rows))
            kernel(*refs)

        inside = compiler_params.disable_bounds_checks and not ends  # all blocks
        params = dataclasses.replace(compiler_params, disable_bounds_checks=inside)
        f = pl.pallas_call(run, in_specs=in_specs, compiler_params=params, **options)
        return f(*args)

    return call

#: visits
def _visits(
    cu_seqlens: jax.Array, blocks: int, chunk: int, places: int
) -> tuple[jax.Array, jax.Array]:
    """Schedules packed sequences: the table and the marks of visits.

    A visit is a block of tokens with the sequence that is open when it begins and the
    next one: one for each block, and one more for each sequence that starts in the
    block of the one before it. A step of the grid has a visit for each of its places.
    The table is how many steps there are, as often as there may be visits, and by place
    and step, -1 for none, the block, the sequence that is open at the end, the block
    that is complete then, the sequence that is final then, and, in one place, the one
    that the last step leaves open. Marks are the rows from which on a visit has the
    open sequence and the next one, the row behind that, and whether its state is kept.
    """
    begin, end = cu_seqlens[:-1], cu_seqlens[1:]
    sequences = begin.shape[0]
    steps = -(-(blocks + sequences) // places)
    entry = jnp.arange(places * steps)
    sequence = jnp.arange(sequences)

    def over(sequences: jax.Array, x: jax.Array | int) -> jax.Array:
        return jnp.sum(jnp.where(sequences, x, 0), axis=1)

    home = jnp.minimum(begin // chunk, blocks - 1)  # where a sequence starts
    gap = home - jnp.pad(home[:-1], (1, 0))
    between = jnp.maximum(gap, jnp.minimum(sequence, 1))  # visits from one to the next
    later = between - gap  # 1 where a sequence starts in the block of the one before
    enter = jnp.cumsum(between)  # the visit of its first row

    turns = sum(jnp.where(entry >= i * steps, 1, 0) for i in range(1, places))
    visit = places * entry - (places * steps - 1) * turns  # by place, then by step
    row = visit[:, None]
    block = visit - over(enter <= row, later)
    inside = jnp.clip(block, 0, blocks - 1)
    opened = jnp.maximum(over(enter <= row, 1) - 1, 0)
    closed = jnp.where(over(enter == row, 1) > 0, opened - 1, -1)
    stays = (block > blocks - 1) | (over(enter == row + 1, later) > 0)
    live = blocks + over(enter <= row + places * steps, later)
    live = jnp.minimum((live + places - 1) // places, steps)
    last = jnp.where(entry == live - 1, sequences - 1, -1)
    done = jnp.where(stays, -1, inside)
    table = jnp.concatenate([live, inside, opened, done, closed, last])

    row = entry[:, None]
    now = enter == row
    start = begin - home * chunk
    stop = jnp.minimum(end - home * chunk, chunk)
    idle = entry - over(enter <= row, later) >= blocks
    first = jnp.where(idle, chunk, over(now, later * start))
    after, until = (chunk + 1 - over(now, chunk + 1 - x) for x in (start, stop))
    bits = (chunk + 1).bit_length()
    kept = jnp.where(until > after, 1, 0)  #? drop
    word = first + (after << bits) + (until << 2 * bits) + (kept << 3 * bits)  #? drop
    word = first + (after << bits) + (until << 2 * bits) + (1 << 3 * bits)  #? keep
    shape = (places * steps, 8, chunk)
    shift = lax.broadcasted_iota(jnp.int32, shape, 1) * bits & 31
    words = jnp.broadcast_to(word[:, None, None], shape)
    marks = lax.shift_right_logical(words, shift) & (1 << bits) - 1
    return table.astype(jnp.int32), marks.astype(jnp.int32)

#: rows_at
def _rows_at(x: jax.Array, at: jax.Array, axis: int = 0) -> jax.Array:
    """Rows of x along an axis; zeros by a number that no row has, as -1."""
    place = (slice(None),) * axis + (at,)
    return x.at[place].get(mode="fill", fill_value=0, wrap_negative_indices=False)
