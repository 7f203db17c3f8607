// Command figures compares the deterministic figures that README.md and docs state with what the commands give, and writes them anew.
//
//	go run ./tests/figures              compares all of them; what is in the cache of measurements costs nothing
//	go run ./tests/figures -warm        compares those that the cache knows
//	go run ./tests/figures -update      writes those that differ into the documents
//	go run ./tests/figures -only bench  of figures whose source has this text
//	go run ./tests/figures -libtpu LIB  compares what another libtpu.so gives: which figures a new version moves, and which it refuses
//
// The file figures.tsv has a row for each passage: a document, and the text as it is there with a source in braces in place of each
// figure. A new figure is a new row; its first value may be anything.
//
//	README.md	| gdngen, fast | {token bench auto v5e} | {token bench auto v6e} |
//
// A source is a quantity, a spec, a variant and a target, or a sum of such, or one over another: {A + B / C} is (A + B) / C. Quantities are cycles (issue) and in-order of the whole module,
// token and in-order-token of it per token and value head, hbm and vmem in bytes, bound and module-bound: the cycles per token of the
// necessary HBM traffic and of the fullest slot; kept: bytes per token and value head from the forward to the backward pass.
// "error SPEC VARIANT TARGET CLASS KIND [OUTPUT]" is the error that gdngen check finds of the kernels, rms, max or bias, with all for the
// worst class, and "peer QUANTITY NAME TARGET" the in-order-token or token of a public kernel, from the tables of package results.
// "mfu FIELD MODEL TARGET KIND PART PASS" is a figure of gdngen model cost, time in in-order cycles, cycles (issue), in-order-token and token
// of them per token and value head, or the utilisation in percent, with dashes in place of blanks: {mfu time 130m v6e rule project-in+project-out both} is the sum of two parts and both passes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/pjrt/aot"
	"github.com/gdngen/gdngen/pjrt/plugins"
)

func main() {
	aot.RunWorkerIfAsked()
	update := flag.Bool("update", false, "write the figures that differ into the documents")
	warm := flag.Bool("warm", false, "only what the cache of measurements knows")
	only := flag.String("only", "", "only figures whose source has this text")
	libtpu := flag.String("libtpu", "", "libtpu.so to compile with, in place of the pinned one")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	moved, refused, err := run(ctx, *update, *warm, *only, *libtpu)
	if err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
	if refused > 0 {
		fmt.Fprintf(os.Stderr, "figures: %d have no value any more: their documents or programs need a change by hand\n", refused)
	}
	if moved > refused && !*update {
		fmt.Fprintf(os.Stderr, "figures: %d differ; go run ./tests/figures -update writes them\n", moved-refused)
	}
	if refused > 0 || moved > 0 && !*update {
		os.Exit(5)
	}
}

// run compares, tells of each figure that differs, and writes the documents where that is asked for.
func run(ctx context.Context, update, warm bool, only, libtpu string) (moved, refused int, err error) {
	root, err := root()
	if err != nil {
		return 0, 0, err
	}
	list, err := readPassages(filepath.Join(root, "tests", "figures", "figures.tsv"))
	if err != nil {
		return 0, 0, err
	}
	m, done, err := newMeter(ctx, libtpu, warm)
	if err != nil {
		return 0, 0, err
	}
	defer done()
	all, left := 0, 0
	defer func() { fmt.Fprintf(os.Stderr, "figures: %d of %d compared\n", all-left, all) }()
	for _, p := range list {
		path := filepath.Join(root, p.file)
		text, err := os.ReadFile(path)
		if err != nil {
			return moved, refused, err
		}
		found, err := p.compare(ctx, string(text), only, m)
		if err != nil {
			return moved, refused, fmt.Errorf("%s: %w", p, err)
		}
		all, left = all+len(p.sources), left+found.left
		for _, f := range found.differ {
			fmt.Printf("%s\t%s\t%s -> %s\n", p.file, f.source, f.stated, f.is)
		}
		moved, refused = moved+len(found.differ), refused+found.refused
		if update && len(found.differ) > 0 {
			if err := os.WriteFile(path, []byte(found.text), 0o644); err != nil {
				return moved, refused, err
			}
		}
	}
	return moved, refused, nil
}

// root is the folder of the repository.
func root() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	return strings.TrimSpace(string(out)), err
}

// errCold says that a figure is not in the cache.
var errCold = errors.New("not measured yet")

// cold is a compiler that only serves cached results.
type cold struct{}

func (cold) Compile(context.Context, aot.Request) (*aot.Result, error) { return nil, errCold }

// newMeter opens what figures are measured by.
func newMeter(ctx context.Context, libtpu string, warm bool) (*meter, func(), error) {
	p, err := plugins.TPU(ctx, plugins.Options{Path: libtpu, Progress: os.Stderr})
	if err != nil {
		return nil, nil, err
	}
	build, err := p.Identity()
	if err != nil {
		return nil, nil, err
	}
	cache, err := measure.OpenCache()
	if err != nil {
		return nil, nil, err
	}
	m := &meter{measure.Instrument{Compiler: cold{}, Libtpu: p.Name + " " + build, Cache: cache}}
	if warm {
		return m, func() {}, nil
	}
	compiler := aot.New(aot.Options{Libtpu: p.Path, Timeout: 10 * time.Minute})
	m.Compiler = compiler
	m.Note = func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
	return m, func() { _ = compiler.Close() }, nil
}
