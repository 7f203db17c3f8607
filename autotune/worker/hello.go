package worker

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/cpu"

	"github.com/gdngen/gdngen/autotune/judge"
	"github.com/gdngen/gdngen/internal/remote"
)

// Hello describes a worker. Workers of one run must be equal in everything that its figures depend on.
type Hello struct {
	Protocol  int               `json:"protocol"`
	Build     string            `json:"build"`     // sha256 of the program, in hex
	Generator string            `json:"generator"` // its version
	Plugins   map[string]string `json:"plugins,omitempty"`
	Gates     []GateRow         `json:"gates"`
	Estimates bool              `json:"estimates,omitempty"` // its costs come from real schedules
	Platform  string            `json:"platform"`            // such as linux/amd64
	ISA       string            `json:"isa"`                 // instruction set that a CPU gate may use
	Node      string            `json:"node"`
	Cores     int               `json:"cores"`
}

// GateRow describes a gate.
type GateRow struct {
	Name  string `json:"name"`
	Doc   string `json:"doc,omitempty"`
	Again bool   `json:"again,omitempty"`
}

// isa names the widest vectors of this processor: CPU programs split sums by them.
func isa() string {
	for _, x := range []struct {
		name string
		has  bool
	}{{"avx512", cpu.X86.HasAVX512F}, {"avx2", cpu.X86.HasAVX2}, {"avx", cpu.X86.HasAVX}, {"sve", cpu.ARM64.HasSVE}, {"neon", cpu.ARM64.HasASIMD}} {
		if x.has {
			return x.name
		}
	}
	return runtime.GOARCH
}

// hello describes a worker that judges by an evaluator.
func hello(generator string, e judge.Evaluator) (*Hello, error) {
	build, err := remote.Build()
	if err != nil {
		return nil, err
	}
	node, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	h := &Hello{Protocol: Protocol, Build: build, Generator: generator, Plugins: e.Plugins(), Platform: runtime.GOOS + "/" + runtime.GOARCH, ISA: isa(), Node: node,
		Cores: runtime.NumCPU()}
	for _, g := range e.Gates() {
		h.Gates = append(h.Gates, GateRow{g.Name, g.Doc, g.Again})
	}
	if x, ok := e.(interface{ Estimates() bool }); ok {
		h.Estimates = x.Estimates()
	}
	return h, nil
}

// released reports whether a version identifies the source text.
func released(version string) bool {
	return strings.HasPrefix(version, "v") && !strings.Contains(version, "dirty")
}

// differs returns the first relevant difference between a worker and a run's needs, or "". Unreleased programs are
// compared by their files. mixed allows processors that may round differently.
func (h *Hello) differs(want *Hello, mixed bool) string {
	var l []string
	note := func(what string, has, needs any) {
		l = append(l, fmt.Sprintf("%s %v, and the run needs %v", what, has, needs))
	}
	if h.Protocol != want.Protocol {
		note("it speaks protocol", h.Protocol, want.Protocol)
	}
	if h.Generator != want.Generator {
		note("it is gdngen", cmp.Or(h.Generator, "of no version"), cmp.Or(want.Generator, "of no version"))
	} else if !released(h.Generator) && h.Build != want.Build {
		note("its program is", brief(h.Build), brief(want.Build))
	}
	if !maps.Equal(h.Plugins, want.Plugins) {
		note("its plugins are", plugins(h.Plugins), plugins(want.Plugins))
	}
	if !slices.Equal(h.Gates, want.Gates) {
		note("its gates are", names(h.Gates), names(want.Gates))
	}
	if h.ISA != want.ISA && !mixed {
		note("its processor has", h.ISA, want.ISA+" (or --mixed, which the header then says)")
	}
	return strings.Join(l, "; ")
}

// brief shortens a build for a message.
func brief(build string) string { return build[:min(len(build), 12)] }

func plugins(m map[string]string) string {
	var l []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		l = append(l, name+" "+m[name])
	}
	return cmp.Or(strings.Join(l, ", "), "none")
}

func names(l []GateRow) string {
	var out []string
	for _, g := range l {
		out = append(out, g.Name)
	}
	return strings.Join(out, " ")
}
