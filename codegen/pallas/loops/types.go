package loops

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/ir"
)

// Hint returns the Python type of an item.
func Hint(x *Item) string {
	switch {
	case x.Param != 0:
		return "Ref"
	case x.Handed() != x:
		return Hint(x.Handed())
	case x.IsList():
		if x.Elems[0] != nil && x.Elems[0].IsList() {
			return "list[Tiles]"
		}
		return "Tiles"
	}
	return "jax.Array"
}

// Returns returns the Python type of a function's results.
func Returns(items []*Item) string {
	t := make([]string, len(items))
	for i, x := range items {
		t[i] = Hint(x)
	}
	s := "None"
	switch {
	case len(t) == 1:
		s = t[0]
	case len(t) > 6:
		s = "tuple[Any, ...]"
	case len(t) > 1:
		s = "tuple[" + strings.Join(t, ", ") + "]"
	}
	return s
}

// RefDoc returns the element type and shape of a reference.
func RefDoc(x *Item) string {
	shape := ListShape(x)
	return shortType(ir.T(x.Typ.DType, shape...))
}

// ListShape returns the shape of a reference; the lengths of lists come first.
func ListShape(x *Item) []int {
	var shape []int
	for y := x; y.IsList(); y = y.Elems[0] {
		shape = append(shape, len(y.Elems))
	}
	z := x
	for z.IsList() {
		z = z.Elems[0]
	}
	return append(shape, z.Typ.Shape...)
}

// ShapeDoc returns the type and shape of a value, or of a list's elements.
func ShapeDoc(x *Item) string {
	switch {
	case x.IsList() && x.Elems[0] == nil:
		return fmt.Sprintf("%d x %s", len(x.Elems), shortType(x.Typ))
	case x.IsList():
		return fmt.Sprintf("%d x %s", len(x.Elems), strings.TrimPrefix(ShapeDoc(x.Elems[0]), "of "))
	}
	return shortType(x.Typ)
}

func shortType(t ir.Type) string {
	s := make([]string, len(t.Shape))
	for i, n := range t.Shape {
		s[i] = strconv.Itoa(n)
	}
	return t.DType.String() + "[" + strings.Join(s, ", ") + "]"
}
