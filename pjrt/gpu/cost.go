package gpu

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/internal/terminal"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/gpu/sass"
)

// Modelled is a launch on a GPU with facts from its machine code, and its modelled time if the GPU's latencies are known.
type Modelled struct {
	Launch
	Target       string     `json:"target"`
	Registers    int        `json:"registers"`
	Stack        int        `json:"stack_bytes"` // of a thread: spills
	Instructions int        `json:"instructions"`
	Cost         *sass.Cost `json:"cost,omitempty"`
	Floor        float64    `json:"dram_floor_us"` // HBM time by the data sheet's bandwidth
	Trips        int        `json:"trips"`         // of the longest loop
	Config       string     `json:"config,omitempty"`
	Sampled      int        `json:"sampled,omitempty"` // configs of an autotuned kernel that were compiled
	Configs      int        `json:"configs,omitempty"` // configs that it has
}

// Model returns the launches compiled for a GPU with their modelled times. work returns the loop iterations of a kernel, and the bytes that
// it moves.
func Model(launches []Launch, g *target.GPU, work func(kernel string) (trips int, bytes int64)) ([]Modelled, error) {
	var list []Modelled
	for _, l := range launches {
		if l.Capability != g.Capability {
			continue
		}
		if err := l.Fits(g); err != nil {
			return nil, err
		}
		trips, bytes := work(l.Kernel)
		m, err := model(l, g, trips, bytes)
		if err != nil {
			return nil, err
		}
		list = append(list, *m)
	}
	return list, nil
}

func model(l Launch, g *target.GPU, trips int, bytes int64) (*Modelled, error) {
	code, err := sass.Parse(l.SASS, l.Usage)
	if l.SASS == "" && g.Timing == nil { // the tools do not know the GPU
		code, err = sass.Usage(l.Usage)
	}
	if err != nil {
		return nil, fmt.Errorf("kernel %s: %w", l.Kernel, err)
	}
	m := &Modelled{Launch: l, Target: g.Name, Registers: code.Registers, Stack: code.Stack, Instructions: code.Instructions(), Floor: float64(bytes) / g.DRAM * 1e6, Trips: trips}
	if g.Timing != nil {
		if m.Cost, err = code.Model(sass.Launch{Programs: l.Programs(), Warps: l.Warps, Shared: l.Shared, Trips: trips, Bytes: bytes}, g); err != nil {
			return nil, fmt.Errorf("kernel %s: %w", l.Kernel, err)
		}
	}
	return m, nil
}

// Time returns the modelled time of launches one after another, in microseconds, without launch overhead.
func Time(list []Modelled) (us float64) {
	for _, m := range list {
		if m.Cost != nil {
			us += m.Cost.Time
		}
	}
	return us
}

// Report is launches on GPUs with their modelled times.
type Report struct {
	Modelled map[string]float64 `json:"modelled_us"` // by target, summed over launches
	Launches []Modelled         `json:"launches"`
	Note     string             `json:"note"`
}

// Add adds the launches on one GPU.
func (r *Report) Add(g *target.GPU, list []Modelled) {
	if r.Modelled == nil {
		r.Modelled, r.Note = map[string]float64{}, Note()
	}
	r.Launches = append(r.Launches, list...)
	if g.Timing != nil {
		r.Modelled[g.Name] = Time(list)
	}
}

// Write prints the launches and their sums.
func (r *Report) Write(w io.Writer) {
	WriteModelled(w, r.Launches)
	for _, g := range target.GPUs() {
		if us, ok := r.Modelled[g.Name]; ok {
			fmt.Fprintf(w, "\n%s: %.1f us modelled for all launches", g.Name, us)
		}
	}
	fmt.Fprintf(w, "\n%s\n", r.Note)
}

// Note says how accurate modelled times are.
func Note() string {
	worth := "on an H100 prefills took 1.2 to 1.5 times as long"
	for _, g := range target.GPUs() {
		if g.Calibrated != "" {
			worth = fmt.Sprintf("that of %s was fitted on %s", g.Name, g.Calibrated)
		}
	}
	return "times are modelled from machine code by a table of latencies; " + worth + ", and starting a kernel is not counted (see docs/gpu.md)"
}

// ParseTrips parses KERNEL=N, the number of loop iterations of kernels.
func ParseTrips(list []string) (map[string]int, error) {
	trips := map[string]int{}
	for _, text := range list {
		kernel, value, _ := strings.Cut(text, "=")
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 || kernel == "" {
			return nil, fmt.Errorf("%s: want KERNEL=N, how often the loop of a kernel turns", text)
		}
		trips[kernel] = n
	}
	return trips, nil
}

// WriteModelled prints a row per launch. For autotuned kernels it has the fastest config, and the number of configs.
func WriteModelled(w io.Writer, list []Modelled) {
	heads := []string{"TARGET", "KERNEL", ">PROGRAMS", ">WARPS", ">REGISTERS", ">SPILLS", ">SHARED", ">SASS", ">RESIDENT", ">WAVES", ">TURNS", ">CYCLES A TURN", ">MODELLED US", ">DRAM US", "BOUND BY"}
	tuned := slices.ContainsFunc(list, func(m Modelled) bool { return m.Config != "" })
	if tuned {
		heads = append(heads, "CONFIG", "OF")
	}
	t := terminal.NewTable(heads...)
	for _, m := range list {
		row := []any{m.Target, m.Kernel, m.Programs(), m.Warps, m.Registers, m.Stack, m.Shared, m.Instructions}
		if c := m.Cost; c != nil {
			bound := "issue and latency"
			if c.DRAM >= c.Issue {
				bound = "HBM"
			}
			turns := ""
			if c.Turn > 0 {
				turns = strconv.Itoa(m.Trips)
			}
			row = append(row, fmt.Sprintf("%d of %d", c.Resident, c.Limit), fmt.Sprintf("%.2f", c.Waves), turns, fmt.Sprintf("%.0f", c.Turn), fmt.Sprintf("%.1f", c.Time), fmt.Sprintf("%.1f", c.DRAM), bound)
		} else {
			row = append(row, "", "", "", "", "not modelled", fmt.Sprintf("%.1f", m.Floor), "")
		}
		if tuned {
			of := ""
			if m.Sampled > 0 {
				of = fmt.Sprintf("%d of %d", m.Sampled, m.Configs)
			}
			row = append(row, shortConfig(m.Config), of)
		}
		t.Add(row...)
	}
	t.Write(w)
}

// shortConfig returns an autotuner's config without the parts that its row shows.
func shortConfig(text string) string {
	var parts []string
	for part := range strings.SplitSeq(text, ", ") {
		if name, value, _ := strings.Cut(part, ": "); name != "num_warps" && (name != "num_ctas" || value != "1") && value != "None" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ", ")
}
