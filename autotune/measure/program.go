package measure

import (
	"bytes"
	"fmt"
	"path/filepath"

	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/codegen/mosaic"
	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/internal/suggest"
	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/target"
)

// Program is a program to measure: a spec with a variant, a module of the IR, or the text of a foreign module.
type Program struct {
	Name    string      // file of a foreign module
	Spec    *gdn.Spec   // nil if unknown
	Variant gdn.Variant // of a spec
	Lowered *ir.Module  // the backend's input; nil for a foreign module

	// Scalars are values of the tables in scalar memory that steer the kernels, keyed as in llo.Options: for sequences
	// of equal length. Nil if there are none.
	Scalars map[string][]int64

	Origin *Origin // origin of stored schedules; nil for a program to compile

	stored string // folder of the schedules; empty for a program to compile
	tables error  // why the values of some tables are unknown
	route  route.Route
	texts  map[*target.Target]string // emitted
}

// Make returns the program of a spec by the text of a variant, resolved as by route.Resolve without a user's champions.
func Make(s gdn.Spec, variant string, r route.Route, t *target.Target) (*Program, error) {
	var f *route.Form
	err := guard("resolving "+variant, func() (err error) {
		f, err = route.Resolve(s, variant, r.For(t), nil)
		return err
	})
	if err != nil {
		return nil, refused(Invalid, err)
	}
	return Of(f, r)
}

// Of returns the program of a form. A build that fails is a *Refusal.
func Of(f *route.Form, r route.Route) (*Program, error) {
	var m *ir.Module
	err := guard("building", func() (err error) {
		m, err = f.Build()
		return err
	})
	if err != nil {
		return nil, refused(Invalid, err)
	}
	p := &Program{Spec: &f.Spec, Variant: f.Variant, route: r}
	if r.Name() == (mosaic.Backend{}).Name() {
		return p, p.lower(func() (*ir.Module, error) { return f.Kernels() })
	}
	return p, p.lower(func() (*ir.Module, error) { return r.Lower(m) })
}

// OfModule returns the program of a module at the tensor level. s describes its inputs and outputs (nil: unknown), v how it computes.
func OfModule(m *ir.Module, s *gdn.Spec, v gdn.Variant, r route.Route) (*Program, error) {
	p := &Program{Spec: s, Variant: v, route: r}
	return p, p.lower(func() (*ir.Module, error) { return r.Lower(m) })
}

// Foreign returns a program from StableHLO text that gdngen did not write.
func Foreign(name, text string) *Program {
	return &Program{Name: name, texts: map[*target.Target]string{nil: text}}
}

// loweredByJAX is the JAX expression for the text of a TPU program, with kernel names and source lines.
const loweredByJAX = `jax.jit(f).trace(*args).lower(lowering_platforms=("tpu",)).as_text(debug_info=True)`

// ReadForeign returns the program of a file of StableHLO text. Bytecode, HLO text, Python and other formats are errors with advice.
func ReadForeign(name string, data []byte) (*Program, error) {
	switch {
	case bytes.HasPrefix(data, []byte("ML\xefR")):
		return nil, fmt.Errorf("%s is MLIR bytecode: give the text form (in JAX, %s)", name, loweredByJAX)
	case bytes.HasPrefix(data, []byte("HloModule")):
		return nil, fmt.Errorf("%s is HLO text: give StableHLO instead (in JAX, %s)", name, loweredByJAX)
	case filepath.Ext(name) == ".py":
		return nil, fmt.Errorf("%s is Python: lower it, and give the text (%s)", name, loweredByJAX)
	case filepath.Ext(name) == ".json":
		return nil, fmt.Errorf("%s is JSON: gdngen tune takes the config.json of a model; here give StableHLO text (in JAX, %s)", name, loweredByJAX)
	case suggest.Stead(data) != "":
		return nil, fmt.Errorf("%s is %s", name, suggest.Stead(data))
	case !bytes.Contains(data, []byte("main")):
		return nil, fmt.Errorf("%s holds no StableHLO module: there is no @main (JAX writes one by %s)", name, loweredByJAX)
	}
	return Foreign(name, string(data)), nil
}

// lower lowers the module and finds the values of its tables.
func (p *Program) lower(lowering func() (*ir.Module, error)) error {
	p.texts = map[*target.Target]string{}
	err := guard("lowering", func() (err error) {
		p.Lowered, err = lowering()
		return err
	})
	if err != nil {
		return refused(EmitError, err)
	}
	if p.Spec == nil {
		return nil
	}
	p.tables = guard("computing the tables of the kernels", func() (err error) {
		p.Scalars, err = representative(p.Lowered, *p.Spec, nil)
		return err
	})
	return nil
}

// IsForeign reports whether the text of the program comes from a file, or from JAX. Stored schedules of a spec are not foreign.
func (p *Program) IsForeign() bool { return p.Lowered == nil && (p.Spec == nil || p.stored == "") }

// Backend names the backend of the program; empty for a foreign one.
func (p *Program) Backend() string {
	if p.route.Backend == nil {
		return ""
	}
	return p.route.Name()
}

// Text returns the program as emitted for a target.
func (p *Program) Text(t *target.Target) (string, error) {
	if p.IsForeign() {
		return p.texts[nil], nil
	}
	if text, ok := p.texts[t]; ok {
		return text, nil
	}
	if p.route.TPU && t == nil {
		return "", fmt.Errorf("backend %s needs a target", p.route.Name())
	}
	var a *codegen.Artifact
	err := guard("emitting", func() (err error) {
		a, err = p.route.Backend.Emit(p.Lowered, t)
		return err
	})
	if err != nil {
		if t != nil && mosaic.NeedsVMEM(p.Lowered) > t.VMEM {
			return "", refused(VMEM, err)
		}
		return "", refused(EmitError, err)
	}
	p.texts[t] = a.Text
	return a.Text, nil
}

func (p *Program) String() string {
	if p.Spec == nil {
		return p.Name
	}
	return fmt.Sprintf("%s by %s through %s", p.Spec, p.Variant, p.Backend())
}
