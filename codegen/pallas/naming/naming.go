// Package naming names the values of a kernel in a Python file: after the formula that made them (ir.Value.Called), the value that they
// are another form of, or their op.
package naming

import (
	"cmp"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/codegen/pallas/chains"
	"github.com/gdngen/gdngen/codegen/pallas/loops"
	"github.com/gdngen/gdngen/codegen/python"
	"github.com/gdngen/gdngen/ir"
)

// PythonWords are names that no value may have: keywords, and names with another meaning in the files.
var PythonWords = func() map[string]bool {
	words := map[string]bool{}
	for _, w := range append(strings.Fields("jax jnp lax np pl pltpu range list sum interpret"), python.Keywords...) {
		words[w] = true
	}
	return words
}()

// Stages has the names of results, by stage of the algorithm and op.
var Stages = map[string]map[ir.Op]string{
	"gates":    {ir.OpMax: "g", ir.OpMul: "g", ir.OpDot: "g_sum", ir.OpAdd: "g_sum", ir.OpSub: "g_rest", ir.OpSelect: "triangle"},
	"products": {ir.OpDot: "kq", ir.OpNeg: "neg_kk", ir.OpMul: "qk"},
	"decay":    {ir.OpSub: "log_decay", ir.OpAdd: "log_decay", ir.OpExp: "decay", ir.OpExp2: "decay", ir.OpMul: "weighted", ir.OpSelect: "neg_a", ir.OpAnd: "p"},
	"leaf":     {ir.OpAdd: "x", ir.OpMul: "term", ir.OpTake: "factor", ir.OpAnd: "block", ir.OpOr: "blocks", ir.OpDot: "x"},
	"solve":    {ir.OpDot: "product", ir.OpOr: "x", ir.OpAnd: "part", ir.OpAdd: "x"},
	"operands": {ir.OpExp: "growth", ir.OpExp2: "growth", ir.OpMul: "scaled"},
	"state":    {ir.OpDot: "product", ir.OpSub: "v_new", ir.OpAdd: "state", ir.OpMul: "decayed"},
	"output":   {ir.OpMul: "o"},
}

// stageDocs has a sentence about each stage of the algorithm.
var stageDocs = map[string]string{
	"init":     "Starts the state.",
	"load":     "Loads the rows of the chunk.",
	"gates":    "Sums the log decay over the chunk.",
	"products": "Multiplies K K^T and Q K^T.",
	"decay":    "Weighs by the decay between tokens.",
	"leaf":     "Inverts the diagonal blocks by substitution.",
	"solve":    "Merges the inverses of blocks to that of the chunk.",
	"operands": "Prepares what meets the state.",
	"state":    "Takes the state through the chunk.",
	"keep":     "Keeps states and U for the gradient.",
	"copy":     "Copies blocks from main memory, and back.",
	"dr":       "Makes dR, the gradient of v and of what the state takes off it.",
	"output":   "Scales the output.",
	"store":    "Stores what the chunk made.",
	"token":    "Steps through the tokens.",
	"explicit": "Makes U and W.",
	Gradients:  "Makes the gradients of queries, keys and gates.",
}

// weighDocs has the sentence for stages that have no product, in a phase before the products.
var weighDocs = map[string]string{
	"state":   "Makes the decays of the state.",
	"dr":      "Makes T^T, and the decay that dR is weighed by.",
	Gradients: "Prepares what gradients are made of.",
}

// StageDoc returns the docstring of a stage's function. moves: it only moves values; multiplies: it has products.
func StageDoc(stage string, moves, multiplies bool) string {
	switch {
	case moves && !slices.Contains([]string{"init", "load", "store", "keep", "copy"}, stage):
		return "Passes on what other stages take."
	case !multiplies && weighDocs[stage] != "":
		return weighDocs[stage]
	case stageDocs[stage] != "":
		return stageDocs[stage]
	}
	return strings.ToUpper(stage[:min(1, len(stage))]) + stage[min(1, len(stage)):] + "."
}

// Gradients is the stage that all waves of a schedule become in a file. A group of heads is in several waves at once; as separate
// stages, their functions would run one after another.
const Gradients = "gradients"

// Phase returns the name of the i-th of n phases of a kernel.
func Phase(i, n int) string {
	switch {
	case i == n-1 && n > 1:
		return "advance"
	case i == 0:
		return "prepare"
	}
	return []string{"", "invert", "merge", "finish"}[min(i, 3)]
}

// PhaseDoc returns the docstring of a phase, from its function's name and whether it carries the state through a chunk.
func PhaseDoc(name string, state bool) string {
	switch {
	case state:
		return "Takes a chunk through the state."
	case strings.HasSuffix(name, "prepare"):
		return "The work on a chunk that needs no state."
	case strings.HasSuffix(name, "advance"):
		return "The work on a chunk behind its state."
	}
	return "The work on a chunk between the two."
}

// Step returns the name of a number or condition computed from the step of the grid; "" for others.
func Step(n *loops.Node, of func() string) string {
	if len(n.In.Args) == 0 || len(n.In.Results) != 1 || n.In.Result().Type.Rank() > 0 {
		return ""
	}
	last, known := loops.Constant(n.In.Args[len(n.In.Args)-1])
	op, from := n.In.Op, of()
	steps := from == "step" || from == "here"
	switch {
	case n.In.Result().Type.DType == ir.Bool:
		return cmp.Or(parity(n.In), "due")
	case !known:
		return ""
	case (op == ir.OpAdd || op == ir.OpSub) && last == 0, op == ir.OpMul && last == 1: // unchanged
		if steps {
			return "here"
		}
		return from
	case op == ir.OpSub && steps:
		return "earlier"
	case op == ir.OpAnd && last == 1 && (steps || from == "earlier"):
		return "parity"
	}
	return ""
}

// Depth returns how many levels of lists an item has; 0 for a value.
func Depth(x *loops.Item) int {
	if !x.IsList() || x.Elems[0] == nil {
		return 0
	}
	return 1 + Depth(x.Elems[0])
}

// parity returns which steps a condition selects, odd or even; "" for other conditions.
func parity(in *ir.Instr) string {
	if in == nil || in.Op != ir.OpAnd && in.Op != ir.OpCompare {
		return ""
	}
	last, known := loops.Constant(in.Args[1])
	if in.Op == ir.OpAnd {
		return cmp.Or(parity(in.Args[0].Def), parity(in.Args[1].Def))
	}
	bit := in.Args[0].Def
	if bit == nil || bit.Op != ir.OpAnd || !known || in.Attrs.Cmp != ir.EQ {
		return ""
	}
	if one, ok := loops.Constant(bit.Args[1]); !ok || one != 1 {
		return ""
	}
	return [...]string{"even", "odd"}[int(last)&1]
}

// FormOf returns the suffix for an op that changes only the form or place of its operand; "" for other ops.
func FormOf(in *ir.Instr) string {
	switch in.Op {
	case ir.OpConvert:
		if in.Result().Type.DType == ir.BF16 {
			return "bf"
		}
		return "exact"
	case ir.OpWords:
		return "words"
	case ir.OpHalves:
		return "halves"
	case ir.OpSlice:
		return "part"
	case ir.OpReshape:
		return "flat"
	case ir.OpBroadcast:
		if s := in.Args[0].Type.Shape; len(s) > 0 && s[len(s)-1] == 1 {
			return "wide"
		}
		return "rows"
	}
	return ""
}

// A name ends in the value's form, then chains.Odd for the second of two heads. A move's name replaces a cast's.
var casts, moves = []string{"bf", "exact", "words", "halves", "finite", "scaled"}, []string{"part", "wide", "rows", "flat"}

// Unnumbered returns a name without its number.
func Unnumbered(name string) string { return strings.TrimRight(name, "_0123456789") }

// Plain returns a name without the suffixes for element type, position and head.
//
//	growth_wide_odd -> growth
func Plain(name string) string {
	for _, f := range slices.Concat(casts, moves) {
		if base, ok := strings.CutSuffix(strings.TrimSuffix(name, chains.Odd), "_"+f); ok {
			return Plain(base)
		}
	}
	return strings.TrimSuffix(name, chains.Odd)
}

// Both joins one or two names; "" for more, or if one is empty.
//
//	k_grown, q_grown -> k_q_grown    q, k -> q_k
func Both(names []string) string {
	if len(names) == 2 {
		last := names[1][strings.LastIndex(names[1], "_")+1:]
		if first, ok := strings.CutSuffix(names[0], "_"+last); ok {
			return first + "_" + names[1]
		}
	}
	if len(names) > 2 || slices.Contains(names, "") {
		return ""
	}
	return strings.Join(names, "_")
}

// Form returns the name of another form of a value.
//
//	growth, wide -> growth_wide    growth_part, wide -> growth_wide    growth_wide, halves -> growth_wide
func Form(name, form string) string {
	name, odd := strings.CutSuffix(name, chains.Odd)
	if base := Plain(name); base == name || slices.Contains(moves, form) {
		name = base + "_" + form
	}
	if odd {
		name += chains.Odd
	}
	return name
}

// Plural returns the name of a list of a named value, or of lists of such lists.
//
//	u -> us    u_bf -> us_bf    us, 2 levels -> all_us    x -> x    a -> all_a, since as is a keyword
func Plural(name string, lists int) string {
	if lists > 1 {
		return all + strings.TrimPrefix(Plural(strings.TrimPrefix(name, all), 1), all)
	}
	base := Plain(name)
	if PythonWords[base+"s"] {
		return all + name
	}
	if strings.HasSuffix(base, "s") || strings.HasSuffix(base, "x") {
		return name
	}
	return base + "s" + name[len(base):]
}

const all = "all_"

// Singular returns the name of a list's element.
func Singular(name string) string {
	if one, ok := strings.CutPrefix(name, all); ok {
		return one
	}
	base := Plain(name)
	return strings.TrimSuffix(base, "s") + name[len(base):]
}
