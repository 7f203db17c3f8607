package ptx

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/codegen/stablehlo"
	"github.com/gdngen/gdngen/codegen/triton"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/gpu"
)

// Target is the name of XLA's custom call.
const Target = "__gpu$xla.gpu.ptx"

// scratch is the type of the arguments for Triton's scratch pointers, which our kernels do not use.
const scratch = "tensor<1xi8>"

// scratchPointers is the number of such pointers that Triton appends to the parameters.
const scratchPointers = 2

// value is a tensor of the module.
type value struct{ name, kind string }

// Module writes StableHLO whose @main has the inputs and outputs of a spec, and calls kernels compiled for a GPU. The outputs of a
// kernel are triton.Writes. An output that already has a value, such as states in place and pools, keeps its memory: the call's result
// aliases the operand.
func Module(s gdn.Spec, launches []gpu.Launch, g *target.GPU) (string, error) {
	m := &module{values: map[string]value{}}
	var params, results []string
	outputs := s.Outputs()
	for _, p := range s.Inputs() {
		kind := stablehlo.TensorType(p.Type)
		m.values[p.Name] = value{"%" + p.Name, kind}
		donated := ""
		if i := slices.IndexFunc(outputs, func(o gdn.Param) bool { return o.Name == "final_state" }); s.InPlace && p.Name == "initial_state" {
			donated = fmt.Sprintf(" {tf.aliasing_output = %d : i32}", i)
		}
		params = append(params, fmt.Sprintf("%%%s: %s%s", p.Name, kind, donated))
	}
	if s.InPlace || s.Pool > 0 {
		m.values["final_state"] = m.values["initial_state"] // states that no sequence names stay unchanged
	}
	for i := range launches {
		l := &launches[i]
		if l.Capability != g.Capability {
			continue
		}
		if err := l.Fits(g); err != nil {
			return "", err
		}
		if err := m.call(l); err != nil {
			return "", fmt.Errorf("kernel %s: %w", l.Kernel, err)
		}
	}
	var names []string
	for _, p := range outputs {
		v, ok := m.values[p.Name]
		if !ok {
			return "", fmt.Errorf("no kernel for %s writes %s", g.Name, p.Name)
		}
		names, results = append(names, v.name), append(results, stablehlo.TensorType(p.Type))
	}
	kinds := strings.Join(results, ", ")
	return fmt.Sprintf("module @gdn {\n  func.func public @main(%s) -> (%s) {\n%s    return %s : %s\n  }\n}\n", strings.Join(params, ", "), kinds, m.text.String(), strings.Join(names, ", "), kinds), nil
}

type module struct {
	values map[string]value // by tensor name, the current values
	text   strings.Builder
	calls  int
}

// call adds the call of a launch. Example: parameters q, o and state, with o new and state in place, then Triton's two pointers:
//
//	parameter  q          o         state      pointer   pointer
//	is         operand 0  result 0  operand 1  result 1  result 2
//
// Result 1 aliases operand 1, so it is the state after the call. The kernel does not use the pointer in its place.
func (m *module) call(l *gpu.Launch) error {
	entry, err := entryOf(l)
	if err != nil {
		return err
	}
	c := &call{free: []int{len(l.Arguments), len(l.Arguments) + 1}}
	writes := triton.Writes(l.Kernel)
	for at, a := range l.Arguments {
		t, err := a.Type()
		switch {
		case err != nil:
			return err
		case !slices.Contains(writes, a.Parameter):
			v, ok := m.values[a.Tensor]
			if !ok {
				return fmt.Errorf("parameter %s reads %s before a kernel writes it", a.Parameter, a.Tensor)
			}
			c.operands = append(c.operands, v)
		default:
			c.outputs = append(c.outputs, output{tensor: a.Tensor, kind: stablehlo.TensorType(t), at: at, alias: -1})
		}
	}
	if err := c.place(m.values); err != nil {
		return err
	}
	m.calls++
	name := fmt.Sprintf("%%%s%d", l.Kernel, m.calls)
	for i, o := range c.outputs {
		if o.tensor != "" {
			m.values[o.tensor] = value{fmt.Sprintf("%s#%d", name, i), o.kind}
		}
	}
	c.write(&m.text, name, l, entry)
	return nil
}

// call is a custom call: its operands, and its results in the order of their parameters.
type call struct {
	operands []value
	outputs  []output
	free     []int // parameters that the kernel does not use
}

// output is a result: the tensor that it defines ("" for none), its type, its parameter, and the operand that it aliases (-1 for none).
type output struct {
	tensor, kind string
	at, alias    int
}

// place makes outputs that already have a value alias their operand, and gives their results free parameters.
func (c *call) place(values map[string]value) error {
	for i := range c.outputs {
		o := &c.outputs[i]
		before, ok := values[o.tensor]
		if !ok {
			continue
		}
		if o.alias = slices.Index(c.operands, before); o.alias >= 0 {
			continue // the kernel reads it by another parameter
		}
		if len(c.free) == 0 {
			return errors.New("more tensors are written in place than Triton has pointers to scratch memory")
		}
		// the operand takes the parameter, at its position among the operands, and the result takes a free one
		o.alias = o.at
		for _, other := range c.outputs {
			if other.at < o.at {
				o.alias--
			}
		}
		c.operands = slices.Insert(c.operands, o.alias, before)
		for j := range c.outputs {
			if j != i && c.outputs[j].alias >= o.alias {
				c.outputs[j].alias++
			}
		}
		o.at, c.free = c.free[0], c.free[1:]
	}
	for _, at := range c.free {
		c.outputs = append(c.outputs, output{kind: scratch, at: at, alias: -1})
	}
	slices.SortFunc(c.outputs, func(a, b output) int { return a.at - b.at })
	return nil
}

// write prints the call.
func (c *call) write(b *strings.Builder, name string, l *gpu.Launch, entry string) {
	var operands, ins, outs, inLayouts, outLayouts, places, aliases []string
	for _, v := range c.operands {
		operands, ins, inLayouts = append(operands, v.name), append(ins, v.kind), append(inLayouts, layout(v.kind))
	}
	for i, o := range c.outputs {
		outs, outLayouts, places = append(outs, o.kind), append(outLayouts, layout(o.kind)), append(places, fmt.Sprintf("%d : i32", o.at))
		if o.alias >= 0 {
			aliases = append(aliases, fmt.Sprintf("#stablehlo.output_operand_alias<output_tuple_indices = [%d], operand_index = %d, operand_tuple_indices = []>", i, o.alias))
		}
	}
	config := fmt.Sprintf(`name = "%s", kernel_type = "ptx", kernel_data = "%s"`, entry, escape(l.PTX))
	for i, axis := range []string{"x", "y", "z"} {
		config += fmt.Sprintf(", grid_%s = %d : i32", axis, l.Grid[i])
	}
	config += fmt.Sprintf(", block_x = %d : i32, block_y = 1 : i32, block_z = 1 : i32, shared_mem_bytes = %d : i32, output_indices = [%s]", threadsOf(l), l.Shared, strings.Join(places, ", "))
	alias := ""
	if len(aliases) > 0 {
		alias = ", output_operand_aliases = [" + strings.Join(aliases, ", ") + "]"
	}
	fmt.Fprintf(b, "    %s:%d = stablehlo.custom_call @%s(%s) {api_version = 4 : i32, backend_config = {%s}, operand_layouts = [%s], result_layouts = [%s]%s} : (%s) -> (%s)\n",
		name, len(outs), strconv.Quote(Target), strings.Join(operands, ", "), config, strings.Join(inLayouts, ", "), strings.Join(outLayouts, ", "), alias, strings.Join(ins, ", "), strings.Join(outs, ", "))
}

// layout returns the row-major layout of a tensor type.
func layout(kind string) string {
	rank := strings.Count(kind, "x")
	order := make([]string, rank)
	for i := range order {
		order[i] = strconv.Itoa(rank - 1 - i)
	}
	return fmt.Sprintf("dense<[%s]> : tensor<%dxindex>", strings.Join(order, ", "), rank)
}

var (
	entryName  = regexp.MustCompile(`(?m)^\.visible \.entry (\w+)\(`)
	parameters = regexp.MustCompile(`(?m)^\s*\.param `)
	threads    = regexp.MustCompile(`(?m)^\.reqntid (\d+)`)
)

// entryOf returns the name of the kernel in a launch's PTX. It errs if the parameters do not match the launch, or if the kernel needs
// scratch memory.
func entryOf(l *gpu.Launch) (string, error) {
	entries := entryName.FindAllStringSubmatchIndex(l.PTX, -1)
	if len(entries) != 1 {
		return "", fmt.Errorf("its PTX has %d kernels, and 1 is expected", len(entries))
	}
	head, _, _ := strings.Cut(l.PTX[entries[0][1]:], "{")
	n := len(parameters.FindAllString(head, -1))
	switch {
	case l.Scratch > 0:
		return "", fmt.Errorf("it wants %d bytes of scratch memory, which the custom call has not", l.Scratch)
	case n != len(l.Arguments)+scratchPointers:
		return "", fmt.Errorf("its PTX has %d parameters, and %d and Triton's %d pointers to scratch memory are expected", n, len(l.Arguments), scratchPointers)
	case threads.FindString(l.PTX) == "":
		return "", errors.New("its PTX does not say how many threads it has")
	}
	return l.PTX[entries[0][2]:entries[0][3]], nil
}

// threadsOf returns the number of threads per program.
func threadsOf(l *gpu.Launch) int {
	n, err := strconv.Atoi(threads.FindStringSubmatch(l.PTX)[1])
	if err != nil {
		return 32 * l.Warps
	}
	return n
}
