package measure

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/codegen/mosaic"
	"github.com/gdngen/gdngen/codegen/pass"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/interp"
)

// EqualLengths is a note for costs of packed sequences.
const EqualLengths = "packed sequences and pools: the cost is that of sequences of equal length, each with a state"

// representative returns the contents of scalar memory that a module's kernels read, for sequences of a load's lengths
// or of equal length, keyed kernel/operand as in llo.Options. It is nil for a module without packed sequences.
func representative(m *ir.Module, s gdn.Spec, load []int) (map[string][]int64, error) {
	if s.Seqs == 0 && s.Pool == 0 {
		return nil, nil
	}
	tables := map[string]*ir.Value{}
	m.Body.Walk(func(in *ir.Instr) {
		if in.Op == ir.OpKernel {
			for i, table := range mosaic.Scalars(in) {
				tables[fmt.Sprintf("%s/%d", mosaic.Name(in), i)] = table
			}
		}
	})
	glue := &ir.Module{Name: m.Name, Body: &ir.Block{Params: m.Body.Params, Instrs: m.Body.Instrs}}
	names := slices.Sorted(maps.Keys(tables))
	for i, name := range names {
		glue.Results = append(glue.Results, fmt.Sprintf("table%d", i))
		glue.Body.Yield = append(glue.Body.Yield, tables[name])
	}
	glue, err := pass.Apply(glue, "dce")
	if err != nil {
		return nil, err
	}
	read := map[*ir.Value]bool{}
	glue.Body.Walk(func(in *ir.Instr) {
		for _, a := range in.Args {
			read[a] = true
		}
	})
	glue.Body.Params = slices.DeleteFunc(glue.Body.Params, func(p *ir.Value) bool { return !read[p] && !slices.Contains(glue.Body.Yield, p) })
	args := map[string]*array.Array{}
	for _, p := range glue.Body.Params {
		list := indices(s, p.Name, load)
		if list == nil {
			return nil, fmt.Errorf("a table of the kernels depends on %s, not on cu_seqlens and indices of states alone: give its values with --scalars", p.Name)
		}
		args[p.Name] = array.FromInt64s(p.Type.DType, p.Type.Shape, list)
	}
	values, err := interp.Run(glue, args, interp.Options{})
	if err != nil {
		return nil, fmt.Errorf("tables of the kernels: %w", err)
	}
	scalars := map[string][]int64{}
	for i, name := range names {
		scalars[name] = values[glue.Results[i]].Int64s()
	}
	return scalars, nil
}

// indices returns the assumed values of an input that names sequences or states; nil for other inputs.
func indices(s gdn.Spec, input string, load []int) []int64 {
	if load == nil && s.Mixed > 0 { // decode steps, and one prompt
		decodes := min(s.Seqs, s.Tokens) - 1
		load = append(slices.Repeat([]int{1}, decodes), s.Tokens-decodes)
	}
	switch input {
	case "cu_seqlens":
		if load == nil {
			return CuSeqlens(s)
		}
		cu := make([]int64, s.Seqs+1)
		for i := range s.Seqs {
			if cu[i+1] = cu[i]; i < len(load) {
				cu[i+1] += int64(load[i])
			}
		}
		return cu
	case "distribution":
		decodes := slices.IndexFunc(load, func(n int) bool { return n > s.Mixed })
		if decodes < 0 {
			decodes = len(load)
		}
		return []int64{int64(decodes), int64(decodes), int64(len(load))}
	case "state_indices":
		return lastStates(s)
	case "read_indices":
		return ownReads(s)
	}
	return nil
}

// lastStates returns state_indices for sequences that use a pool from its end down.
func lastStates(s gdn.Spec) []int64 {
	list := make([]int64, s.Sequences())
	for i := range list {
		list[i] = max(int64(s.Pool/s.Checkpoints()-1-i), -1)
	}
	return list
}

// ownReads returns read_indices for sequences that continue from their own last state.
func ownReads(s gdn.Spec) []int64 {
	list, n := lastStates(s), int64(s.Checkpoints())
	for i, own := range list {
		if own >= 0 {
			list[i] = own*n + n - 1
		}
	}
	return list
}

// CuSeqlens returns cu_seqlens, [Seqs + 1], for sequences whose lengths differ by at most one token.
func CuSeqlens(s gdn.Spec) []int64 {
	cu := make([]int64, s.Seqs+1)
	for i := range cu {
		cu[i] = int64(s.Tokens) * int64(i) / int64(s.Seqs)
	}
	return cu
}

// ParseLoad reads lengths of sequences, with repeat counts: 8x1+128+256.
func ParseLoad(text string) ([]int, error) {
	var load []int
	for part := range strings.SplitSeq(text, "+") {
		times, length, many := strings.Cut(part, "x")
		if !many {
			times, length = "1", part
		}
		n, err := strconv.Atoi(strings.TrimSpace(times))
		l, bad := strconv.Atoi(strings.TrimSpace(length))
		if err != nil || bad != nil || n < 1 || n > maxLoad || l < 0 {
			return nil, fmt.Errorf("%q is no number of tokens, or of sequences and their tokens: want lengths such as 8x1+128+256", part)
		}
		load = append(load, slices.Repeat([]int{l}, n)...)
	}
	return load, nil
}

// maxLoad is the largest repeat count.
const maxLoad = 1 << 16

// Under sets the program's scalars for packed sequences of the given lengths; in a mixed batch, in its order. It errs
// if the spec has no packed sequences or the lengths do not fit it.
func (p *Program) Under(load []int) error {
	var tokens int
	for _, n := range load {
		tokens += n
	}
	s := p.Spec
	if s == nil || s.Seqs == 0 {
		return fmt.Errorf("a load is of packed sequences: the program has none")
	}
	if len(load) > s.Seqs || tokens > s.Tokens || s.Mixed == 0 && (len(load) != s.Seqs || tokens != s.Tokens) {
		return fmt.Errorf("%d sequences of %d tokens together: the program has %d of %d", len(load), tokens, s.Seqs, s.Tokens)
	}
	scalars, err := representative(p.Lowered, *s, load)
	if err == nil {
		p.Scalars = scalars
	}
	return err
}

// parseScalar reads an integer, or true and false as scalar memory holds them: 1 and 0.
func parseScalar(text string) (int64, error) {
	switch strings.ToLower(text) {
	case "true":
		return 1, nil
	case "false":
		return 0, nil
	}
	return strconv.ParseInt(text, 10, 64)
}

// ParseScalars reads values of scalar operands: OPERAND=V,V,... each, integers or true and false.
func ParseScalars(entries []string) (map[string][]int64, error) {
	var all map[string][]int64
	for _, entry := range entries {
		key, list, ok := strings.Cut(entry, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("%q: want OPERAND=V,V,..., such as 0=0,100,300", entry)
		}
		for text := range strings.SplitSeq(list, ",") {
			v, err := parseScalar(strings.TrimSpace(text))
			if err != nil {
				return nil, fmt.Errorf("%q: %q is neither an integer nor true or false", entry, text)
			}
			if all == nil {
				all = map[string][]int64{}
			}
			all[key] = append(all[key], v)
		}
	}
	return all, nil
}
