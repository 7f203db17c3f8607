package flashinfer

import (
	"encoding/json"
	"path"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/internal/terminal"
)

// Solution is an implementation of a definition: its sources and how to build and call it.
type Solution struct {
	Name, Definition, Author string
	Description              string
	Spec                     BuildSpec
	Sources                  []Source

	extra map[string]any
}

// BuildSpec tells how a solution is built and called.
type BuildSpec struct {
	Language        string   // one of Languages
	TargetHardware  []string // at least one
	EntryPoint      string   // file::function
	Dependencies    []string
	DestinationLast bool   // destination_passing_style: outputs are the last arguments; true unless the file says otherwise
	Binding         string // one of Bindings, or empty

	extra map[string]any
}

// Source is a file of a solution.
type Source struct {
	Path    string `json:"path"` // relative, with slashes
	Content string `json:"content"`
}

// Languages and Bindings list the values that the schema allows for a solution's language and binding.
var (
	Languages = []string{"python", "triton", "cpp", "cuda", "tilelang"}
	Bindings  = []string{"tvm-ffi", "torch"}
)

// ParseSolution reads a solution.
func ParseSolution(data []byte) (*Solution, error) {
	t, err := parse("solution", data)
	if err != nil {
		return nil, err
	}
	s, r := &Solution{}, &reader{}
	s.extra = r.object(t, fields{
		"name":        {required: true, read: r.text(&s.Name, false)},
		"definition":  {required: true, read: r.text(&s.Definition, false)},
		"author":      {required: true, read: r.text(&s.Author, false)},
		"description": {read: r.text(&s.Description, true)},
		"spec":        {required: true, read: func(t *tree) { s.Spec = r.buildSpec(t) }},
		"sources": {required: true, read: r.list(func(t *tree) {
			var x Source
			r.object(t, fields{"path": {required: true, read: r.text(&x.Path, false)}, "content": {required: true, read: r.text(&x.Content, false)}})
			s.Sources = append(s.Sources, x)
		})},
	})
	if r.errs == nil {
		s.check(r)
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	return s, nil
}

func (r *reader) buildSpec(t *tree) BuildSpec {
	b := BuildSpec{DestinationLast: true}
	oneOf := func(at *string, values []string) func(*tree) {
		return func(t *tree) {
			r.text(at, false)(t)
			if *at != "" && !slices.Contains(values, *at) {
				r.failf(t.path, "is %q, want one of %s", *at, strings.Join(values, " "))
			}
		}
	}
	b.extra = r.object(t, fields{
		"language":        {required: true, read: oneOf(&b.Language, Languages)},
		"target_hardware": {required: true, read: r.texts(&b.TargetHardware)},
		"entry_point":     {required: true, read: r.text(&b.EntryPoint, false)},
		"dependencies":    {read: r.texts(&b.Dependencies)},
		"destination_passing_style": {read: func(t *tree) {
			var ok bool
			if b.DestinationLast, ok = t.value.(bool); !ok {
				r.failf(t.path, "is %s, want a boolean", t.kind())
			}
		}},
		"binding": {read: oneOf(&b.Binding, Bindings)},
	})
	return b
}

// Check looks for contradictions between the fields of a solution, as FlashInfer-Bench does.
func (s *Solution) Check() error {
	r := &reader{}
	s.check(r)
	return r.err()
}

func (s *Solution) check(r *reader) {
	for _, f := range []struct{ name, value string }{{"name", s.Name}, {"definition", s.Definition}, {"author", s.Author}} {
		if f.value == "" {
			r.failf("solution."+f.name, "is empty")
		}
	}
	if !slices.Contains(Languages, s.Spec.Language) {
		r.failf("solution.spec.language", "is %q, want one of %s", s.Spec.Language, strings.Join(Languages, " "))
	}
	if len(s.Spec.TargetHardware) == 0 {
		r.failf("solution.spec.target_hardware", "is empty")
	}
	if len(s.Sources) == 0 {
		r.failf("solution.sources", "is empty")
	}
	var paths []string
	for i, x := range s.Sources {
		at := indexed("solution.sources", i)
		switch {
		case path.IsAbs(x.Path):
			r.failf(at+".path", "%q is absolute", x.Path)
		case slices.Contains(strings.Split(x.Path, "/"), ".."):
			r.failf(at+".path", "%q leads out of the folder of the solution", x.Path)
		case slices.Contains(paths, x.Path):
			r.failf(at+".path", "%q is there twice", x.Path)
		case terminal.Plain(x.Path) != x.Path:
			r.failf(at+".path", "%q has characters that are not shown", x.Path)
		}
		if x.Content == "" {
			r.failf(at+".content", "is empty")
		}
		paths = append(paths, x.Path)
	}
	file, function, _ := strings.Cut(s.Spec.EntryPoint, "::")
	switch {
	case strings.Count(s.Spec.EntryPoint, "::") != 1 || file == "" || function == "":
		r.failf("solution.spec.entry_point", "is %q, want FILE::FUNCTION", s.Spec.EntryPoint)
	case len(s.Sources) > 0 && !slices.Contains(paths, file):
		r.failf("solution.spec.entry_point", "names the file %q, which solution.sources has not (it has %s)", file, strings.Join(paths, " "))
	}
}

// MarshalJSON writes the solution in the schema's form; it errs if Check does.
func (s *Solution) MarshalJSON() ([]byte, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	var o object
	o.add("name", s.Name)
	o.add("definition", s.Definition)
	o.add("author", s.Author)
	o.addText("description", s.Description)
	o.add("spec", s.Spec)
	o.add("sources", s.Sources)
	o.extra(s.extra)
	return o.json()
}

// UnmarshalJSON reads like ParseSolution.
func (s *Solution) UnmarshalJSON(data []byte) error {
	p, err := ParseSolution(data)
	if err == nil {
		*s = *p
	}
	return err
}

// MarshalJSON writes the specification in the schema's form.
func (b BuildSpec) MarshalJSON() ([]byte, error) {
	var o object
	o.add("language", b.Language)
	o.add("target_hardware", b.TargetHardware)
	o.add("entry_point", b.EntryPoint)
	o.add("dependencies", append([]string{}, b.Dependencies...))
	o.add("destination_passing_style", b.DestinationLast)
	o.addText("binding", b.Binding)
	o.extra(b.extra)
	return o.json()
}

var _ json.Marshaler = (*Solution)(nil)
