// Programs keeps the hashes of the programs that the named variants stand for, on each preset and target, so that a change of a
// program is seen and has a reason.
//
//	go run ./tests/programs                     compute all of them, and write the table if none has changed
//	go run ./tests/programs -reason "WHY"       the same; changed hashes get a new version, with this reason
//	go run ./tests/programs -only bench,tpu     those rows alone whose preset and names or text have all of these words
//	go run ./tests/programs -only new           those rows alone that the table lacks
//	go run ./tests/programs -costs 30m          for half an hour, cost programs by libtpu that costs.tsv lacks
//	go run ./tests/programs -costs 30m -fresh -only tiny   and those of some rows that it has
//
// The table, programs.tsv, was frozen at the commit that it names as its base: each name then stood for the form that suited preset and
// target, which is given in full. Hashes are those of StableHLO and Mosaic with locations left out, and of the
// kernels of a Pallas file.
// The test computes a sample of the rows that rotates by commit.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/pjrt/aot"
)

func main() {
	aot.RunWorkerIfAsked()
	reason := flag.String("reason", "", "why programs have changed")
	only := flag.String("only", "", "words that the rows must have, separated by commas; new: rows that the table lacks")
	file := flag.String("file", filepath.Join("tests", "programs", "programs.tsv"), "the table")
	costs := flag.Duration("costs", 0, "in place of hashes: for so long, cost programs that costs.tsv lacks")
	workers := flag.Int("workers", 0, "programs compiled at a time for -costs; 0: one a core, as memory allows")
	fresh := flag.Bool("fresh", false, "with -costs: cost programs that costs.tsv has too")
	flag.Parse()
	run := func() error { return update(*file, *reason, *only) }
	if *costs > 0 {
		run = func() error {
			f := filling{limit: *costs, workers: *workers, only: *only, fresh: *fresh}
			return f.fill(context.Background(), *file, filepath.Join(filepath.Dir(*file), "costs.tsv"))
		}
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "programs:", err)
		os.Exit(1)
	}
}

// update computes rows of the table and writes it. Where programs have changed without a reason it writes nothing.
func update(file, reason, only string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	t, err := parseTable(data)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if err := t.addNames(); err != nil {
		return err
	}
	rows := slices.DeleteFunc(slices.Clone(t.rows), func(r *row) bool { return !r.has(only) })
	changed := t.computeAll(rows, len(t.reasons)+1)
	t.rows = slices.DeleteFunc(t.rows, func(r *row) bool { return len(r.cells[0]) == 0 }) // named, but not asked for
	switch {
	case len(changed) > 0 && reason == "":
		return fmt.Errorf("%d programs have changed; give -reason, or undo it:\n%s", len(changed), strings.Join(changed, "\n"))
	case len(changed) > 0:
		t.reasons = append(t.reasons, time.Now().UTC().Format(time.DateOnly)+"\t"+strings.Join(strings.Fields(reason), " "))
	}
	if only == "" {
		t.whole = commit() + "\t" + time.Now().UTC().Format(time.DateOnly)
	}
	fmt.Printf("%d rows, %d programs have changed\n", len(rows), len(changed))
	if bytes.Equal(t.text(), data) {
		return nil
	}
	return os.WriteFile(file, t.text(), 0o644)
}

// has reports whether the row contains all words of a list.
func (r *row) has(words string) bool {
	if words == "new" {
		return len(r.cells[0]) == 0
	}
	for word := range strings.SplitSeq(words, ",") {
		if word != "" && r.preset != word && !slices.Contains(r.names, word) && !slices.Contains(strings.Split(r.variant, ","), word) {
			return false
		}
	}
	return true
}

// addNames adds the rows of named variants that the table lacks.
func (t *table) addNames() error {
	for _, p := range gdn.Presets {
		for _, n := range gdn.Variants {
			v, err := gdn.ParseVariant(n.Text)
			if err != nil {
				return err
			}
			t.row(p.Name, v.String())
		}
	}
	return nil
}

// computeAll fills rows on all processors, and lists what has changed.
func (t *table) computeAll(rows []*row, reason int) []string {
	var group sync.WaitGroup
	var lock sync.Mutex
	var changed []string
	queue := make(chan *row)
	for range runtime.NumCPU() {
		group.Go(func() {
			for r := range queue {
				texts, errs := program(r.preset, r.variant)
				lock.Lock()
				changed = append(changed, t.fill(r, texts, errs, reason)...)
				lock.Unlock()
			}
		})
	}
	for i, r := range rows {
		queue <- r
		fmt.Fprintf(os.Stderr, "\r%d of %d", i+1, len(rows))
	}
	close(queue)
	group.Wait()
	fmt.Fprintln(os.Stderr)
	slices.Sort(changed)
	return changed
}

// commit identifies the state of the working tree, without these tables.
func commit() string {
	head, err := exec.Command("git", "rev-parse", "--short=7", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	name := strings.TrimSpace(string(head))
	if changed, err := exec.Command("git", "status", "--porcelain", "--", ":/", ":(top,exclude)tests/programs/*.tsv").Output(); err != nil || len(changed) > 0 {
		name += "-dirty"
	}
	return name
}
