package main

import (
	"bytes"
	"compress/gzip"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// siteFiles are the frame of its pages, what they look like, their search, the journals of three searches, and pages of schedules with a table of them.
//
//go:embed site.html site.css site.js runs/*.jsonl.gz schedules
var siteFiles embed.FS

var frame = template.Must(template.ParseFS(siteFiles, "site.html"))

// sitePage is a page of the gallery.
type sitePage struct {
	Path, Title string // Path is relative to the gallery
	Root        string // from the page to the gallery's root: "", or "../" for each folder
	Body        template.HTML
	Docs        []sitePage // the pages of docs, for the menu
}

// works are those whose schedules the gallery shows, on each of siteTargets.
var works = []struct{ name, title, spec string }{
	{"bench", "Prefill: T 4096, 4 and 8 heads", "bench"},
	{"head", "Prefill: T 4096, one head", "b=1,t=4096,hk=1,hv=1,k=128,v=128,dtype=bf16"},
	{"kda", "Kimi Delta Attention, gates bounded", "b=1,t=4096,hk=8,hv=8,k=128,v=128,dtype=bf16,gates=fused,gatedtype=bf16,l2norm,rule=kda,bound=-5"},
	{"train", "A training step", "train"},
	{"packed", "8192 tokens in 57 packed sequences", "contest-prefill,seqs=57,inplace"},
	{"decode", "Decode of 64 sequences", "decode"},
}

var siteTargets = []string{"v4", "v5e", "v5p", "v6e", "tpu7x"}

// site is a gallery being written.
type site struct {
	out     string
	program string // gdngen; where it is empty there are no reports
	stored  fs.FS  // pages of schedules, and the table of them
	docs    []sitePage
}

// gallery writes a static site into a new folder: docs with search, schedules of works by target, reports of searches, cycles against tokens and
// heads, errors by class. Schedules are the stored ones; with compile they are made anew first, of what the cache has and libtpu compiles.
func gallery(out string, compile bool) error {
	if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is there already: name a new folder", out)
	}
	dir, err := os.MkdirTemp("", "site")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s := &site{out: out, program: filepath.Join(dir, "gdngen")}
	if err := build("v0.0.0", "", "", true, s.program); err != nil {
		return err
	}
	stored, err := fs.Sub(siteFiles, "schedules")
	if err != nil {
		return err
	}
	if compile {
		if err := storeSchedules(s.program, "cmd/release/schedules"); err != nil {
			return err
		}
		stored = os.DirFS("cmd/release/schedules")
	}
	s.stored = stored
	return s.write()
}

func (s *site) write() error {
	if err := s.pages(); err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString("<h1>gdngen</h1><p>Kernels of the gated delta rule for TPU, CPU and GPU: what they are, what they cost, how far they err. All figures are static or modelled; nothing here ran on a TPU. <a href=\"README.html\">Start here</a>, or search the pages above.</p>")
	for _, part := range []struct {
		head string
		text func() (string, error)
	}{{"<h2>Schedules</h2><p>In-order cycles per token and value head; issue cycles in brackets where a target's latencies are not known. A page shows the slots over the schedule, bundle by bundle, and what each stage costs; pointing at a figure shows its date, commit and compiler.</p>", s.schedules}, {"<h2>Searches</h2>", s.reports}, {"<h2>Charts</h2>", s.charts}} {
		text, err := part.text()
		if err != nil {
			return err
		}
		b.WriteString(part.head + text)
	}
	b.WriteString("<h2>Pages</h2><ul class=\"pages\">")
	for _, d := range s.docs {
		fmt.Fprintf(&b, "<li><a href=\"%s\">%s</a></li>", d.Path, template.HTMLEscapeString(d.Title))
	}
	b.WriteString("</ul>")
	if err := s.page("index.html", "gdngen", b.String()); err != nil {
		return err
	}
	for _, name := range []string{"site.css", "site.js"} {
		data, err := siteFiles.ReadFile(name)
		if err != nil {
			return err
		}
		if err := s.file(name, data); err != nil {
			return err
		}
	}
	return nil
}

// page writes a page with the frame.
func (s *site) page(name, title, body string) error {
	var b bytes.Buffer
	p := sitePage{Path: name, Title: title, Root: strings.Repeat("../", strings.Count(name, "/")), Body: template.HTML(body), Docs: s.docs}
	if err := frame.ExecuteTemplate(&b, "site.html", p); err != nil {
		return err
	}
	return s.file(name, b.Bytes())
}

// file writes a file below the gallery.
func (s *site) file(name string, data []byte) error {
	to := filepath.Join(s.out, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o644)
}

// reports writes the reports of the searches whose journals are in the folder of this file, and gives a list of them.
func (s *site) reports() (string, error) {
	names, err := fs.Glob(siteFiles, "runs/*.jsonl.gz")
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "runs")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	var b strings.Builder
	b.WriteString("<ul>")
	for _, name := range names {
		run := strings.TrimSuffix(path.Base(name), ".jsonl.gz")
		journal, err := unpacked(siteFiles, name)
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		var header struct{ Body struct{ Spec string } }
		first, _, _ := bytes.Cut(journal, []byte("\n"))
		if err := json.Unmarshal(first, &header); err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		if err := s.file(path.Join("runs", run+".jsonl"), journal); err != nil {
			return "", err
		}
		page := path.Join("runs", run+".html")
		if s.program != "" {
			at := filepath.Join(dir, run)
			if err := os.MkdirAll(at, 0o755); err != nil {
				return "", err
			}
			if err := os.WriteFile(filepath.Join(at, "journal.jsonl"), journal, 0o644); err != nil {
				return "", err
			}
			if err := quiet(s.program, "run", "show", at, "--html", filepath.Join(s.out, filepath.FromSlash(page))); err != nil {
				return "", err
			}
		}
		fmt.Fprintf(&b, "<li><a href=\"%s\">%s</a> <code>%s</code> <a class=\"soft\" href=\"runs/%s.jsonl\">journal</a></li>",
			page, template.HTMLEscapeString(run), template.HTMLEscapeString(header.Body.Spec), run)
	}
	b.WriteString("</ul>")
	return b.String(), nil
}

// quiet runs a program whose output is of no interest.
func quiet(program string, args ...string) error {
	out, err := exec.Command(program, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w\n%s", filepath.Base(program), strings.Join(args, " "), err, out)
	}
	return nil
}

// unpacked reads a compressed file.
func unpacked(from fs.FS, name string) ([]byte, error) {
	f, err := from.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}
