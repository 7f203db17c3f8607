package thunk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Thunk is one step of the GPU's program: a launch, or a group of steps.
type Thunk struct {
	Kind    string   `json:"kind"`           // XLA's name: kCustomKernel, kCopy, kWhile ...
	Name    string   `json:"name,omitempty"` // of the instruction that it was made from
	Kernel  string   `json:"kernel,omitempty"`
	Grid    [3]int   `json:"grid,omitzero"` // blocks
	Block   [3]int   `json:"block,omitzero"`
	Shared  int      `json:"shared,omitempty"`    // bytes of shared memory per block
	Read    int64    `json:"read,omitempty"`      // bytes
	Written int64    `json:"written,omitempty"`   // bytes
	Line    int      `json:"line,omitempty"`      // of a loop: its line in the program
	Trips   int64    `json:"trips,omitempty"`     // of a loop, if XLA knows it; else -1
	Test    []*Thunk `json:"condition,omitempty"` // of a loop; it runs once more than the body
	Body    []*Thunk `json:"body,omitempty"`

	id, indent int
}

// Kinds of thunks that launch nothing themselves.
var groups = map[string]bool{"kSequential": true, "kCommandBuffer": true, "kWhile": true, "kAsyncStart": true, "kAsyncDone": true, "kDynamicSliceFusion": true}

// Launches reports whether the thunk is a kernel launch or a copy.
func (t *Thunk) Launches() bool { return !groups[t.Kind] }

// Loop reports whether a group is a loop; Graph, whether it is a CUDA graph.
func (t *Thunk) Loop() bool  { return t.Kind == "kWhile" }
func (t *Thunk) Graph() bool { return t.Kind == "kCommandBuffer" }

var (
	thunkLine = regexp.MustCompile(`^( *)(\d+): (k\w+) +\[[^\]]*\](.*)$`)
	launchOf  = regexp.MustCompile(`(\S+) grid: \[(\d+), (\d+), (\d+)\] threads: \[(\d+), (\d+), (\d+)\] +shared_memory: (\d+) bytes`)
	metadata  = regexp.MustCompile(`profile_annotation: "([^"]*)"\s+thunk_id: (\d+)`)
)

// parseThunks parses a sequence of thunks. Thunks of a group are indented deeper; a loop has a condition, then a body:
//
//	020: kWhile [prev=000 (1) | sink]
//	condition:
//	    021: kCustomKernel [source | sink] loop_compare_fusion grid: [1, 1, 1] threads: [1, 1, 1]  shared_memory: 0 bytes
//	  body:
//	    022: kCopy [source | sink] kCopy
func parseThunks(text string) ([]*Thunk, error) {
	top := &Thunk{indent: -1}
	open := []*Thunk{top}
	inTest := map[*Thunk]bool{}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \n")
		word := strings.TrimSpace(line)
		last := open[len(open)-1]
		switch {
		case word == "":
			continue
		case word == "condition:" && last.Loop():
			inTest[last] = true
			continue
		case word == "body:":
			indent := len(line) - len(word)
			for len(open) > 1 && (!open[len(open)-1].Loop() || open[len(open)-1].indent >= indent) {
				open = open[:len(open)-1]
			}
			inTest[open[len(open)-1]] = false
			continue
		}
		m := thunkLine.FindStringSubmatch(line)
		if m == nil {
			return nil, fmt.Errorf("thunk sequence: %q is not understood", line)
		}
		t := &Thunk{Kind: m[3], indent: len(m[1])}
		t.id, _ = strconv.Atoi(m[2])
		if k := launchOf.FindStringSubmatch(m[4]); k != nil {
			t.Kernel = k[1]
			for i := range 3 {
				t.Grid[i], _ = strconv.Atoi(k[2+i])
				t.Block[i], _ = strconv.Atoi(k[5+i])
			}
			t.Shared, _ = strconv.Atoi(k[8])
		}
		for open[len(open)-1].indent >= t.indent {
			open = open[:len(open)-1]
		}
		in := open[len(open)-1]
		if in != top && !groups[in.Kind] {
			return nil, fmt.Errorf("thunk sequence: %q is part of a %s, which is not understood", line, in.Kind)
		}
		if inTest[in] {
			in.Test = append(in.Test, t)
		} else {
			in.Body = append(in.Body, t)
		}
		open = append(open, t)
	}
	if len(top.Body) == 0 {
		return nil, errors.New("the thunk sequence is empty")
	}
	return top.Body, nil
}

// Program is what a GPU would run.
type Program struct {
	Thunks []*Thunk `json:"thunks"`
}

// Read reads the thunks and the module that XLA dumped into a folder; it errs if one is missing or can not be parsed.
func Read(dir string) (*Program, error) {
	text, err := newest(dir, "*.thunk_sequence_after_thunk_passes.txt", "*.thunk_sequence.txt")
	if err != nil {
		return nil, err
	}
	p := &Program{}
	if p.Thunks, err = parseThunks(text); err != nil {
		return nil, err
	}
	if text, err = newest(dir, "*gpu_after_optimizations.txt"); err != nil {
		return nil, err
	}
	m, err := parseHLO(text)
	if err != nil {
		return nil, err
	}
	if text, err = newest(dir, "*.thunk_metadata.txt"); err != nil {
		return nil, err
	}
	names := map[int]string{}
	for _, f := range metadata.FindAllStringSubmatch(text, -1) {
		id, _ := strconv.Atoi(f[2])
		names[id] = f[1]
	}
	return p, p.join(m, names)
}

// newest reads the last file of the first pattern that has one.
func newest(dir string, patterns ...string) (string, error) {
	for _, pattern := range patterns {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return "", err
		}
		if len(found) > 0 {
			text, err := os.ReadFile(slices.Max(found))
			return string(text), err
		}
	}
	return "", fmt.Errorf("the dump has no file %s", patterns[len(patterns)-1])
}

// join adds facts to thunks from the instructions that they were made from.
func (p *Program) join(m *hlo, names map[int]string) error {
	in := map[string]*computation{}
	for _, c := range m.computations {
		for _, x := range c.list {
			in[x.name] = c
		}
	}
	var fault error
	p.Walk(func(t *Thunk) {
		if t.Graph() || t.Kind == "kSequential" {
			return
		}
		if name, ok := names[t.id]; ok {
			t.Name = name
		}
		for _, part := range t.Body {
			if t.Kind == "kDynamicSliceFusion" { // the slice that it copies has no name
				part.Name = t.Name
			}
		}
		x := m.byName[t.Name]
		switch {
		case x == nil && (t.Launches() || t.Loop()) && fault == nil:
			fault = fmt.Errorf("thunk %d, a %s, names no instruction of the module (%q)", t.id, t.Kind, t.Name)
		case x == nil:
		case t.Loop():
			t.Trips, t.Line = x.trips, x.line
		case t.Launches():
			t.Read, t.Written = m.traffic(x, in[x.name])
		}
	})
	return fault
}

// Walk visits all thunks, a group before its members.
func (p *Program) Walk(visit func(*Thunk)) {
	var walk func([]*Thunk)
	walk = func(list []*Thunk) {
		for _, t := range list {
			visit(t)
			walk(t.Test)
			walk(t.Body)
		}
	}
	walk(p.Thunks)
}
