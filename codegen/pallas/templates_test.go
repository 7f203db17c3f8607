package pallas

import (
	"io"
	"math/rand/v2"
	"reflect"
	"testing"
	"text/template/parse"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen/pallas/family"
	"github.com/gdngen/gdngen/gdn"
)

// toss sets flags at random, and gives empty lists an element, at any depth, so that both sides of an if are executed, and the body of a range.
func toss(v reflect.Value, r *rand.Rand) {
	for i := range v.NumField() {
		switch f := v.Field(i); {
		case !f.CanSet():
		case f.Kind() == reflect.Bool:
			f.SetBool(r.IntN(2) == 0)
		case f.Kind() == reflect.Struct && f.Type() != reflect.TypeFor[gdn.Rule]():
			toss(f, r)
		case f.Kind() == reflect.Slice && f.Len() == 0:
			f.Set(reflect.MakeSlice(f.Type(), 1, 1))
			if f.Index(0).Kind() == reflect.Struct {
				toss(f.Index(0), r)
			}
		}
	}
}

// called adds the names of the templates that a node calls.
func called(n parse.Node, to map[string]bool) {
	branch := func(b parse.BranchNode) {
		called(b.List, to)
		if b.ElseList != nil {
			called(b.ElseList, to)
		}
	}
	switch n := n.(type) {
	case *parse.ListNode:
		for _, x := range n.Nodes {
			called(x, to)
		}
	case *parse.IfNode:
		branch(n.BranchNode)
	case *parse.RangeNode:
		branch(n.BranchNode)
	case *parse.WithNode:
		branch(n.BranchNode)
	case *parse.TemplateNode:
		to[n.Name] = true
	}
}

// Each template is executed for each rule, and with any options: what it asks for is there, by its name.
func TestTemplates(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	v, err := gdn.ParseVariant("default")
	require.NoError(t, err)
	done := map[string]bool{}
	for _, name := range gdn.RuleNames() {
		for range 40 {
			s, err := gdn.Parse("b=1,t=256,hk=1,hv=2,k=128,v=128,dtype=bf16,init,rule=" + name + []string{"", ",seqs=2", ",state=vk"}[r.IntN(3)])
			require.NoError(t, err)
			f := &file{code: &code{&module{}}, variant: v}
			require.NoError(t, f.describe(Spec(s), v))
			toss(reflect.ValueOf(&f.data).Elem(), r)
			for _, of := range []string{"rule", "check", "decode", "api", "recurrent", "parallel", "tests", "paralleltests", "conftest"} {
				require.NoError(t, templates.ExecuteTemplate(io.Discard, of, f.data), "%s of %s", of, s)
				done[of] = true
			}
			d := operatorData{Text: family.Of(s.Rule), Tokens: 64, Places: 4, Window: 2, HeadsK: 1, HeadsV: 2, K: 128, V: 128, Taps: 4, Rows: 3}
			toss(reflect.ValueOf(&d).Elem(), r)
			for _, of := range []string{"operator", "operator_init", "operator_reference", "operator_tests"} {
				require.NoError(t, templates.ExecuteTemplate(io.Discard, of, d), "%s of %s", of, s)
				done[of] = true
			}
		}
	}
	for _, x := range templates.Templates() {
		called(x.Root, done)
	}
	for _, x := range templates.Templates() {
		require.True(t, done[x.Name()] || parse.IsEmptyTree(x.Root), "no test executes the template %q", x.Name())
	}
}
