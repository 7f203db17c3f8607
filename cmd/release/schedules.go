package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/gdngen/gdngen/autotune/ruler"
)

// scheduleTable names the stored pages, a row each: work, spec, target, figure, compiler, commit, date.
const scheduleTable = "schedules.tsv"

// stored is a row of it. Figure is cycles per token and value head, in brackets issue cycles.
type stored struct{ Work, Spec, Target, Figure, Compiler, Commit, Date string }

// page is the file of the row's page, compressed as it is stored.
func (r stored) page() string { return r.Work + "_" + r.Target + ".html.gz" }

// readSchedules returns the rows of the table by page.
func readSchedules(from fs.FS) (map[string]stored, error) {
	data, err := fs.ReadFile(from, scheduleTable)
	if err != nil {
		return nil, err
	}
	rows := map[string]stored{}
	for line := range strings.Lines(string(data)) {
		f := strings.Split(strings.TrimRight(line, "\n"), "\t")
		if len(f) != 7 {
			return nil, fmt.Errorf("%s: %q has %d columns of 7", scheduleTable, line, len(f))
		}
		r := stored{f[0], f[1], f[2], f[3], f[4], f[5], f[6]}
		rows[r.page()] = r
	}
	return rows, nil
}

// schedules writes the stored pages of explain, and gives a table of them. A page is what explain wrote on its date.
func (s *site) schedules() (string, error) {
	rows, err := readSchedules(s.stored)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("<div class=\"wide\"><table class=\"schedules\"><tr><th>work</th>")
	for _, t := range siteTargets {
		fmt.Fprintf(&b, "<th>%s</th>", t)
	}
	b.WriteString("</tr>")
	for _, w := range works {
		fmt.Fprintf(&b, "<tr><td>%s</td>", w.title)
		for _, t := range siteTargets {
			file := stored{Work: w.name, Target: t}.page()
			r := rows[file]
			if r.Spec != w.spec {
				return "", fmt.Errorf("no stored page of %s on %s: go run ./cmd/release site --compile", w.spec, t)
			}
			page, err := unpacked(s.stored, file)
			if err != nil {
				return "", fmt.Errorf("%s: %w", file, err)
			}
			name := path.Join("explain", strings.TrimSuffix(file, ".gz"))
			if err := s.file(name, page); err != nil {
				return "", err
			}
			fmt.Fprintf(&b, "<td><a href=\"%s\" title=\"%s, commit %s, %s\">%s</a></td>", name, r.Date, r.Commit, r.Compiler, r.Figure)
		}
		b.WriteString("</tr>")
	}
	b.WriteString("</table></div>")
	return b.String(), nil
}

// storeSchedules has gdngen explain each work on each target, and stores the pages with their table in a folder.
func storeSchedules(program, dir string) error {
	commit, err := exec.Command("git", "rev-parse", "--short=8", "HEAD").Output()
	if err != nil {
		return fmt.Errorf("git rev-parse: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var table strings.Builder
	for _, w := range works {
		for _, t := range siteTargets {
			fmt.Println(w.name, t)
			r := stored{Work: w.name, Spec: w.spec, Target: t, Commit: strings.TrimSpace(string(commit)), Date: time.Now().UTC().Format("2 January 2006")}
			if err := r.explain(program, dir); err != nil {
				return err
			}
			fmt.Fprintln(&table, strings.Join([]string{r.Work, r.Spec, r.Target, r.Figure, r.Compiler, r.Commit, r.Date}, "\t"))
		}
	}
	return os.WriteFile(filepath.Join(dir, scheduleTable), []byte(table.String()), 0o644)
}

// explain stores the page of a row's work, and fills in figure and compiler.
func (r *stored) explain(program, dir string) error {
	file := filepath.Join(dir, strings.TrimSuffix(r.page(), ".gz"))
	defer os.Remove(file)
	args := []string{"explain", "--spec", r.Spec, "--target", r.Target, "--html", file, "-o", "json"}
	cmd := exec.Command(program, args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("gdngen %s: %w\n%s", strings.Join(args, " "), err, errs.Bytes())
	}
	var of []struct {
		Compiler string      `json:"compiler"`
		Ruler    ruler.Ruler `json:"ruler"`
		PerToken float64     `json:"cycles_per_token_head"`
	}
	var whole struct{ Targets json.RawMessage }
	if json.Unmarshal(out, &whole) != nil || whole.Targets == nil {
		whole.Targets = out
	}
	if err := json.Unmarshal(whole.Targets, &of); err != nil || len(of) != 1 {
		return fmt.Errorf("gdngen %s: its JSON has no target: %w", strings.Join(args, " "), err)
	}
	r.Compiler, r.Figure = of[0].Compiler, fmt.Sprintf("%.2f", of[0].PerToken)
	if of[0].Ruler != ruler.InOrder {
		r.Figure = "(" + r.Figure + ")"
	}
	page, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := z.Write(page); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, r.page()), b.Bytes(), 0o644)
}
