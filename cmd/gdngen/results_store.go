package main

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gdngen/gdngen/autotune/store"
	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/codegen/mosaic"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir/array"
	"github.com/gdngen/gdngen/ir/interp"
	"github.com/gdngen/gdngen/pjrt/aot"
	"github.com/gdngen/gdngen/pjrt/llo"
	"github.com/gdngen/gdngen/pjrt/plugins"
)

// resultCost is the static cost of a program, or why it has none.
type resultCost struct {
	Cycles   int64  `json:"cycles,omitempty"`
	HBMBytes int64  `json:"hbm_bytes,omitempty"`
	VMEM     int64  `json:"vmem,omitempty"`
	Spills   int64  `json:"spills,omitempty"`
	Fills    int64  `json:"fills,omitempty"`
	Refused  string `json:"refused,omitempty"`
}

// costModel changes when a schedule is counted otherwise than before, or a program computed otherwise, so that what is kept no longer holds.
const costModel = 1

// resultStore keeps results in the cache, each in a file named by the hash of all that it follows from.
type resultStore struct {
	dir      string
	compiler string
	fresh    bool
}

func openResultStore(compiler string, fresh bool) (*resultStore, error) {
	cache, err := plugins.CacheDir()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(cache, "results")
	return &resultStore{dir, compiler, fresh}, os.MkdirAll(dir, 0o755)
}

// kept gives what make gives, from the cache where it is there. A file that does not read counts as absent.
func kept[T any](s *resultStore, make func() (T, error), from ...string) (T, error) {
	h := sha256.New()
	for _, text := range append(from, fmt.Sprint(costModel)) {
		fmt.Fprintf(h, "%d\n%s", len(text), text)
	}
	path := filepath.Join(s.dir, fmt.Sprintf("%x.json", h.Sum(nil)[:16]))
	var v T
	if data, err := os.ReadFile(path); err == nil && !s.fresh && json.Unmarshal(data, &v) == nil {
		return v, nil
	}
	v, err := make()
	if err != nil {
		return v, err
	}
	data, err := json.Marshal(v)
	if err != nil {
		return v, err
	}
	return v, store.WriteFile(path, data)
}

// cost compiles the candidate for a target.
func (t *trial) cost(a *app, target *codegen.Target, compiler *aot.Compiler, store *resultStore) (*resultCost, error) {
	t.lower()
	if t.refused != "" {
		return &resultCost{Refused: t.refused}, nil
	}
	artifact, err := mosaic.Backend{}.Emit(t.module, target)
	if err != nil {
		return &resultCost{Refused: firstLine(err)}, nil
	}
	return kept(store, func() (*resultCost, error) { return t.compile(a, artifact.Text, target, compiler) },
		"cost", store.compiler, target.Name, fmt.Sprint(target.Flags), fmt.Sprint(t.scalars), artifact.Text)
}

func (t *trial) compile(a *app, text string, target *codegen.Target, compiler *aot.Compiler) (*resultCost, error) {
	dir, done, err := dumpFolder("", target)
	if err != nil {
		return nil, err
	}
	defer done()
	if _, err := compiler.Compile(a.ctx, aot.Request{Topology: target.Topology, Module: text, DumpDir: dir, Flags: target.Flags}); err != nil {
		if row := new(compileRow); row.judge(err) && row.Verdict != compileTimeout {
			return &resultCost{Refused: row.Verdict + ": " + firstLine(err)}, nil
		}
		return nil, err
	}
	r, err := llo.Options{Scalars: t.scalars}.Analyze(dir, target)
	if errors.Is(err, llo.ErrNoSchedule) {
		return nil, &aot.InfraError{Op: "dump the schedule", Err: err}
	}
	if err != nil {
		return &resultCost{Refused: firstLine(err)}, nil
	}
	c := &resultCost{Cycles: r.Cycles, HBMBytes: r.HBMBytes, VMEM: r.VMEM}
	for _, op := range r.Ops {
		c.Spills += op.Calls * op.Spills
		c.Fills += op.Calls * op.Fills
	}
	return c, nil
}

// examTokens is the most tokens that numbers are judged on: several chunks and a part of one. It bounds tokens x key heads too,
// so that one token is not judged by one q·k, of which nothing may be left.
const examTokens = 576

// exam is the spec that numbers are judged on: few tokens, of many one key head and its value heads, and gradients with an initial state.
func (t *trial) exam() gdn.Spec {
	s := t.spec
	s.Tokens = min(s.Tokens, examTokens)
	heads, groups := min(s.HeadsK, max(1, examTokens/s.Tokens)), s.Groups()
	s.HeadsK, s.HeadsV = heads, heads*groups
	s.Batch = min(s.Batch, max(1, t.variant.Fit(s).Batch))
	s.Init = s.Init || s.Direction != gdn.Forward
	return s
}

// errors are those of the lowered kernel, as the interpreter computes it, against float64: in each class of inputs that of the
// output that is nearest to its limit. Those of gradients may be held to the limits of the field.
func (t *trial) errors(store *resultStore, classes []string, field bool) ([]classError, error) {
	s := t.exam()
	m, err := kernels(s, t.variant)
	if err != nil {
		return nil, fmt.Errorf("%s at %d tokens: %w", t.Name, s.Tokens, err)
	}
	compute := func(_ gdn.Spec, inputs map[string]*array.Array) (map[string]*array.Array, error) {
		return interp.Run(m, inputs, interp.Options{})
	}
	r := &checkResult{Precision: t.variant.Precision().String(), Seed: 1, Field: field}
	var list []classError
	text := m.String()
	for _, name := range classes {
		class, err := gdn.LookupClass(name)
		if err != nil {
			return nil, err
		}
		if class.Supports(s) != nil {
			continue
		}
		limits := fmt.Sprint(r.Precision, field)
		for _, p := range s.Outputs() {
			own, err := class.Limit(s, r.Precision, p.Type.DType)
			gradient, err2 := class.GradientLimit(s, r.Precision, p)
			if err := errors.Join(err, err2); err != nil {
				return nil, err
			}
			limits += fmt.Sprint(" ", own, gradient, gdn.FieldLimit(p))
		}
		rows, err := kept(store, func() ([]checkRow, error) { return checkClass(r, s, compute, class) }, "checks", s.String(), name, text, limits)
		if err != nil {
			return nil, err
		}
		worst := classError{Class: name, Limit: 1}
		for _, row := range rows {
			e := classError{name, float64(row.Error), float64(row.Limit)}
			if !(e.Error < maxError) {
				e.Error = maxError
			}
			if e.Error/e.Limit >= worst.Error/worst.Limit {
				worst = e
			}
		}
		list = append(list, worst)
	}
	return list, nil
}

// maxError stands for all errors that are larger, and for what is not a number.
const maxError = 1e30
