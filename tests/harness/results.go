package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// row is what a check came to: group, name, figure, verdict, seconds, date and commit.
type row struct {
	group, name, figure, verdict string
	seconds                      int
	date, commit                 string
}

func (r row) String() string {
	return strings.Join([]string{r.group, r.name, r.figure, r.verdict, strconv.Itoa(r.seconds), r.date, r.commit}, "\t")
}

// The files that rows go to. The table is between two marks.
const (
	resultsFile = "tests/harness/results.tsv"
	pageFile    = "docs/trust.md"
	openMark    = "<!-- harness: written by go run ./tests/harness -->\n"
	closeMark   = "<!-- end -->\n"
)

// groups are the groups in order, and what each tries.
var groups = [][2]string{
	{"faults", "each change below a journal fails in turn, or the power goes"},
	{"flips", "a bit of a journal is another"},
	{"kills", "`kill -9` at random, then the same decisions"},
	{"hostile", "agents, workers, proposers, servers, libraries"},
	{"race", "`go test -race -short`"},
	{"fuzz", "any bytes"},
	{"static", "what can be seen without a run"},
}

// readRows reads the rows that are kept.
func readRows() (l []row, err error) {
	text, err := os.ReadFile(resultsFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 7 {
			return nil, fmt.Errorf("%s: %q has no seven fields", resultsFile, line)
		}
		n, _ := strconv.Atoi(f[4])
		l = append(l, row{f[0], f[1], f[2], f[3], n, f[5], f[6]})
	}
	return l, err
}

// keep puts a row in the place of its last one, and writes the table.
func keep(r row) error {
	l, err := readRows()
	if err != nil {
		return err
	}
	l = slices.DeleteFunc(l, func(x row) bool { return x.group == r.group && x.name == r.name })
	l = append(l, r)
	place := func(r row) int {
		return slices.IndexFunc(groups, func(g [2]string) bool { return g[0] == r.group })
	}
	slices.SortStableFunc(l, func(a, b row) int {
		if a.group != b.group {
			return place(a) - place(b)
		}
		return strings.Compare(a.name, b.name)
	})
	var text strings.Builder
	for _, x := range l {
		fmt.Fprintln(&text, x)
	}
	if err := os.WriteFile(resultsFile, []byte(text.String()), 0o644); err != nil {
		return err
	}
	page, err := os.ReadFile(pageFile)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(page), openMark)
	_, after, done := strings.Cut(rest, closeMark)
	if !ok || !done {
		return fmt.Errorf("%s has no place for the table", pageFile)
	}
	return os.WriteFile(pageFile, []byte(before+openMark+table(l)+closeMark+after), 0o644)
}

// table is the rows in Markdown, fuzz targets with their sum.
func table(l []row) string {
	var b strings.Builder
	b.WriteString("| tried | where | figure | verdict | seconds | date | commit |\n|---|---|---|---|---:|---|---|\n")
	sum, targets := 0, 0
	for _, r := range l {
		what := groups[slices.IndexFunc(groups, func(g [2]string) bool { return g[0] == r.group })][1]
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s | %d | %s | %s |\n", what, r.name, r.figure, r.verdict, r.seconds, r.date, r.commit)
		if n, err := strconv.Atoi(strings.TrimSuffix(r.figure, " runs")); err == nil && r.group == "fuzz" {
			sum, targets = sum+n, targets+1
		}
	}
	if targets > 0 {
		fmt.Fprintf(&b, "\nFuzzing: %d targets, %.2f million runs.\n", targets, float64(sum)/1e6)
	}
	return b.String()
}

// Inputs that are kept: few, and small.
const (
	mostInputs = 6
	mostBytes  = 400
)

// keepInputs copies inputs that Go found worth keeping from its cache to the target's folder, up to mostInputs of them.
func keepInputs(target string) error {
	pkg, name, _ := strings.Cut(target, " ")
	out, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		return err
	}
	from := filepath.Join(strings.TrimSpace(string(out)), "fuzz", "github.com/gdngen/gdngen", pkg, name)
	to := filepath.Join(pkg, "testdata", "fuzz", name)
	there, _ := os.ReadDir(to)
	found, err := os.ReadDir(from)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, e := range found {
		if len(there) >= mostInputs {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(from, e.Name()))
		if err != nil || len(text) > mostBytes {
			continue
		}
		sum := sha256.Sum256(text)
		if err := os.MkdirAll(to, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, fmt.Sprintf("%x", sum[:8])), text, 0o644); err != nil {
			return err
		}
		there = append(there, e)
	}
	return err
}
