//go:build cgo && ((linux && amd64) || darwin) && !noxla

package kernels

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/gomlx/gomlx/pkg/core/dtypes"
	"github.com/gomlx/gomlx/pkg/core/shapes"
)

var (
	mainHeader = regexp.MustCompile(`(?m)^ *func\.func (?:public )?@main\((.*)\) -> \(?([^{]*?)\)? \{$`)
	parameter  = regexp.MustCompile(`%([^:, ]+): (tensor<[^>]*>)`)
	tensorType = regexp.MustCompile(`tensor<((?:\d+x)*)([a-z]+\d*)>`)
)

// elements are the element types as StableHLO names them.
var elements = map[string]dtypes.DType{
	"f64": dtypes.Float64, "f32": dtypes.Float32, "f16": dtypes.Float16, "bf16": dtypes.BFloat16, "i1": dtypes.Bool,
	"i8": dtypes.Int8, "i16": dtypes.Int16, "i32": dtypes.Int32, "i64": dtypes.Int64,
	"ui8": dtypes.Uint8, "ui16": dtypes.Uint16, "ui32": dtypes.Uint32, "ui64": dtypes.Uint64,
}

// signature reads the parameters and results of a program's main function.
func signature(text string) (names []string, inputs, outputs []shapes.Shape, err error) {
	m := mainHeader.FindStringSubmatch(text)
	if m == nil {
		return nil, nil, nil, fmt.Errorf("kernels: the program has no function main")
	}
	for _, p := range parameter.FindAllStringSubmatch(m[1], -1) {
		s, err := shapeOf(p[2])
		if err != nil {
			return nil, nil, nil, err
		}
		names, inputs = append(names, p[1]), append(inputs, s)
	}
	for _, t := range tensorType.FindAllString(m[2], -1) {
		s, err := shapeOf(t)
		if err != nil {
			return nil, nil, nil, err
		}
		outputs = append(outputs, s)
	}
	return names, inputs, outputs, nil
}

func shapeOf(text string) (shapes.Shape, error) {
	m := tensorType.FindStringSubmatch(text)
	if m == nil {
		return shapes.Shape{}, fmt.Errorf("kernels: %q is no tensor type", text)
	}
	d, ok := elements[m[2]]
	if !ok {
		return shapes.Shape{}, fmt.Errorf("kernels: unknown element type %q", m[2])
	}
	var dims []int
	for n := range strings.SplitSeq(strings.TrimSuffix(m[1], "x"), "x") {
		if n == "" {
			continue
		}
		v, err := strconv.Atoi(n)
		if err != nil {
			return shapes.Shape{}, fmt.Errorf("kernels: %q: %w", text, err)
		}
		dims = append(dims, v)
	}
	return shapes.Make(d, dims...), nil
}
