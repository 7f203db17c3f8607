package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/internal/store"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/pjrt/aot"
	"github.com/gdngen/gdngen/pjrt/llo"
	"github.com/gdngen/gdngen/pjrt/machine"
	"github.com/gdngen/gdngen/pjrt/plugins"
)

// cost is the cost of a Mosaic program on a target, or why it has none. It belongs to the program's hash, whatever the program's names.
type cost struct {
	target, hash    string
	preset, variant string // of one row with that hash
	figures         string // issue cycles, in-order cycles (?: unknown), bytes of HBM traffic (?: unknown), bytes of VMEM; or the refusal
	compiler, facts string // on which the cost depends
	model           string // short version of the cost model; a dash if it was not recorded
	date, commit    string
}

const costHead = `# Static costs of the programs of programs.tsv. Made by "go run ./tests/programs -costs 30m", which goes on where it ended.
# target, hash of the program, preset, variant, issue cycles, in-order cycles, bytes of HBM, bytes of vector memory (or why there is no cost), compiler, facts of the target, version of the cost model, date, commit
`

func parseCosts(data []byte) ([]*cost, error) {
	var list []*cost
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, "\t")
		if len(f) != 13 {
			return nil, fmt.Errorf("%q has not 13 fields", line)
		}
		list = append(list, &cost{f[0], f[1], f[2], f[3], strings.Join(f[4:8], "\t"), f[8], f[9], f[10], f[11], f[12]})
	}
	return list, nil
}

func costsText(list []*cost) []byte {
	slices.SortFunc(list, func(x, y *cost) int {
		return strings.Compare(x.preset+"\t"+x.variant+"\t"+x.target, y.preset+"\t"+y.variant+"\t"+y.target)
	})
	var b bytes.Buffer
	b.WriteString(costHead + runOf(list))
	for _, c := range list {
		fmt.Fprintln(&b, strings.Join([]string{c.target, c.hash, c.preset, c.variant, c.figures, c.compiler, c.facts, c.model, c.date, c.commit}, "\t"))
	}
	return b.Bytes()
}

// runOf describes the run of a table of costs. A whole run takes hours, in parts, so its age is that of the oldest row.
// Versions of the cost model follow, with their numbers of rows.
func runOf(list []*cost) string {
	if len(list) == 0 {
		return ""
	}
	oldest := slices.MinFunc(list, func(x, y *cost) int { return cmp.Or(cmp.Compare(x.date, y.date), cmp.Compare(x.commit, y.commit)) })
	rows := map[string]int{}
	for _, c := range list {
		rows[c.model]++
	}
	text := fmt.Sprintf("# whole since\t%s\t%s\n", oldest.commit, oldest.date)
	for _, model := range slices.Sorted(maps.Keys(rows)) {
		text += fmt.Sprintf("# cost model\t%s\t%d rows\n", model, rows[model])
	}
	return text
}

// modelNow returns the short version of the present cost model.
func modelNow() string { return llo.Version()[:8] }

// key identifies a program, whatever its names.
func (c *cost) key() string { return c.target + " " + c.hash }

// presetOrder has the presets whose programs compile fastest first.
var presetOrder = []string{"tiny", "decode", "contest-decode", "decode-pool", "bench", "train", "contest-prefill"}

// missing lists the programs of a table's rows that have no cost, or one with other facts, each once, fastest presets first.
func (t *table) missing(list []*cost, only string) []*cost {
	have := map[string]bool{}
	for _, c := range list {
		have[c.key()] = c.facts == factsOf(c.target)
	}
	var wanted []*cost
	for _, preset := range presetOrder {
		for _, r := range t.rows {
			if r.preset != preset || !r.has(only) {
				continue
			}
			for i, x := range r.cells[2:] {
				c := &cost{target: columns[2+i], hash: x.now(), preset: r.preset, variant: r.variant}
				if !refused(c.hash) && !have[c.key()] {
					have[c.key()] = true
					wanted = append(wanted, c)
				}
			}
		}
	}
	return wanted
}

// current keeps the costs of programs that the table still has.
func (t *table) current(list []*cost) []*cost {
	now := map[string]bool{}
	for _, r := range t.rows {
		for i, c := range r.cells[2:] {
			now[columns[2+i]+" "+c.now()] = true
		}
	}
	return slices.DeleteFunc(list, func(c *cost) bool { return !now[c.key()] })
}

// filling selects the costs to compute.
type filling struct {
	limit   time.Duration
	workers int    // concurrent compiles; 0: one per core, as memory allows
	only    string // words that the rows must have
	fresh   bool   // also rows that have a cost
}

// fill costs programs until the time is up, and writes the file after each. Fast compiles come first: small presets,
// and within a preset short texts.
func (f filling) fill(ctx context.Context, file, costs string) error {
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
	had := list
	if f.fresh {
		had = nil
	}
	wanted := t.missing(had, f.only)
	ctx, stop := context.WithTimeout(ctx, f.limit)
	defer stop()
	f.workers = f.limitWorkers()
	p, err := plugins.TPU(ctx, plugins.Options{})
	if err != nil {
		return err
	}
	measured := make(chan *cost)
	var failure error
	go func() {
		failure = f.measure(ctx, p, wanted, measured)
		close(measured)
	}()
	n, state := 0, commit()
	for c := range measured {
		n++
		c.commit = state
		list = append(slices.DeleteFunc(list, func(x *cost) bool { return x.key() == c.key() }), c)
		if err := store.WriteFile(costs, costsText(list)); err != nil {
			return err
		}
		fmt.Printf("%d of %d: %s by %s on %s: %s\n", n, len(wanted), c.preset, c.variant, c.target, c.figures)
	}
	if ctx.Err() != nil {
		return nil // the time is up
	}
	return failure
}

// limitWorkers returns the number of concurrent compiles.
func (f filling) limitWorkers() int {
	if f.workers > 0 {
		return f.workers
	}
	n, _ := machine.Workers()
	return n
}

// measure measures programs by several workers, preset by preset.
func (f filling) measure(ctx context.Context, p plugins.Plugin, wanted []*cost, measured chan<- *cost) error {
	var xs []*measure.Instrument
	for range f.workers {
		x, done, err := instrument(p)
		if err != nil {
			return err
		}
		defer done()
		xs = append(xs, x)
	}
	for len(wanted) > 0 {
		n := slices.IndexFunc(wanted, func(c *cost) bool { return c.preset != wanted[0].preset })
		if n < 0 {
			n = len(wanted)
		}
		group := wanted[:n]
		wanted = wanted[n:]
		sizes := map[*cost]int{}
		var lock sync.Mutex
		err := each(ctx, f.workers, group, func(_ int, c *cost) error {
			n := c.size()
			lock.Lock()
			defer lock.Unlock()
			sizes[c] = n
			return nil
		})
		if err != nil {
			return err
		}
		slices.SortStableFunc(group, func(x, y *cost) int { return cmp.Compare(sizes[x], sizes[y]) })
		err = each(ctx, f.workers, group, func(worker int, c *cost) error {
			err := c.measure(ctx, xs[worker])
			if late := (*aot.TimeoutError)(nil); errors.As(err, &late) {
				fmt.Printf("%s by %s on %s waits for another run: %v\n", c.preset, c.variant, c.target, late)
				return nil
			}
			if err == nil {
				measured <- c
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// each processes a list by several workers, in order, until one fails or the time is up.
func each(ctx context.Context, workers int, list []*cost, work func(worker int, c *cost) error) error {
	g, ctx := errgroup.WithContext(ctx)
	queue := make(chan *cost)
	g.Go(func() error {
		defer close(queue)
		for _, c := range list {
			select {
			case queue <- c:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	for worker := range workers {
		g.Go(func() error {
			for c := range queue {
				if err := work(worker, c); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// slowest is the time limit of one compile: a minute on an idle machine, more on a busy one.
const slowest = 10 * time.Minute

// instrument opens a compiler.
func instrument(p plugins.Plugin) (*measure.Instrument, func(), error) {
	cache, err := measure.OpenCache()
	if err != nil {
		return nil, nil, err
	}
	compiler := aot.New(aot.Options{Libtpu: p.Path, Timeout: slowest})
	return &measure.Instrument{Compiler: compiler, Libtpu: p.Name + " " + p.Version, Cache: cache}, func() { _ = compiler.Close() }, nil
}

// factsOf returns the hash of a target's facts in the cost model.
func factsOf(name string) string {
	t, err := target.Lookup(name)
	if err != nil {
		return "-"
	}
	return measure.Facts(t)
}

// program builds the program of a cost.
func (c *cost) program() (*measure.Program, *target.Target, error) {
	s, err := gdn.LookupPreset(c.preset)
	if err != nil {
		return nil, nil, err
	}
	target, err := target.Lookup(c.target)
	if err != nil {
		return nil, nil, err
	}
	route, err := route.Lookup("mosaic")
	if err != nil {
		return nil, nil, err
	}
	p, err := measure.Make(s, c.variant, route, target)
	return p, target, err
}

// size returns the length of the program's text; 0 if it is refused, which is known at once.
func (c *cost) size() int {
	p, target, err := c.program()
	if err != nil {
		return 0
	}
	text, err := p.Text(target)
	if err != nil {
		return 0
	}
	return len(text)
}

// measure sets the figures. A refusal counts as a figure; other failures are errors.
func (c *cost) measure(ctx context.Context, x *measure.Instrument) error {
	c.compiler, c.facts, c.model, c.date = x.Libtpu, factsOf(c.target), modelNow(), time.Now().UTC().Format(time.DateOnly)
	p, target, err := c.program()
	var made *measure.Compiled
	if err == nil {
		made, err = x.Static(ctx, p, target, measure.Options{})
	}
	if refusal := (*measure.Refusal)(nil); errors.As(err, &refusal) && refusal.Verdict != measure.Timeout {
		text, _, _ := strings.Cut(err.Error(), "\n")
		c.figures = string(refusal.Verdict) + ": " + strings.ReplaceAll(text, "\t", " ") + "\t-\t-\t-"
		return nil
	}
	if err != nil {
		return err
	}
	r := made.Report
	c.figures = fmt.Sprintf("%d\t%s\t%s\t%d", r.Cycles, known(r.Wall.Cycles), known(r.HBMBytes), r.VMEM)
	return nil
}

// known formats a number; "?" if unknown.
func known(n int64) string {
	if n < 0 {
		return "?"
	}
	return strconv.FormatInt(n, 10)
}
