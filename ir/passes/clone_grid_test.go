package passes_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/ir"
	"github.com/gdngen/gdngen/ir/passes"
)

// A grid and its copy are equal and share nothing that can be changed, whatever fields a grid has.
func TestCloneGrid(t *testing.T) {
	g := &ir.Grid{}
	fill(reflect.ValueOf(g).Elem())
	n := passes.CloneGrid(g)
	require.Equal(t, g, n)
	require.Empty(t, shared("Grid", reflect.ValueOf(g), reflect.ValueOf(n)))
}

// fill gives each slice an element and each pointer something to point at.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i))
			}
		}
	case reflect.Int:
		v.SetInt(1)
	}
}

// shared names what two values of a type have in common.
func shared(at string, a, b reflect.Value) (list []string) {
	switch a.Kind() {
	case reflect.Slice:
		if a.Pointer() == b.Pointer() {
			return []string{at}
		}
		return shared(at+"[0]", a.Index(0), b.Index(0))
	case reflect.Pointer:
		if a.Pointer() == b.Pointer() {
			return []string{at}
		}
		return shared(at, a.Elem(), b.Elem())
	case reflect.Struct:
		for i := range a.NumField() {
			list = append(list, shared(at+"."+a.Type().Field(i).Name, a.Field(i), b.Field(i))...)
		}
	}
	return list
}
