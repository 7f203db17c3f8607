package gpu

import (
	"fmt"
	"io"

	"github.com/gdngen/gdngen/gpu/sass"
	"github.com/gdngen/gdngen/internal/terminal"
	"github.com/gdngen/gdngen/target"
)

// Modelled is a launch on a GPU with what its machine code says, and its modelled time where the GPU's latencies are known.
type Modelled struct {
	Launch
	Target       string     `json:"target"`
	Registers    int        `json:"registers"`
	Stack        int        `json:"stack_bytes"` // of a thread: spills
	Instructions int        `json:"instructions"`
	Cost         *sass.Cost `json:"cost,omitempty"`
	Floor        float64    `json:"dram_floor_us"` // what main memory takes by its data sheet
}

// Model gives the launches that were compiled for a GPU with their modelled times; trips are those of a kernel's loop and bytes what it moves.
func Model(launches []Launch, g *target.GPU, work func(kernel string) (trips int, bytes int64)) ([]Modelled, error) {
	var list []Modelled
	for _, l := range launches {
		if l.Capability != g.Capability {
			continue
		}
		if err := l.Fits(g); err != nil {
			return nil, err
		}
		code, err := sass.Parse(l.SASS, l.Usage)
		if err != nil {
			return nil, fmt.Errorf("kernel %s: %w", l.Kernel, err)
		}
		trips, bytes := work(l.Kernel)
		m := Modelled{Launch: l, Target: g.Name, Registers: code.Registers, Stack: code.Stack, Instructions: code.Instructions(), Floor: float64(bytes) / g.DRAM * 1e6}
		if g.Timing != nil {
			if m.Cost, err = code.Model(sass.Launch{Programs: l.Programs(), Warps: l.Warps, Shared: l.Shared, Trips: trips, Bytes: bytes}, g); err != nil {
				return nil, fmt.Errorf("kernel %s: %w", l.Kernel, err)
			}
		}
		list = append(list, m)
	}
	return list, nil
}

// Time is the modelled time of launches one after another, in microseconds, without what starting them takes.
func Time(list []Modelled) (us float64) {
	for _, m := range list {
		if m.Cost != nil {
			us += m.Cost.Time
		}
	}
	return us
}

// WriteModelled prints a row for each launch, and their sum.
func WriteModelled(w io.Writer, list []Modelled) {
	t := terminal.NewTable("TARGET", "KERNEL", ">PROGRAMS", ">WARPS", ">REGISTERS", ">SPILLS", ">SHARED", ">SASS", ">RESIDENT", ">WAVES", ">CYCLES A TURN", ">MODELLED US", ">DRAM US", "BOUND BY")
	for _, m := range list {
		facts := []any{m.Target, m.Kernel, m.Programs(), m.Warps, m.Registers, m.Stack, m.Shared, m.Instructions}
		if c := m.Cost; c != nil {
			bound := "issue and latency"
			if c.DRAM >= c.Issue {
				bound = "main memory"
			}
			t.Add(append(facts, fmt.Sprintf("%d of %d", c.Resident, c.Limit), fmt.Sprintf("%.2f", c.Waves), fmt.Sprintf("%.0f", c.Turn), fmt.Sprintf("%.1f", c.Time), fmt.Sprintf("%.1f", c.DRAM), bound)...)
		} else {
			t.Add(append(facts, "", "", "", "not modelled", fmt.Sprintf("%.1f", m.Floor), "")...)
		}
	}
	t.Write(w)
}
