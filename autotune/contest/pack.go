package contest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/BurntSushi/toml"

	"github.com/gdngen/gdngen/autotune/flashinfer"
)

// ConfigName is the file that describes a solution in its folder.
const ConfigName = "config.toml"

// Limits of a solution, in bytes.
const (
	mostFile = 4 << 20
	mostAll  = 32 << 20
)

// defaultHardware is the contest's hardware: its solutions do not name it.
const defaultHardware = "cuda"

// config is the form of config.toml.
type config struct {
	Solution struct {
		Name        string `toml:"name"`
		Definition  string `toml:"definition"`
		Author      string `toml:"author"`
		Description string `toml:"description,omitempty"`
	} `toml:"solution"`
	Build struct {
		Language     string   `toml:"language"`
		EntryPoint   string   `toml:"entry_point"`
		Destination  *bool    `toml:"destination_passing_style,omitempty"`
		Dependencies []string `toml:"dependencies,omitempty"`
		Binding      string   `toml:"binding,omitempty"`
		Hardware     []string `toml:"target_hardware,omitempty"`
	} `toml:"build"`
}

// Pack reads the solution in folder dir. file is its description (empty: dir/config.toml). author, if not empty,
// replaces the description's author. find returns a definition by name.
func Pack(dir, file, author string, find func(name string) (*flashinfer.Definition, error)) (*flashinfer.Solution, error) {
	file = cmp.Or(file, filepath.Join(dir, ConfigName))
	var c config
	meta, err := toml.DecodeFile(file, &c)
	if bad := (toml.ParseError{}); errors.As(err, &bad) {
		return nil, fmt.Errorf("%s: line %d: %s", file, bad.Position.Line, bad.Message)
	}
	if err != nil {
		return nil, err
	}
	if l := meta.Undecoded(); len(l) > 0 {
		return nil, fmt.Errorf("%s: unknown key %s (known: name definition author description of [solution]; language entry_point destination_passing_style dependencies binding target_hardware of [build])", file, l[0])
	}
	b := c.Build
	s := &flashinfer.Solution{Name: c.Solution.Name, Definition: c.Solution.Definition, Author: cmp.Or(author, c.Solution.Author), Description: c.Solution.Description,
		Spec: flashinfer.BuildSpec{Language: b.Language, EntryPoint: b.EntryPoint, Dependencies: b.Dependencies, Binding: b.Binding, TargetHardware: b.Hardware, DestinationLast: b.Destination == nil || *b.Destination}}
	if len(s.Spec.TargetHardware) == 0 {
		s.Spec.TargetHardware = []string{defaultHardware}
	}
	if !slices.Contains(flashinfer.Languages, b.Language) {
		return nil, fmt.Errorf("%s: build.language is %q, want one of %s", file, b.Language, strings.Join(flashinfer.Languages, " "))
	}
	if s.Sources, err = sources(filepath.Join(dir, "solution", b.Language)); err != nil {
		return nil, err
	}
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	d, err := find(s.Definition)
	if err != nil {
		return nil, fmt.Errorf("%s: solution.definition: %w", file, err)
	}
	return s, checkEntry(s, d)
}

// sources reads the files below a folder, by name. Files of editors and interpreters are left out.
func sources(dir string) (l []flashinfer.Source, err error) {
	all := 0
	err = filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := e.Name()
		switch {
		case name != dir && strings.HasPrefix(base, "."), base == "__pycache__":
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		case e.IsDir(), strings.HasSuffix(base, ".pyc"):
			return nil
		case !e.Type().IsRegular():
			return fmt.Errorf("%s is no plain file: a solution holds texts alone", name)
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		all += len(text)
		switch {
		case len(text) > mostFile || all > mostAll:
			return fmt.Errorf("%s: a file may have %d MiB, and all of them %d", name, mostFile>>20, mostAll>>20)
		case !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0:
			return fmt.Errorf("%s is no text in UTF-8: a solution holds sources alone", name)
		}
		at, err := filepath.Rel(dir, name)
		l = append(l, flashinfer.Source{Path: filepath.ToSlash(at), Content: string(text)})
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is missing: sources of a solution lie below solution/LANGUAGE", dir)
	}
	if err == nil && len(l) == 0 {
		err = fmt.Errorf("%s has no files", dir)
	}
	slices.SortFunc(l, func(a, b flashinfer.Source) int { return cmp.Compare(a.Path, b.Path) })
	return l, err
}

// Unpack writes a solution as a folder that Pack reads. If existing files differ it errs and writes nothing.
func Unpack(s *flashinfer.Solution, dir string) (files []string, err error) {
	var c config
	c.Solution.Name, c.Solution.Definition, c.Solution.Author, c.Solution.Description = s.Name, s.Definition, s.Author, s.Description
	b, last := &c.Build, s.Spec.DestinationLast
	b.Language, b.EntryPoint, b.Dependencies, b.Binding, b.Hardware, b.Destination = s.Spec.Language, s.Spec.EntryPoint, s.Spec.Dependencies, s.Spec.Binding, s.Spec.TargetHardware, &last
	var text bytes.Buffer
	encoder := toml.NewEncoder(&text)
	encoder.Indent = ""
	if err := encoder.Encode(c); err != nil {
		return nil, err
	}
	content := map[string]string{ConfigName: text.String()}
	for _, x := range s.Sources {
		content[path.Join("solution", s.Spec.Language, x.Path)] = x.Content
	}
	for name := range content {
		files = append(files, filepath.Join(dir, filepath.FromSlash(name)))
		had, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err == nil && string(had) != content[name] {
			return nil, fmt.Errorf("%s is there, with another content: choose another folder", filepath.Join(dir, name))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	for name, text := range content {
		at := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	slices.Sort(files)
	return files, nil
}
