// Package fetch copies traces from where jobs left them: Hugging Face repositories, folders, web servers, buckets.
//
// Rules:
//
//  1. A plan lists names and sizes before anything is copied.
//  2. A file arrives whole or not at all: size and, if known, hash are checked before it gets its name.
//  3. A complete file that is already there is kept, so repeating a command after an interruption continues it.
package fetch

import (
	"cmp"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/internal/terminal"
)

// Sources are the forms of a source, with their meanings.
var Sources = [][2]string{
	{"hf:ORG/REPO[@REVISION][/PREFIX]", "repository of models on Hugging Face; HF_TOKEN and HF_ENDPOINT count"},
	{"hf-dataset:ORG/REPO[@REVISION][/PREFIX]", "repository of data sets there"},
	{"https://HOST/FILE", "one file of a web server"},
	{"gs://BUCKET/PREFIX", "bucket of Google's cloud, by its command line gcloud"},
	{"job:ID", "what a job of gdngen remote left, submitted from this folder or on GDNGEN_ON; ray:ID is the same"},
	{"FOLDER", "folder, such as a mounted disk"},
}

// light are patterns of traces small enough to copy without asking; heavy are complete traces.
var (
	light = []string{"*trace.json.gz", "perfetto*", "profile.json"}
	heavy = []string{"*.xplane.pb"}
)

// Options says which files to copy.
type Options struct {
	Only   string // pattern of names or of their last parts; "": JSON traces, or XSpaces if there are none
	XPlane bool   // also XSpaces
}

// File is a file of a source. An empty hash is unknown.
type File struct {
	Name   string `json:"name"` // after the prefix, with slashes
	Size   int64  `json:"size"` // negative: unknown
	SHA256 string `json:"sha256,omitempty"`
	full   string // the source's name for it
	git    string // hash of the git object
}

// Plan lists the files to copy.
type Plan struct {
	Files []File
	from  source
}

// Fetched is a file that was copied, or was already there.
type Fetched struct {
	File
	Path string `json:"path"`
	Kept bool   `json:"kept,omitempty"` // it was already there
}

// source is a place with traces.
type source interface {
	list(ctx context.Context) ([]File, error)
	// get writes a file to a path; the caller checks it.
	get(ctx context.Context, f File, to string) error
}

// SourceError says that a source's text is invalid.
type SourceError struct{ Source, Reason string }

func (e *SourceError) Error() string { return fmt.Sprintf("source %q: %s", e.Source, e.Reason) }

// MissingError says that a source has no wanted file.
type MissingError struct{ Source, Reason string }

func (e *MissingError) Error() string { return fmt.Sprintf("%s: %s", e.Source, e.Reason) }

func parse(text string) (source, error) {
	kind, rest, ok := strings.Cut(text, ":")
	switch {
	case ok && (kind == "hf" || kind == "hf-dataset"):
		return newHub(text, rest, kind == "hf-dataset")
	case ok && (kind == "http" || kind == "https"):
		return newWeb(text)
	case ok && (kind == "job" || kind == "ray"):
		return newJob(text, rest)
	case ok && kind == "gs":
		return &bucket{strings.TrimRight(text, "/")}, nil
	}
	info, err := os.Stat(text)
	if err != nil || !info.IsDir() {
		var forms []string
		for _, s := range Sources {
			forms = append(forms, s[0])
		}
		return nil, &SourceError{text, "no such folder; want " + strings.Join(forms, ", ")}
	}
	return &folder{text}, nil
}

// New parses a source and lists the files to copy. The error is a *SourceError, a *MissingError, or the source's.
func New(ctx context.Context, text string, o Options) (*Plan, error) {
	if _, err := path.Match(o.Only, ""); err != nil {
		return nil, &SourceError{text, fmt.Sprintf("%q is no pattern of names", o.Only)}
	}
	from, err := parse(text)
	if err != nil {
		return nil, err
	}
	all, err := from.list(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", text, err)
	}
	p := &Plan{from: from}
	take := func(patterns ...string) {
		for _, f := range all {
			if matches(patterns, f.Name) {
				p.Files = append(p.Files, f)
			}
		}
	}
	switch _, one := from.(*website); {
	case one:
		p.Files = all
	case o.Only != "":
		take(o.Only)
	case o.XPlane:
		take(slices.Concat(light, heavy)...)
	default:
		if take(light...); len(p.Files) == 0 {
			take(heavy...)
		}
	}
	if len(p.Files) == 0 {
		return nil, &MissingError{text, fmt.Sprintf("none of its %d files is %s", len(all), cmp.Or(o.Only, "a trace"))}
	}
	for _, f := range p.Files {
		if terminal.Plain(f.Name) != f.Name {
			return nil, &SourceError{text, fmt.Sprintf("it lists %q, which has characters that are not shown", f.Name)}
		}
		if !filepath.IsLocal(filepath.FromSlash(f.Name)) {
			return nil, &SourceError{text, fmt.Sprintf("it lists %q, which is outside of it", f.Name)}
		}
	}
	return p, nil
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		whole, _ := path.Match(p, name)
		last, _ := path.Match(p, path.Base(name))
		return whole || last
	})
}

// Size returns the size of all files in bytes; ok is false if one is unknown.
func (p *Plan) Size() (sum int64, ok bool) {
	for _, f := range p.Files {
		if f.Size < 0 {
			return 0, false
		}
		sum += f.Size
	}
	return sum, true
}

// Run copies the files into a folder. On an error it also returns the files that arrived. note receives the name of each file before its copy.
func (p *Plan) Run(ctx context.Context, dir string, note func(string)) (l []Fetched, err error) {
	for _, f := range p.Files {
		x := Fetched{File: f, Path: filepath.Join(dir, filepath.FromSlash(f.Name))}
		if info, err := os.Stat(x.Path); err == nil && f.Size >= 0 && info.Size() == f.Size && f.check(x.Path) == nil {
			x.Kept = true
			l = append(l, x)
			continue
		}
		note(f.Name)
		if err := p.copy(ctx, f, x.Path); err != nil {
			return l, fmt.Errorf("%s: %w", f.Name, err)
		}
		l = append(l, x)
	}
	return l, nil
}

func (p *Plan) copy(ctx context.Context, f File, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	part, err := os.CreateTemp(filepath.Dir(to), ".fetch-*")
	if err != nil {
		return err
	}
	defer os.Remove(part.Name())
	if err := errors.Join(part.Close(), os.Chmod(part.Name(), 0o644)); err != nil {
		return err
	}
	if err := p.from.get(ctx, f, part.Name()); errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("its %d bytes did not all come: try again", f.Size)
	} else if err != nil {
		return err
	}
	if err := f.check(part.Name()); err != nil {
		return err
	}
	return os.Rename(part.Name(), to)
}

// check compares a copy with the source's size and hash.
func (f File) check(path string) error {
	r, err := os.Open(path)
	if err != nil {
		return err
	}
	defer r.Close()
	info, err := r.Stat()
	if err != nil {
		return err
	}
	if f.Size >= 0 && info.Size() != f.Size {
		return fmt.Errorf("%d bytes of %d came: try again", info.Size(), f.Size)
	}
	var h hash.Hash
	want := f.SHA256
	switch {
	case want != "":
		h = sha256.New()
	case f.git != "":
		want, h = f.git, sha1.New()
		fmt.Fprintf(h, "blob %d\x00", info.Size())
	default:
		return nil
	}
	if _, err := io.Copy(h, r); err != nil {
		return err
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		return fmt.Errorf("it came damaged: its hash is %s, and should be %s; try again", got, want)
	}
	return nil
}
