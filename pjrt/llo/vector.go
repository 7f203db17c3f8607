package llo

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/ir/target"
)

// unitKind says which part of the machine an instruction of the vector unit uses, beside registers.
type unitKind uint8

const (
	onVector    unitKind = iota // arithmetic, loads, stores: registers alone
	onMatmul                    // a product: holds the matrix unit, enters results
	onPush                      // weights: holds the port
	onLanes                     // a permute or sum over lanes: holds a lane unit, enters one result
	onTranspose                 // a register of a transpose: the last one enters the results
	onTransc                    // a transcendental function: enters one result
	popMatmul                   // results, in order of entry
	popLanes
	popTransc
	popMatmulAddr  // a result by its address, tpu7x
	setLanePattern // a pattern of permutes: switches a lane unit
)

// A laneClass is a kind of work between which lane units switch.
type laneClass uint8

const (
	lanePermute laneClass = iota
	laneSum
	laneTranspose32
	laneTranspose16
	laneClasses
)

// A vectorOp is an instruction as the in-order model sees it.
type vectorOp struct {
	kind    unitKind
	unit    int
	guard   guard
	latency int64 // of the register written
	cycles  int64 // that it holds its unit
	write   int16 // noVector: none
	reads   []int16
	class   laneClass
	half    bool // a product of 8 rows: of f32, or from the register that vllmr loads
	start   bool // first and last register of a transpose
	end     bool
	pair    bool // a transpose of two registers an instruction
	width   operand
	addr    int // of results, tpu7x
}

// Vector registers, then masks.
const (
	noVector       = -1
	firstMask      = 64
	vectorsAndMask = 2 * firstMask
)

// transcendentals are the operations whose results vpop.erf takes; vpow2 is vexp2 before libtpu 0.0.51, vsigshft the sigmoid less a half.
var transcendentals = []string{"vexp2", "vlog2", "vrcp", "vrsqrt", "vtanh", "verf", "vsinq", "vcosq", "vpow2", "vsigshft"}

// moves are the operations of the vector unit that take one cycle, beside those that write a mask.
var moves = []string{"vmov", "vsel", "vstv", "vmmov"}

// vectorOf decodes an instruction of the vector unit; nil for all others.
func (d *decoder) vectorOf(in instruction, tm *target.Timing) (*vectorOp, error) {
	if in.op == "" || in.op[0] != 'v' || in.op == "vdelay" || strings.HasPrefix(in.op, "vsync") || strings.HasPrefix(in.op, "vtrace") || strings.HasPrefix(in.op, "vsettm") {
		return nil, nil
	}
	o := &vectorOp{write: vectorRegister(in.dst), guard: always, latency: tm.VectorALU}
	args := in.args
	if i := max(strings.Index(args, "(%p"), strings.Index(args, "(!%p")); i >= 0 {
		g, _, rest, err := d.guard(args[i:])
		if err != nil {
			return nil, err
		}
		o.guard, args = g, args[:i]+rest
	}
	for _, text := range strings.FieldsFunc(args, func(r rune) bool { return r == ' ' || r == ',' || r == '[' || r == ']' || r == '\t' || r == '\n' }) {
		if r := vectorRegister(text); r != noVector {
			o.reads = append(o.reads, r)
		}
	}
	name, rest, _ := strings.Cut(in.op, ".")
	parts := strings.Split(rest, ".")
	switch {
	case name == "vld" || strings.HasPrefix(name, "vld"):
		o.latency = tm.VectorLoad
	case o.write >= firstMask, slices.Contains(moves, name):
		o.latency = tm.VectorMove
	case name == "vpop":
		return o, o.pop(parts)
	case name == "vmatmul":
		o.kind, o.half = onMatmul, slices.Contains(parts, "f32") || slices.Contains(parts, "lmr")
		o.cycles = int64(d.target.MatmulBF16)
		if o.half {
			o.cycles = int64(d.target.MatmulF32)
		}
		return o, o.onMatrixUnit(parts)
	case strings.HasPrefix(name, "vmatpush"):
		o.kind, o.cycles = onPush, d.target.PushF32
		if slices.Contains(parts, "bf16") {
			o.cycles = d.target.PushBF16
		}
		return o, o.onMatrixUnit(parts)
	case slices.Contains(transcendentals, name) && o.write == noVector:
		o.kind, o.latency = onTransc, tm.Transcendental
	case hasLaneUnit(parts):
		return o, d.onLaneUnit(o, name, parts, in.args, tm)
	}
	return o, nil
}

// hasLaneUnit reports whether the parts of an operation's name have xlu0, xlu1 ...
func hasLaneUnit(parts []string) bool {
	for _, p := range parts {
		if strings.HasPrefix(p, "xlu") {
			return true
		}
	}
	return false
}

// unitNumber is the number after a prefix among the parts of an operation's name, 0 without.
func unitNumber(parts []string, prefix string) (int, error) {
	for _, p := range parts {
		if digits, ok := strings.CutPrefix(p, prefix); ok {
			n, err := strconv.Atoi(digits)
			if err != nil || n < 0 || n >= maxMXUs {
				return 0, fmt.Errorf("unit %q", p)
			}
			return n, nil
		}
	}
	return 0, nil
}

// onMatrixUnit sets the unit and, where results have one, the address.
func (o *vectorOp) onMatrixUnit(parts []string) (err error) {
	if o.unit, err = unitNumber(parts, "mxu"); err != nil {
		return err
	}
	for _, p := range parts {
		if digits, ok := strings.CutPrefix(p, "mrb["); ok {
			o.addr, err = strconv.Atoi(strings.TrimSuffix(digits, "]"))
		}
	}
	return err
}

// pop decodes `vpop.f32.mrf.mxu0`, `vpop.f32.mrb[3].mxu0`, `vpop.erf` (`vpop.eup` before libtpu 0.0.51), `vpop.permute.xlu1`, `vpop.trf.xlu0` and `vpop.xlane.xlu0`.
func (o *vectorOp) pop(parts []string) (err error) {
	o.latency = 1
	switch {
	case slices.Contains(parts, "erf"), slices.Contains(parts, "eup"):
		o.kind = popTransc
		return nil
	case hasLaneUnit(parts):
		o.kind = popLanes
		o.unit, err = unitNumber(parts, "xlu")
		return err
	case slices.Contains(parts, "mrf"):
		o.kind = popMatmul
		return o.onMatrixUnit(parts)
	case len(parts) > 1 && strings.HasPrefix(parts[len(parts)-2], "mrb["):
		o.kind = popMatmulAddr
		return o.onMatrixUnit(parts)
	case slices.Contains(parts, "sfrf"): // to a scalar register, in order of its own
		return nil
	}
	return fmt.Errorf("a result of an unknown unit")
}

// onLaneUnit decodes permutes, rotates, broadcasts, sums over lanes, transposes and patterns.
func (d *decoder) onLaneUnit(o *vectorOp, name string, parts []string, args string, tm *target.Timing) (err error) {
	if o.unit, err = unitNumber(parts, "xlu"); err != nil {
		return err
	}
	switch {
	case name == "vset":
		o.kind, o.class = setLanePattern, lanePermute
	case name == "vxpose":
		o.kind, o.class = onTranspose, laneTranspose32
		o.cycles = tm.Transpose32.Path
		if slices.Contains(parts, "b16") || slices.Contains(parts, "b8") {
			o.class, o.cycles = laneTranspose16, tm.Transpose16.Path
		}
		o.start, o.end, o.pair = slices.Contains(parts, "start"), slices.Contains(parts, "end"), slices.Contains(parts, "binary")
		_, width, _ := strings.Cut(args, "]")
		o.width = operand{reg: noRegister, val: number(128)}
		for f := range strings.SplitSeq(width, ",") {
			if v, err := d.operand(f); err == nil && (v.val.isNumber() || v.reg != noRegister) {
				o.width = v
			}
		}
	case slices.Contains(parts, "xlane"):
		o.kind, o.class, o.latency, o.cycles = onLanes, laneSum, tm.LaneSum, tm.LanePath
	default:
		o.kind, o.class, o.latency, o.cycles = onLanes, lanePermute, tm.Permute, tm.LanePath
	}
	return nil
}

// vectorRegister is the index of a physical register named `%<virtual>_v7` or mask `%<virtual>_vm3`, noVector for all others.
func vectorRegister(name string) int16 {
	name = strings.TrimPrefix(name, "!")
	i := strings.LastIndexByte(name, '_')
	if name == "" || name[0] != '%' || i < 0 || i+2 >= len(name) || name[i+1] != 'v' {
		return noVector
	}
	digits, mask := strings.CutPrefix(name[i+2:], "m")
	n, err := strconv.Atoi(digits)
	if err != nil || n < 0 || n >= firstMask {
		return noVector
	}
	if mask {
		n += firstMask
	}
	return int16(n)
}
