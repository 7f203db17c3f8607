// Packages writes random Python packages by seed, lowers their functions for a TPU in JAX, and records the results.
//
//	go run ./tests/packages -n 200 -for 60m    the draws of seeds 1 to 200 that the table lacks, the cheapest first
//	go run ./tests/packages -only 17,21        those again
//
// A package lowers in all its functions, or is refused by a sentence before a file is written. Nothing runs.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gdngen/gdngen/codegen/pallas"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir/target"
)

// Results of a draw.
const (
	lowers  = "lowers"
	refused = "refused"
	failed  = "failed"
	late    = "late" // not finished in time; the table has no row for it
)

func main() {
	n := flag.Uint64("n", 200, "seeds 1 to this")
	limit := flag.Duration("for", time.Hour, "begin none after so long")
	only := flag.String("only", "", "these seeds, again")
	file := flag.String("file", filepath.Join("tests", "packages", "results.tsv"), "the table")
	python := flag.String("python", cmp.Or(os.Getenv("GDNGEN_PYTHON"), filepath.Join(".venv", "bin", "python")), "an interpreter with the packages of tests/oracle/requirements.txt")
	flag.Parse()
	if err := all(*n, *limit, *only, *file, *python); err != nil {
		fmt.Fprintln(os.Stderr, "packages:", err)
		os.Exit(1)
	}
}

func all(n uint64, limit time.Duration, only, file, python string) error {
	rows, err := readRows(file)
	if err != nil {
		return err
	}
	var left []draw
	for seed := uint64(1); seed <= n; seed++ {
		named := slices.Contains(strings.Split(only, ","), strconv.FormatUint(seed, 10))
		if _, has := rows[seed]; named || only == "" && !has {
			left = append(left, drawn(seed))
		}
	}
	slices.SortStableFunc(left, func(a, b draw) int { return a.size() - b.size() })
	begin := time.Now()
	for _, d := range left {
		if time.Since(begin) > limit {
			break
		}
		verdict, what := try(context.Background(), d, python)
		if verdict == late {
			fmt.Printf("%d\t%s: %s\n", d.seed, verdict, what)
			continue
		}
		rows[d.seed] = row{d, time.Now().UTC().Format(time.DateOnly), verdict, what}
		fmt.Println(rows[d.seed])
		if err := writeRows(file, rows); err != nil {
			return err
		}
	}
	return nil
}

// try writes the package of a draw and lowers it. It returns the verdict, and the reason if it does not lower.
func try(ctx context.Context, d draw, python string) (verdict, what string) {
	dir, err := os.MkdirTemp("", "packages")
	if err != nil {
		return failed, err.Error()
	}
	defer os.RemoveAll(dir)
	if err := write(d, filepath.Join(dir, "gdr")); err != nil {
		verdict := refused
		if p := (broken{}); errors.As(err, &p) || strings.Contains(err.Error(), "fault of the generator") {
			verdict = failed
		}
		return verdict, strings.Join(strings.Fields(err.Error()), " ")
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, "-c", lowerText, filepath.Join(dir, "gdr", "src"))
	cmd.Env = append(os.Environ(), "JAX_PLATFORMS=cpu")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); ctx.Err() != nil {
		return late, "the machine is busy: no end in 20 minutes"
	} else if err != nil {
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		return failed, fmt.Sprintf("%s (%v)", lines[len(lines)-1], err)
	}
	return lowers, strings.Join(strings.Fields(out.String()), " ")
}

// broken is an exception of the generator.
type broken struct{ error }

// write writes the package of a draw, as gen does.
func write(d draw, dir string) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = broken{fmt.Errorf("exception: %v at %s", r, strings.Join(strings.Split(string(debug.Stack()), "\n")[6:12], " "))}
		}
	}()
	s, err := gdn.Parse(d.spec)
	if err != nil {
		return err
	}
	target, err := target.Lookup(d.target)
	if err != nil {
		return err
	}
	var parts []pallas.Part
	for _, p := range pallas.Parts(s) {
		text := d.auto
		if p.Name == "decode" || p.Name == "packed" {
			text = gdn.Auto
		}
		form, err := route.Resolve(p.Spec, text, target, nil)
		if err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
		p.Target, p.Variant = target.Name, pallas.Fit(p.Spec, form.Variant)
		parts = append(parts, p)
	}
	files, err := pallas.Package("gdr", parts, route.Modules, pallas.Provenance{Version: "test", Unasked: true})
	if err != nil {
		return err
	}
	for _, f := range files {
		path := filepath.Join(dir, filepath.FromSlash(f.Path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(f.Text), 0o600); err != nil {
			return err
		}
	}
	return nil
}
