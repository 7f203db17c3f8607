package ir_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/gdngen/gdngen/ir"
	"github.com/stretchr/testify/require"
)

// examples has one valid instruction for every op. Tensor-level ones see %f: f32[4,8], %h: bf16[4,8], %u: u32[4,8],
// %p: bool[4,8], %i: i32[4,8], %n: i32[]; those marked with a leading ! are in a kernel and see %x and %y, windows of
// %f, %q: smem:i32[4], %s: vmem:f32[4,8] and %m: vmem:sem[].
var examples = map[ir.Op]string{
	ir.OpConst:      "%1 = const {value=-1.5e-07} : f32[2]",
	ir.OpIota:       "%1 = iota {axis=1} : i32[2,3]",
	ir.OpNeg:        "%1 = neg %f : f32[4,8]",
	ir.OpAbs:        "%1 = abs %f : f32[4,8]",
	ir.OpExp:        "%1 = exp %f : f32[4,8] @gates",
	ir.OpExp2:       "%1 = exp2 %f : f32[4,8] @gates.c0",
	ir.OpLog:        "%1 = log %f : f32[4,8] @gates.h3",
	ir.OpLog2:       "%1 = log2 %f : f32[4,8] @gates.c1.h3",
	ir.OpLog1p:      "%1 = log1p %f : f32[4,8]",
	ir.OpSqrt:       "%1 = sqrt %f : f32[4,8]",
	ir.OpRsqrt:      "%1 = rsqrt %f : f32[4,8]",
	ir.OpTanh:       "%1 = tanh %f : f32[4,8]",
	ir.OpLogistic:   "%1 = logistic %f : f32[4,8]",
	ir.OpNot:        "%1 = not %p : bool[4,8]",
	ir.OpAdd:        "%1 = add %f, %f : f32[4,8]",
	ir.OpSub:        "%1 = sub %f, %f : f32[4,8]",
	ir.OpMul:        "%1 = mul %f, %f : f32[4,8]",
	ir.OpDiv:        "%1 = div %f, %f : f32[4,8]",
	ir.OpMax:        "%1 = max %f, %f : f32[4,8]",
	ir.OpMin:        "%1 = min %f, %f : f32[4,8]",
	ir.OpAnd:        "%1 = and %u, %u : u32[4,8]",
	ir.OpOr:         "%1 = or %p, %p : bool[4,8]",
	ir.OpXor:        "%1 = xor %u, %u : u32[4,8]",
	ir.OpShl:        "%1 = shl %u, %u : u32[4,8]",
	ir.OpShr:        "%1 = shr %u, %u : u32[4,8]",
	ir.OpCompare:    "%1 = compare %f, %f {cmp=ge} : bool[4,8]",
	ir.OpSelect:     "%1 = select %p, %f, %f : f32[4,8]",
	ir.OpConvert:    "%1 = convert %f : bf16[4,8]",
	ir.OpBitcast:    "%1 = bitcast %f : u32[4,8]",
	ir.OpPack:       "%1 = pack %f, %f : u32[4,8]",
	ir.OpWords:      "%1 = words %h : u32[2,8]",
	ir.OpHalves:     "%1 = halves %u : bf16[8,8]",
	ir.OpBroadcast:  "%1 = broadcast %f {dims=[1,2]} : f32[2,4,8]",
	ir.OpReshape:    "%1 = reshape %f : f32[32]",
	ir.OpTranspose:  "%1 = transpose %f {dims=[1,0]} : f32[8,4]",
	ir.OpSlice:      "%1 = slice %f {starts=[0,1], limits=[4,8], strides=[1,3]} : f32[4,3]",
	ir.OpConcat:     "%1 = concat %f, %f, %f {axis=0} : f32[12,8]",
	ir.OpPad:        "%1 = pad %f {value=-Inf, starts=[0,1], limits=[2,0]} : f32[6,9]",
	ir.OpKeep:       "%1 = keep %f : f32[4,8]",
	ir.OpReduceSum:  "%1 = reduce_sum %f {dims=[0,1]} : f32[]",
	ir.OpReduceMax:  "%1 = reduce_max %f {dims=[1]} : f32[4]",
	ir.OpCumsum:     "%1 = cumsum %f {axis=0} : f32[4,8]",
	ir.OpTake:       "%1 = take %f, %i {axis=1} : f32[4,8]",
	ir.OpGatherRows: "%1 = reshape %i : i32[32]\n  %2 = gather_rows %f, %1 {axis=0} : f32[32,8]",
	ir.OpDynSlice:   "%1 = dyn_slice %f, %n, %n : f32[2,2]",
	ir.OpDynUpdate:  "%1 = slice %f {starts=[0,0], limits=[1,1]} : f32[1,1]\n  %2 = dyn_update %f, %1, %n, %n : f32[4,8]",
	ir.OpDot:        "%1 = dot %f, %h {lb=[0], rb=[0], lc=[1], rc=[1], prec=bf16x6} : f32[4]",
	ir.OpLoop:       "%1, %2 = loop %f, %n {count=3, until=2} (%3: i32[], %4: f32[4,8], %5: i32[]) {\n    yield %4, %5\n  } : f32[4,8], i32[]",
	ir.OpGrid: "%1 = reshape %n : i32[1]\n  %2, %3 = grid %1, %f, %f {name=g, dims=(a:4, b:2:seq), tables=1, in=([1,4]@(plus(1,every(2,clamp(a-1,3))),b)), " +
		"out=([1,4]@(a,b):f32[4,8]), carry=([1,8]@(a,t0[0]))} (%4: f32[1,4], %5: f32[1,8]) {\n    yield %4, %5\n  } : f32[4,8], f32[4,8]",
	ir.OpKernel:    "!%2 = load %x {starts=[0,0]} : f32[1,8]",
	ir.OpProgramID: "!%2 = program_id {axis=0} : i32[]",
	ir.OpWhen:      "!%2 = const {value=1} : bool[]\n    when %2 () {\n      yield \n    }",
	ir.OpLoad:      "!%2 = load %q, %n {starts=[0]} : i32[]",
	ir.OpStore:     "!%2 = load %x {starts=[0,0], strides=[1,2]} : f32[4]\n    store %2, %s, %n, %n {starts=[3,4]}",
	ir.OpRefCast:   "!%2 = refcast %s : vmem:u32[4,8]",
	ir.OpDMAStart:  "!dma_start %s, %y, %m",
	ir.OpDMAWait:   "!dma_wait %s, %y, %m, %n, %n {block=[1,8]}",
}

// example wraps an op's instruction into a module in the text form that String gives.
func example(op ir.Op) string {
	body := examples[op]
	if k, ok := strings.CutPrefix(body, "!"); ok {
		body = "%0 = reshape %i : i32[32]\n  %1 = slice %0 {starts=[0], limits=[4]} : i32[4]\n  %t = kernel %1, %f {name=k, dims=(a:4), tables=1, in=([1,8]@(t0[a],0)), " +
			"out=([4,8]@(0,0):f32[4,8]), scratch=(vmem:f32[4,8], vmem:sem[]), alias=(0=0)} (%q: smem:i32[4], %x: vmem:f32[1,8], %y: vmem:f32[4,8], %s: vmem:f32[4,8], %m: vmem:sem[]) {\n    " +
			k + "\n    yield \n  } : f32[4,8]"
	}
	return "module t (%f: f32[4,8], %h: bf16[4,8], %u: u32[4,8], %p: bool[4,8], %i: i32[4,8], %n: i32[]) -> (o) {\n  " + body + "\n  yield %f\n}\n"
}

// Every op says which unit has its work.
func TestUnits(t *testing.T) {
	for op := ir.BadOp + 1; op < ir.NumOps; op++ {
		require.NotZero(t, ir.Ops[op].Unit, "%s: give its row a unit", op)
	}
}

func TestEveryOpIsDescribedAndParsesBack(t *testing.T) {
	names := map[string]bool{}
	for op := ir.BadOp + 1; op < ir.NumOps; op++ {
		row := ir.Ops[op]
		require.NotEmpty(t, row.Name, "op %d", op)
		require.False(t, names[row.Name], row.Name)
		names[row.Name] = true
		require.NotEmpty(t, row.Doc, row.Name)
		require.NotNil(t, row.Types, row.Name)
		back, ok := ir.ParseOp(op.String())
		require.True(t, ok && back == op, row.Name)

		m, err := ir.Parse(example(op))
		require.NoError(t, err, example(op))
		found := false
		m.Body.Walk(func(in *ir.Instr) {
			if found = found || in.Op == op; in.Op == op {
				for _, a := range row.Attrs {
					require.True(t, a == "strides" || a == "block" && len(in.Args) == 3 || strings.Contains(in.String(), a+"="), "%s lacks %s", in, a)
				}
			}
		})
		require.True(t, found, row.Name)
		text := m.String()
		n, err := ir.Parse(text)
		require.NoError(t, err, text)
		require.Equal(t, text, n.String())
		require.Equal(t, m.Hash(), n.Hash())
	}
	require.Equal(t, "op(0)", ir.BadOp.String())
}

// A task is a part of the program: schedules order by it. Where an instruction was written is none.
func TestHash(t *testing.T) {
	parse := func(text string) *ir.Module {
		m, err := ir.Parse(text)
		require.NoError(t, err)
		return m
	}
	a, moved := parse(scan), parse("// a remark\n\n"+scan)
	require.NotEqual(t, a.Body.Instrs[0].Pos, moved.Body.Instrs[0].Pos)
	require.Equal(t, a.String(), moved.String())
	require.Equal(t, a.Hash(), moved.Hash())
	for was, is := range map[string]string{" @state.c0.h1": "", " @state\n": " @other.c2\n", "value=0.5": "value=0.25"} {
		require.Contains(t, scan, was)
		require.NotEqual(t, a.Hash(), parse(strings.ReplaceAll(scan, was, is)).Hash(), was)
	}
}

func TestTasks(t *testing.T) {
	for _, s := range []string{"solve", "solve.c1", "solve.h3", "solve.c1.h3", ".h3", "a-b"} {
		task, err := ir.ParseTask(s)
		require.NoError(t, err)
		require.Equal(t, s, task.String())
	}
	for _, s := range []string{"", "solve.", "solve.x1", "solve.c", "solve.h1.c2", "solve.c01", "solve.c-1", "two words", "solve.c1.c2"} {
		_, err := ir.ParseTask(s)
		require.ErrorContains(t, err, "stage.c1.h3 are possible", s)
	}
	_, err := ir.Parse("module t (%x: f32[2]) -> (o) {\n  %1 = neg %x : f32[2] @solve.x1\n  yield %1\n}")
	require.ErrorContains(t, err, `line 2, column 33: task "solve.x1"`)
	names := map[string]bool{}
	for _, s := range ir.Stages {
		require.False(t, names[s.Name], s.Name)
		names[s.Name] = true
		require.NotEmpty(t, s.By, s.Name)
		require.Regexp(t, `^[A-Z].*\.$`, s.Doc, s.Name)
	}
}

// An instruction knows the line that built it, and one that a text was read from the line of the text. What stands for another has its place.
func TestPositions(t *testing.T) {
	m, b := ir.NewModule("t")
	x := b.Param("x", ir.T(ir.F32, 2))
	_, _, here, _ := runtime.Caller(0)
	y := b.Neg(x)
	z := b.Of(y.Def).Exp(y)
	w := b.At(ir.At("state")).Scale(z, 2)
	require.NoError(t, b.Finish(m, []string{"o"}, []*ir.Value{w}))
	require.Equal(t, ir.Pos{File: "ir/table_test.go", Line: here + 1}, y.Def.Pos)
	require.Equal(t, y.Def.Pos, z.Def.Pos)
	require.Equal(t, fmt.Sprintf("state (ir/table_test.go:%d)", here+3), w.Def.Where())
	n, err := ir.Parse(m.String())
	require.NoError(t, err)
	require.Equal(t, "state (line 5)", n.Body.Yield[0].Def.Where())
}

func TestRejects(t *testing.T) {
	for body, want := range map[string]string{
		"%1 = nonsense %f : f32[4,8]":                           `unknown op "nonsense"`,
		"%1 = add %f, %z : f32[4,8]":                            "%z is not defined here",
		"%1 = add %f, %h : f32[4,8]":                            "operands differ: f32[4,8] and bf16[4,8]",
		"%1 = add %f : f32[4,8]":                                "has 1 operands",
		"%1 = add %f, %f : f32[4,9]":                            "result 0: has f32[4,9], wants f32[4,8]",
		"%1, %2 = add %f, %f : f32[4,8]":                        "2 results with 1 types",
		"%f = neg %f : f32[4,8]":                                "%f is defined twice",
		"%1 = neg %p : bool[4,8]":                               "not defined on bool[4,8]",
		"%1 = exp %i : i32[4,8]":                                "not defined on i32[4,8]",
		"%1 = const {value=abc} : f32[2]":                       "parsing \"abc\"",
		"%1 = const {} : f32[2]":                                `attribute ""`,
		"%1 = const {value=1, value=2} : f32[2]":                "unknown or repeated",
		"%1 = const {value=1} : sem[]":                          "is not a value",
		"%1 = const {value=1} : vmem:f32[2]":                    "is not a value",
		"%1 = const {value=1} : f32[-1]":                        "negative",
		"%1 = const {value=1} : f32[1048576,1048576,1048576]":   "more than",
		"%1 = iota {axis=2} : i32[2,3]":                         "axis 2",
		"%1 = compare %f, %f {cmp=lesser} : bool[4,8]":          `unknown relation "lesser"`,
		"%1 = select %f, %f, %f : f32[4,8]":                     "condition f32[4,8]",
		"%1 = bitcast %f : bf16[4,8]":                           "differ in width",
		"%1 = broadcast %f {dims=[1,0]} : f32[8,4]":             "with dims [1 0]",
		"%1 = reshape %f : f32[31]":                             "f32[4,8] to f32[31]",
		"%1 = transpose %f {dims=[0,0]} : f32[4,4]":             "no permutation",
		"%1 = slice %f {starts=[0,0], limits=[4,9]} : f32[4,9]": "dimension 1",
		"%1 = slice %f {starts=[0], limits=[4]} : f32[4]":       "starts [0]",
		"%1 = loop %f {count=3, until=1} (%2: i32[], %3: f32[4,8]) { yield %3 } : f32[4,8]":                                      "until 1: not a carried i32 scalar",
		"%1 = loop %n {count=3, until=2} (%2: i32[], %3: i32[]) { yield %3 } : i32[]":                                            "until 2: not a carried i32 scalar",
		"%1 = loop %n {count=3, until=1} (%2: i32[], %3: i32[]) { yield %2 } : i32[]":                                            "yields as it is",
		"%1 = slice %f {starts=[0,0], limits=[4,8], strides=[1,9223372036854775807]} : f32[4,2]":                                 "result 0: has f32[4,2], wants f32[4,1]",
		"%1 = pad %f {value=0, starts=[0,9223372036854775807], limits=[0,0]} : f32[4,8]":                                         "padding of dimension 1",
		"%1 = concat %f, %h {axis=0} : f32[8,8]":                                                                                 "f32[4,8] and bf16[4,8]",
		"%1 = reduce_sum %f {dims=[0,0]} : f32[8]":                                                                               "dims [0 0]",
		"%1 = dyn_slice %f, %n : f32[2,2]":                                                                                       "wants 2 scalar indices, has 1",
		"%1 = dyn_slice %f, %n, %n : f32[5,2]":                                                                                   "f32[5,2] of f32[4,8]",
		"%1 = dot %f, %f {lb=[], rb=[], lc=[0,0], rc=[0,0], prec=f32} : f32[8,8]":                                                "named twice",
		"%1 = dot %f, %f {lb=[], rb=[], lc=[1], rc=[0], prec=f32} : f32[4,8]":                                                    "dimension 1 of f32[4,8] against 0",
		"%1 = dot %f, %f {lb=[], rb=[], lc=[1], rc=[1], prec=f8} : f32[4,4]":                                                     `unknown precision "f8"`,
		"%1 = loop %f {count=-1} (%2: i32[], %3: f32[4,8]) { yield %3 } : f32[4,8]":                                              "count -1",
		"%1 = loop %f {count=1} (%3: f32[4,8]) { yield %3 } : f32[4,8]":                                                          "body parameter: has 1, wants 2",
		"%1 = loop %f {count=1} (%2: i32[], %3: f32[4,8]) { %4 = neg %3 : f32[4,8] yield %4 } : f32[4,8] %5 = neg %4 : f32[4,8]": "operand 0 is not defined before its use",
		"%1 = program_id {axis=0} : i32[]":                                                                                       "axis 0 of a grid of 0 axes",
		"%1 = load %f {starts=[0,0]} : f32[4,8]":                                                                                 "not allowed at the tensor level",
		"when %p () { yield }":                                                                                                   "not allowed at the tensor level",
		"%1 = grid %f {dims=(a:4)} (%2: f32[1,8]) { yield } : f32[4]":                                                            "has 1 operands, wants 0 tables, 0 inputs",
		"%1 = neg %f : f32[4,8] @a.c1 junk":                                                                                      "unknown op",
		grid("dims=(a:4), tables=-1, in=([1,8]@(a,0), [1,8]@(a,0)), out=([1,8]@(a,0):f32[4,8])"):                                 "-1 tables",
		grid("dims=(a:0), in=([1,8]@(a,0)), out=([1,8]@(a,0):f32[4,8])"):                                                         "axis a has size 0",
		grid("dims=(a:4,a:2), in=([1,8]@(a,0)), out=([1,8]@(a,0):f32[4,8])"):                                                     "malformed or taken",
		grid("dims=(b:2:seq, a:4), in=([1,8]@(a,0)), out=([1,8]@(a,0):f32[4,8])"):                                                "sequential but not the last",
		grid("dims=(a:4:seq:bound), in=([1,8]@(a,0), [1,8]@(a,0)), out=([1,8]@(a,0):f32[4,8])"):                                  "only the sequential axis of a kernel",
		grid("dims=(a:4194304, b:4194304), in=([1,8]@(0,0)), out=([1,8]@(0,0):f32[4,8])"):                                        "axis b has size",
		grid("dims=(a:5), in=([1,8]@(a,0)), out=([1,8]@(a,0):f32[4,8])"):                                                         "block 4 of 1 elements lies outside",
		grid("dims=(a:4), in=([1,8]@(a+9223372036854775807,0)), out=([1,8]@(a,0):f32[4,8])"):                                     "is shifted by",
		grid("dims=(a:4), in=([1,8]@(9223372036854775807,0)), out=([1,8]@(a,0):f32[4,8])"):                                       "lies outside",
		grid("dims=(a:4), in=([0,8]@(a,0)), out=([1,8]@(a,0):f32[4,8])"):                                                         "empty window",
		grid("dims=(a:4), in=([1,8]@(t0[a],0)), out=([1,8]@(a,0):f32[4,8])"):                                                     "table 0 of 1 axes, 0 tables",
		grid("dims=(a:4), in=([1,8]@(t0[t0[a]],0)), out=([1,8]@(a,0):f32[4,8])"):                                                 "unknown grid axis",
		grid("dims=(a:4), in=([1,8]@(every(1,a),0)), out=([1,8]@(a,0):f32[4,8])"):                                                "every wants a number of points",
		grid("dims=(a:4), in=([1,8]@(every(2,3),0)), out=([1,8]@(a,0):f32[4,8])"):                                                "every wants a number of points",
		grid("dims=(a:4), in=([1,8]@(a,0)), out=([1,8]@(plus(3,every(2,a)),0):f32[4,8])"):                                        "block 4 of 1 elements lies outside",
		grid("dims=(a:4), in=([1,8]@(clamp(a,-1),0)), out=([1,8]@(a,0):f32[4,8])"):                                               "negative index",
		grid("dims=(a:4), in=([1,8]@(a,0)), out=([1,8]@(a,0):sem[4,8])"):                                                         "output 0 is sem",
		grid("dims=(a:4), in=([1,8]@(a,0)), out=([1,8]@(a,0):f32[4,8]), scratch=(vmem:f32[2])"):                                  "belongs to kernels",
		grid("dims=(a:4), in=([1,8]@(a,0)), out=([1,8]@(a,0):f32[4,8]), colour=(1)"):                                             "unknown grid attribute",
		inKernel("%2 = load %x {starts=[0,1]} : f32[1,8]"):                                                                       "dimension 1 of vmem:f32[1,8]: 8 elements from 1 by 1 reach outside",
		inKernel("%2 = load %x {starts=[0,0], strides=[1,9223372036854775807]} : f32[8]"):                                        "reach outside",
		inKernel("%2 = load %x {starts=[0,-1]} : f32[8]"):                                                                        "start -1",
		inKernel("%2 = load %x {starts=[0,0]} : bf16[8]"):                                                                        "bf16[8] against reference",
		inKernel("%2 = neg %x : f32[1,8]"):                                                                                       "not defined on vmem:f32[1,8]",
		inKernel("%2 = refcast %s : vmem:bf16[4,8]"):                                                                             "vmem:f32[4,8] as vmem:bf16[4,8]",
		inKernel("%2 = refcast %s : vmem:f64[2,8]"):                                                                              "wants the same width",
		inKernel("%2 = loop %s {count=1} (%3: i32[], %4: vmem:f32[4,8]) { yield %4 } : vmem:f32[4,8]"):                           "is a reference",
		inKernel("dma_start %s, %y, %m {block=[4,8]}"):                                                                           "copy of vmem:f32[4,8]",
		inKernel("dma_start %s, %y, %m, %n {block=[1,8]}"):                                                                       "copy with 4 operands",
		inKernel("dma_start %s, %y, %m, %n, %n {block=[3,8]}"):                                                                   "do not divide vmem:f32[4,8]",
		inKernel("dma_start %s, %y, %m, %n, %f {block=[1,8]}"):                                                                   "block number f32[4,8]",
		grid("dims=(a:4), in=([1,8]@(a,0)), out=([1,8]@(a,0):f32[4,8]), into=[1]"):                                               "arrays are numbered",
		grid("dims=(a:4), in=([1,8]@(a,0)), out=([1,8]@(a,0):f32[4,8]), copies=1"):                                               "whose last axis is sequential",
		grid("dims=(a:4), in=([1,8]@(a,0)), out=([1,8]@(a,0):f32[4,8]), into=[0,0]"):                                             "names all or none",
		grid("dims=(a:4), in=([1,8]@(a,0)), out=([1,8]@(plus(1,a),0):f32[4,8])"):                                                 "block 4 of 1 elements lies outside",
		inKernel("dma_start %s, %x, %m"):                                                                                         "copy of vmem:f32[4,8] to vmem:f32[1,8]",
		inKernel("%2 = dyn_update %f, %f, %n, %n : f32[4,8]"):                                                                    "not allowed at the kernel level",
	} {
		text := strings.Replace(example(ir.OpNeg), examples[ir.OpNeg], body, 1)
		_, err := ir.Parse(text)
		require.ErrorContains(t, err, want, body)
	}
	for text, want := range map[string]string{
		"":                              "expected a module",
		"module 1 () -> () { yield }":   "malformed module name",
		"module t () -> () { yield } x": "text after the module",
		"module t (%a: f32[2]) -> () { yield %a }":                          "names 0 results and yields 1",
		"module t (%a: f32[2]) -> (o, o) { yield %a, %a }":                  `result name "o"`,
		"module t (%0: f32[2]) -> (o) { yield %0 }":                         `parameter name "0"`,
		"module t (%a: vmem:f32[2]) -> () { yield }":                        "is not a value",
		"module t (%a: zmem:f32[2]) -> () { yield }":                        `unknown memory space "zmem"`,
		"module t (%a: f31[2]) -> () {\n yield }":                           "line 1, column 18",
		"module t (%a: f32[2]) -> (o) reuse (p=a) { yield %a }":             `result "p" and parameter "a": one of them does not exist`,
		"module t (%a: f32[2]) -> (o) reuse (o=a, o=a) { yield %a }":        "twice",
		"module t (%a: f32[2], %b: f32[3]) -> (o) reuse (o=b) { yield %a }": "can not take the memory",
	} {
		_, err := ir.Parse(text)
		require.ErrorContains(t, err, want, text)
	}
}

func grid(attrs string) string {
	return "%1 = grid %f {name=g, " + attrs + "} (%2: f32[1,8]) { yield %2 } : f32[4,8]"
}

func inKernel(body string) string {
	whole := example(ir.OpDMAStart)
	whole = whole[strings.Index(whole, "%0 ="):strings.LastIndex(whole, "yield %f")]
	return strings.Replace(whole, "dma_start %s, %y, %m", body, 1)
}

// Faults that no text can express.
func TestRejectsMalformedModules(t *testing.T) {
	make := func() *ir.Module {
		m, err := ir.Parse(scan)
		require.NoError(t, err)
		return m
	}
	for want, change := range map[string]func(m *ir.Module){
		"module has no body":       func(m *ir.Module) { m.Body = nil },
		"an instruction is nil":    func(m *ir.Module) { m.Body.Instrs[0] = nil },
		"a result is nil":          func(m *ir.Module) { m.Body.Instrs[0].Results[0] = nil },
		"operand 0 is not defined": func(m *ir.Module) { m.Body.Instrs[0].Args[0] = nil },
		"yielded value 1: has":     func(m *ir.Module) { m.Body.Instrs[0].Body.Yield[1] = nil },
		"body parameter 0: has":    func(m *ir.Module) { m.Body.Instrs[0].Body.Params[0] = nil },
		"defined twice": func(m *ir.Module) {
			m.Body.Instrs[0].Body.Params[0] = m.Body.Params[0]
			m.Body.Params[0].Type = ir.T(ir.F32, 1, 2, 4)
		},
		"unknown op":                func(m *ir.Module) { m.Body.Instrs[0].Op = ir.NumOps },
		"a body is missing":         func(m *ir.Module) { m.Body.Instrs[0].Body = nil },
		"a grid is missing":         func(m *ir.Module) { m.Body.Instrs[0].Attrs.Grid = nil },
		"a stage is of letters":     func(m *ir.Module) { m.Body.Instrs[0].Task.Stage = "two words" },
		"malformed module name":     func(m *ir.Module) { m.Name = "a b" },
		"result name":               func(m *ir.Module) { m.Results[0] = "" },
		"dimension numbers do not":  func(m *ir.Module) { m.Body.Instrs[0].Body.Instrs[0].Attrs.Dot = nil },
		"wants one declared result": func(m *ir.Module) { m.Body.Instrs[0].Body.Instrs[1].Results = nil },
	} {
		m := make()
		change(m)
		if want == "defined twice" {
			require.Error(t, m.Verify())
			continue
		}
		require.ErrorContains(t, m.Verify(), want)
	}
}

// Text can nest and repeat without end; parsing refuses or survives it.
func TestHostileText(t *testing.T) {
	const n = 300000
	deep := strings.Repeat("%1 = loop {count=1} (%2: i32[]) {", 40)
	for _, text := range []string{
		strings.Replace(example(ir.OpNeg), examples[ir.OpNeg], grid("dims=(a:4), in=([1,8]@("+strings.Repeat("t0[", n)), 1),
		strings.Replace(example(ir.OpNeg), examples[ir.OpNeg], grid("dims=(a:4), in=([1,8]@("+strings.Repeat("clamp(", n)), 1),
		"module t () -> () { " + deep,
		"module t (" + strings.Repeat("(", n),
		"module t () -> () { " + strings.Repeat("{", n),
	} {
		_, err := ir.Parse(text)
		require.Error(t, err)
		require.Less(t, len(err.Error()), 2000)
	}
	// Doubling by concat ends at the size limit instead of overflowing.
	b := strings.Builder{}
	b.WriteString("module t (%x: f32[1]) -> (o) {\n")
	prev := "x"
	for i := range 70 {
		fmt.Fprintf(&b, "%%%d = concat %%%s, %%%s {axis=0} : f32[%d]\n", i, prev, prev, uint64(1)<<min(i+1, 62))
		prev = fmt.Sprint(i)
	}
	b.WriteString("yield %x }")
	_, err := ir.Parse(b.String())
	require.ErrorContains(t, err, "more than")
}

func FuzzParse(f *testing.F) {
	f.Add(scan)
	for op := ir.BadOp + 1; op < ir.NumOps; op++ {
		f.Add(example(op))
	}
	f.Add("module t () -> () { yield } // comment")
	f.Add("module t (%a: f32[2]) -> (a) { %1 = neg %a : f32[2] @.c1.h-2 yield %1 }")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ir.Parse(text)
		if err != nil {
			return
		}
		s := m.String()
		n, err := ir.Parse(s)
		if err != nil {
			t.Fatalf("%v\n%s", err, s)
		}
		if n.String() != s || n.Hash() != m.Hash() {
			t.Fatalf("%s\nparses back as\n%s", s, n)
		}
	})
}
