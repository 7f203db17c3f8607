package ir

import (
	"fmt"
	"slices"
	"strings"
)

// Error is an error in a module, with the affected instruction.
type Error struct {
	Instr string // the instruction's text, shortened; empty for the module itself
	What  string
}

func (e *Error) Error() string {
	if e.Instr == "" {
		return e.What
	}
	return fmt.Sprintf("%s\n    in: %s", e.What, e.Instr)
}

// Verify checks levels, dominance, operand counts and every type in the module; the error is an *Error.
func (m *Module) Verify() error {
	if m.Body == nil {
		return &Error{What: "module has no body"}
	}
	if !isName(m.Name) {
		return &Error{What: fmt.Sprintf("malformed module name %q", m.Name)}
	}
	if len(m.Results) != len(m.Body.Yield) {
		return &Error{What: fmt.Sprintf("module names %d results and yields %d", len(m.Results), len(m.Body.Yield))}
	}
	names := map[string]bool{}
	for _, n := range m.Results {
		if !isName(n) || names[n] {
			return &Error{What: fmt.Sprintf("result name %q is empty, malformed or taken", n)}
		}
		names[n] = true
	}
	clear(names)
	for _, p := range m.Body.Params {
		if err := checkType(p.Type); err != nil || p.Type.IsRef() || p.Type.DType == Sem {
			return &Error{What: fmt.Sprintf("parameter %s of type %s is not a value", p.Name, p.Type)}
		}
		if !isName(p.Name) || names[p.Name] {
			return &Error{What: fmt.Sprintf("parameter name %q is empty, malformed or taken", p.Name)}
		}
		names[p.Name] = true
	}
	v := verifier{seen: map[*Value]bool{}, defined: map[*Value]bool{}}
	if err := v.block(m.Body, Tensor, 0); err != nil {
		return err
	}
	return m.checkReuse()
}

// checkReuse verifies that each pair names a result and a parameter of one type, and each of them at most once.
func (m *Module) checkReuse() error {
	taken := map[string]bool{}
	for _, r := range m.Reuse {
		i := slices.Index(m.Results, r.Result)
		j := slices.IndexFunc(m.Body.Params, func(p *Value) bool { return p.Name == r.Param })
		switch {
		case i < 0 || j < 0:
			return &Error{What: fmt.Sprintf("reuse names result %q and parameter %q: one of them does not exist", r.Result, r.Param)}
		case taken["result "+r.Result] || taken["parameter "+r.Param]:
			return &Error{What: fmt.Sprintf("reuse names result %q or parameter %q twice", r.Result, r.Param)}
		case !m.Body.Yield[i].Type.Equal(m.Body.Params[j].Type):
			return &Error{What: fmt.Sprintf("result %q of type %s can not take the memory of parameter %q of type %s", r.Result, m.Body.Yield[i].Type, r.Param, m.Body.Params[j].Type)}
		}
		taken["result "+r.Result], taken["parameter "+r.Param] = true, true
	}
	return nil
}

// isStage allows the empty name.
func isStage(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r != '-' && (r > 'z' || !isWord(byte(r))) }) < 0
}

func isName(s string) bool {
	if s == "" || (s[0] >= '0' && s[0] <= '9') {
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) < 0
}

// verifier tracks the visible values and all values ever defined.
type verifier struct {
	seen, defined map[*Value]bool
}

func (v *verifier) block(b *Block, level Level, dims int) error {
	var mine []*Value
	def := func(x *Value, in *Instr) error {
		if x == nil || v.defined[x] || x.Def != in {
			return &Error{What: "a value is nil, defined twice or names another instruction as its definition"}
		}
		v.seen[x], v.defined[x] = true, true
		mine = append(mine, x)
		return nil
	}
	defer func() {
		for _, x := range mine {
			delete(v.seen, x)
		}
	}()
	for _, p := range b.Params {
		if err := def(p, nil); err != nil {
			return err
		}
	}
	for _, in := range b.Instrs {
		if in == nil {
			return &Error{What: "an instruction is nil"}
		}
		if err := v.instr(in, level, dims); err != nil {
			return err
		}
		for _, r := range in.Results {
			if err := def(r, in); err != nil {
				return err
			}
		}
	}
	for i, y := range b.Yield {
		if !v.seen[y] {
			return &Error{What: fmt.Sprintf("yielded value %d is not defined before its use", i)}
		}
	}
	return nil
}

func (v *verifier) instr(in *Instr, level Level, dims int) error {
	fail := func(format string, args ...any) error {
		return &Error{Instr: in.short(), What: fmt.Sprintf("%s: %s", in.Op, fmt.Sprintf(format, args...))}
	}
	if in.Op == BadOp || in.Op >= NumOps {
		return fail("unknown op")
	}
	row := &Ops[in.Op]
	if row.Level != Both && row.Level != level {
		return fail("not allowed at the %s level", map[Level]string{Tensor: "tensor", Kernel: "kernel"}[level])
	}
	for i, a := range in.Args {
		if a == nil || !v.seen[a] {
			return fail("operand %d is not defined before its use", i)
		}
	}
	for _, r := range in.Results {
		if r == nil {
			return &Error{What: in.Op.String() + ": a result is nil"}
		}
	}
	if t := in.Task; !isStage(t.Stage) || t.Chunk < -1 || t.Head < -1 {
		return fail("task %q: a stage is of letters, digits, _ and -, a chunk and a head count from 0, or are -1", t)
	}
	if (in.Attrs.Grid != nil) != (in.Op == OpGrid || in.Op == OpKernel) {
		return fail("a grid is missing or out of place")
	}
	if in.Op == OpProgramID && in.Attrs.Axis >= dims {
		return fail("axis %d of a grid of %d axes", in.Attrs.Axis, dims)
	}
	ts, err := in.types()
	if err != nil {
		return fail("%v", err)
	}
	if err := sameTypes("result", blockTypes(in.Results), ts); err != nil {
		return fail("%v", err)
	}
	for _, t := range ts {
		if err := checkType(t); err != nil {
			return fail("%v", err)
		}
	}
	if in.Body == nil {
		return nil
	}
	inner := level
	switch in.Op {
	case OpGrid:
		dims = len(in.Attrs.Grid.Dims)
	case OpKernel:
		inner, dims = Kernel, len(in.Attrs.Grid.Dims)
	}
	return v.block(in.Body, inner, dims)
}

// types checks the common preconditions and then applies the type rule of the op's row.
func (in *Instr) types() ([]Type, error) {
	row := &Ops[in.Op]
	if row.Args >= 0 && len(in.Args) != row.Args || len(in.Args) < row.Min {
		return nil, fmt.Errorf("has %d operands", len(in.Args))
	}
	if (in.Body != nil) != row.Body {
		return nil, fmt.Errorf("a body is missing or out of place")
	}
	return row.Types(in)
}
