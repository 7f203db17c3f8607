package mosaic

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
)

const lanes, sublanes = target.Lanes, target.Sublanes

// rowTile returns the number of rows of a native tile.
func rowTile(d ir.DType) int { return target.RegisterRows(d.Bytes()) }

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// checkWindows errs for scratch in HBM, and for blocks that the compiler can not tile: the last two dimensions of a block must be
// multiples of 8 rows and 128 lanes, or whole.
func checkWindows(kernel *ir.Instr) error {
	g := kernel.Attrs.Grid
	for i, t := range g.Scratch {
		if t.Space == ir.HBM {
			return fmt.Errorf("mosaic: kernel %s: scratch %d is %s: scratch lies in vmem or smem; HBM comes in as an operand", g.Name, i, t)
		}
	}
	for i, w := range allWindows(g) {
		what, t := fmt.Sprintf("input %d", i), ir.Type{}
		if i < len(g.In) {
			t = kernel.Args[g.Tables+i].Type
		} else {
			what, t = fmt.Sprintf("output %d", i-len(g.In)), g.Outs[i-len(g.In)]
		}
		fail := func(format string, args ...any) error {
			return fmt.Errorf("mosaic: kernel %s, %s: block %v of %s: %s", g.Name, what, w.Block, t, fmt.Sprintf(format, args...))
		}
		n := t.Rank()
		if w.Whole(t) {
			continue
		}
		if n == 0 {
			return fail("a scalar operand: pass it in a table, or as [1,1]")
		}
		tile := map[int]int{n - 1: lanes, n - 2: sublanes}
		if n == 1 {
			tile[0] = lanes * 4 / t.DType.Bytes()
		}
		for d, m := range tile {
			if d >= 0 && w.Block[d] != t.Shape[d] && w.Block[d]%m != 0 {
				return fail("dimension %d: %d is neither a multiple of %d nor the whole %d", d, w.Block[d], m, t.Shape[d])
			}
		}
	}
	return nil
}

// defaultVMEM is the VMEM in bytes of a kernel that sets no limit; a kernel far below it sets none. spillRoom is added to windows and
// scratch for register spills, which only the compiler knows: 8 MiB have been seen in kernels of many heads. If memory is short, at
// least tightRoom is added: training steps of eight heads took 2 MiB.
const defaultVMEM, spillRoom, tightRoom = 16 << 20, 16 << 20, 6 << 20

type user struct {
	what  string
	bytes int
}

// padded returns the size in bytes of a reference in VMEM, where the last two dimensions fill whole tiles. Fewer rows than a tile are
// rounded up to a power of two.
func padded(d ir.DType, shape []int) int {
	n := d.Bytes()
	if d == ir.Sem {
		return 0
	}
	for i, s := range shape {
		switch i {
		case len(shape) - 1:
			s = roundUp(s, lanes)
		case len(shape) - 2:
			if tile := rowTile(d); s >= tile {
				s = roundUp(s, tile)
			} else {
				p := 4 / d.Bytes()
				for p < s {
					p *= 2
				}
				s = p
			}
		}
		n *= s
	}
	return n
}

func vmemUsers(kernel *ir.Instr) []user {
	g := kernel.Attrs.Grid
	single := !slices.ContainsFunc(g.Dims, func(d ir.GridDim) bool { return d.Size > 1 })
	var us []user
	for i, w := range allWindows(g) {
		p := kernel.Body.Params[g.Tables+i].Type
		if p.Space != ir.VMEM {
			continue
		}
		u := user{fmt.Sprintf("input %d %s", i, p), padded(p.DType, w.Block)}
		if i >= len(g.In) {
			u.what = fmt.Sprintf("output %d %s", i-len(g.In), p)
		}
		if !single && (i >= len(g.In) || !fixed(g, w)) {
			u.what += " twice"
			u.bytes *= 2
		}
		us = append(us, u)
	}
	for i, t := range g.Scratch {
		if t.Space == ir.VMEM {
			us = append(us, user{fmt.Sprintf("scratch %d %s", i, t), padded(t.DType, t.Shape)})
		}
	}
	return us
}

// VMEMBytes estimates a kernel's VMEM in bytes: windows and scratch, without spills. A window counts twice, unless it is an input that
// never changes its block, or the grid has one point.
func VMEMBytes(kernel *ir.Instr) int {
	n := 0
	for _, u := range vmemUsers(kernel) {
		n += u.bytes
	}
	return n
}

// NeedsVMEM returns the largest VMEMBytes of a module's kernels.
func NeedsVMEM(m *ir.Module) (bytes int) {
	m.Body.Walk(func(in *ir.Instr) {
		if in.Op == ir.OpKernel {
			bytes = max(bytes, VMEMBytes(in))
		}
	})
	return bytes
}

// vmemLimit returns the VMEM limit in bytes to set, or 0 for the default. If a kernel can not fit, the error names its largest arrays.
//
// Memory asked for and not used is lost to arrays that kernels pass to each other, which the compiler can keep in VMEM. Example: 22 MiB
// of windows and scratch, arrays of 8 MiB, 64 MiB of VMEM. A limit of 44 MiB leaves room for one array, 28 MiB for three.
func vmemLimit(kernel *ir.Instr, target *target.Target, tight bool) (int, error) {
	n := VMEMBytes(kernel)
	if n > target.VMEM {
		us := vmemUsers(kernel)
		slices.SortStableFunc(us, func(a, b user) int { return cmp.Compare(b.bytes, a.bytes) })
		var top []string
		for _, u := range us[:min(len(us), 4)] {
			top = append(top, fmt.Sprintf("%s (%.2f MiB)", u.what, mib(u.bytes)))
		}
		return 0, fmt.Errorf("mosaic: kernel %s needs %.2f MiB of vector memory, %s has %.0f MiB: put fewer heads, batch rows or chunks in a program, or shorten the chunk; the biggest users: %s",
			kernel.Attrs.Grid.Name, mib(n), target.Name, mib(target.VMEM), strings.Join(top, ", "))
	}
	if n+spillRoom/2 <= defaultVMEM {
		return 0, nil
	}
	if tight {
		return min(n+max(n/4, tightRoom), target.VMEM), nil
	}
	return min(n+n/4+spillRoom, target.VMEM), nil
}

func mib(n int) float64 { return float64(n) / (1 << 20) }
