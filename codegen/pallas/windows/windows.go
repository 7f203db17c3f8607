// Package windows writes what a kernel sees of its operands and results.
package windows

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/codegen/pallas/lists"
	"github.com/gdngen/gdngen/ir"
)

// Spec is the BlockSpec of a window, whose block has a shape in Python.
func Spec(g *ir.Grid, w ir.Window, input bool, shape string) string {
	var params, at []string
	used := map[int]bool{}
	for _, x := range w.Index {
		if x.Axis >= 0 {
			used[x.Axis] = true
		}
	}
	for i, d := range g.Dims {
		n := d.Name
		if !used[i] {
			n = "_" + n
		}
		params = append(params, n)
	}
	tables := false
	for _, x := range w.Index {
		tables = tables || x.Table >= 0
	}
	for i := range g.Tables {
		n := Table(i)
		if !tables {
			n = "_" + n
		}
		params = append(params, n)
	}
	for _, x := range w.Index {
		s := strconv.Itoa(x.Const)
		if x.Axis >= 0 {
			s = g.Dims[x.Axis].Name
			lo, hi := x.Shift, g.Dims[x.Axis].Size-1+x.Shift
			if x.Shift > 0 {
				s = fmt.Sprintf("%s + %d", s, x.Shift)
			} else if x.Shift < 0 {
				s = fmt.Sprintf("%s - %d", s, -x.Shift)
			}
			switch clampHi := x.Max >= 0 && hi > x.Max; {
			case lo < 0 && clampHi:
				s = fmt.Sprintf("jnp.clip(%s, 0, %d)", s, x.Max)
			case lo < 0:
				s = fmt.Sprintf("jnp.maximum(%s, 0)", s)
			case clampHi:
				s = fmt.Sprintf("jnp.minimum(%s, %d)", s, x.Max)
			}
			if x.Down {
				if x.Shift != 0 && !strings.HasPrefix(s, "jnp.") {
					s = "(" + s + ")"
				}
				s = fmt.Sprintf("%d - %s", x.Max, s)
			}
			if x.Const != 0 {
				s = fmt.Sprintf("%d + %s", x.Const, s)
			}
		}
		if x.Table >= 0 {
			s = Table(x.Table) + "[" + s + "]"
		}
		at = append(at, s)
	}
	mode := ""
	if input {
		mode = buffers(g, w)
	}
	return fmt.Sprintf("pl.BlockSpec(%s, lambda %s: %s%s)", shape, strings.Join(params, ", "), lists.Tuple(at), mode)
}

// buffers gives a window that is read once one buffer.
func buffers(g *ir.Grid, w ir.Window) string {
	blocks := 1
	for _, x := range w.Index {
		if x.Axis >= 0 && g.Dims[x.Axis].Seq {
			return ""
		}
		if x.Axis >= 0 {
			blocks *= g.Dims[x.Axis].Size
		}
	}
	if blocks == 1 {
		return ", pipeline_mode=pl.Buffered(1)"
	}
	return fmt.Sprintf(", pipeline_mode=pl.Buffered(min(%d, 2))", blocks)
}

// Name names the windows of a kernel where several operands or results have one, and gives the statements that do.
func Name(all ...[]string) (statements []string) {
	specs := slices.Concat(all...)
	slices.Sort(specs)
	if len(slices.Compact(specs)) == len(slices.Concat(all...)) {
		return nil
	}
	of := map[string]string{}
	for _, specs := range all {
		for j, s := range specs {
			if of[s] == "" {
				of[s] = fmt.Sprintf("block_%d", len(of)+1)
				statements = append(statements, "    "+of[s]+" = "+s)
			}
			specs[j] = of[s]
		}
	}
	return statements
}

// Table is the name of a table of numbers.
func Table(i int) string {
	if i == 0 {
		return "table"
	}
	return fmt.Sprintf("table_%d", i+1)
}
