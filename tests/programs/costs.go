package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gdngen/gdngen/autotune/store"
	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/codegen/lower"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/measure"
	"github.com/gdngen/gdngen/pjrt/aot"
	"github.com/gdngen/gdngen/pjrt/plugins"
)

// cost is what a Mosaic program costs on a target, or why it has no cost. It belongs to the program's hash, whichever names stand for it.
type cost struct {
	target, hash    string
	preset, variant string // of one row with that hash
	figures         string // cycles, bytes of main memory (? where not known), bytes of vector memory; or the refusal
	compiler        string
	date, commit    string
}

const costHead = `# Static costs of the programs of programs.tsv. Made by "go run ./tests/programs -costs 30m", which goes on where it ended.
# target, hash of the program, preset, variant, cycles, bytes of main memory, bytes of vector memory (or why there is no cost), compiler, date, commit
`

func parseCosts(data []byte) ([]*cost, error) {
	var list []*cost
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, "\t")
		if len(f) != 10 {
			return nil, fmt.Errorf("%q has not 10 fields", line)
		}
		list = append(list, &cost{f[0], f[1], f[2], f[3], strings.Join(f[4:7], "\t"), f[7], f[8], f[9]})
	}
	return list, nil
}

func costsText(list []*cost) []byte {
	slices.SortFunc(list, func(x, y *cost) int {
		return strings.Compare(x.preset+"\t"+x.variant+"\t"+x.target, y.preset+"\t"+y.variant+"\t"+y.target)
	})
	var b bytes.Buffer
	b.WriteString(costHead)
	for _, c := range list {
		fmt.Fprintln(&b, strings.Join([]string{c.target, c.hash, c.preset, c.variant, c.figures, c.compiler, c.date, c.commit}, "\t"))
	}
	return b.Bytes()
}

// presetOrder has the presets whose programs compile fastest first.
var presetOrder = []string{"tiny", "decode", "contest-decode", "decode-pool", "bench", "train", "contest-prefill"}

// missing lists the programs of a table without a cost, each once, those that compile fastest first.
func (t *table) missing(list []*cost) []*cost {
	have := map[string]bool{}
	for _, c := range list {
		have[c.target+" "+c.hash] = true
	}
	var wanted []*cost
	for _, preset := range presetOrder {
		for _, r := range t.rows {
			for i, c := range r.cells[2:] {
				target := columns[2+i]
				if key := target + " " + c.now(); r.preset == preset && !refused(c.now()) && !have[key] {
					have[key] = true
					wanted = append(wanted, &cost{target: target, hash: c.now(), preset: r.preset, variant: r.variant})
				}
			}
		}
	}
	return wanted
}

// current keeps the costs whose programs the table still has.
func (t *table) current(list []*cost) []*cost {
	now := map[string]bool{}
	for _, r := range t.rows {
		for i, c := range r.cells[2:] {
			now[columns[2+i]+" "+c.now()] = true
		}
	}
	return slices.DeleteFunc(list, func(c *cost) bool { return !now[c.target+" "+c.hash] })
}

// fillCosts costs programs until the time is up, and writes the file after each.
func fillCosts(ctx context.Context, file, costs string, limit time.Duration) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	t, err := parseTable(data)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if data, err = os.ReadFile(costs); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	list, err := parseCosts(data)
	if err != nil {
		return fmt.Errorf("%s: %w", costs, err)
	}
	list = t.current(list)
	x, done, err := instrument(ctx)
	if err != nil {
		return err
	}
	defer done()
	wanted, begin := t.missing(list), time.Now()
	for i, c := range wanted {
		if time.Since(begin) > limit {
			break
		}
		if err := c.measure(ctx, x); err != nil {
			return err
		}
		list = append(list, c)
		if err := store.WriteFile(costs, costsText(list)); err != nil {
			return err
		}
		fmt.Printf("%d of %d: %s by %s on %s: %s\n", i+1, len(wanted), c.preset, c.variant, c.target, c.figures)
	}
	return nil
}

// instrument opens the pinned compiler.
func instrument(ctx context.Context) (*measure.Instrument, func(), error) {
	p, err := plugins.TPU(ctx, plugins.Options{})
	if err != nil {
		return nil, nil, err
	}
	compiler := aot.New(aot.Options{Libtpu: p.Path})
	cache, err := measure.OpenCache()
	if err != nil {
		return nil, nil, err
	}
	return &measure.Instrument{Compiler: compiler, Libtpu: p.Name + " " + p.Version, Cache: cache}, func() { _ = compiler.Close() }, nil
}

// measure fills in the figures. A refusal is one; what says nothing of the program is an error.
func (c *cost) measure(ctx context.Context, x *measure.Instrument) error {
	s, err := gdn.LookupPreset(c.preset)
	if err != nil {
		return err
	}
	target, err := codegen.LookupTarget(c.target)
	if err != nil {
		return err
	}
	route, err := lower.Lookup("mosaic")
	if err != nil {
		return err
	}
	c.compiler, c.commit, c.date = x.Libtpu, commit(), time.Now().UTC().Format(time.DateOnly)
	p, err := measure.Make(s, c.variant, route, target)
	var made *measure.Compiled
	if err == nil {
		made, err = x.Static(ctx, p, target, measure.Options{})
	}
	if refusal := (*measure.Refusal)(nil); errors.As(err, &refusal) && refusal.Verdict != measure.Timeout {
		text, _, _ := strings.Cut(err.Error(), "\n")
		c.figures = string(refusal.Verdict) + ": " + strings.ReplaceAll(text, "\t", " ") + "\t-\t-"
		return nil
	}
	if err != nil {
		return err
	}
	r, bytes := made.Report, "?"
	if r.HBMBytes >= 0 {
		bytes = strconv.FormatInt(r.HBMBytes, 10)
	}
	c.figures = fmt.Sprintf("%d\t%s\t%d", r.Cycles, bytes, r.VMEM)
	return nil
}
