package engine

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn"
)

// forward has kernels of forward specs.
type forward struct{}

func (forward) Supports(s gdn.Spec) error {
	if s.Direction != gdn.Forward {
		return errors.New("no gradients")
	}
	return nil
}
func (forward) Variant(gdn.Spec) string   { return "wide" }
func (forward) Precision(gdn.Spec) string { return "bf16x1" }
func (forward) Text(context.Context, gdn.Spec) (string, error) {
	return "", errors.New("the compiler refuses it")
}

// Kernels inside of StableHLO are for auto, on a device that takes them, and specs that have some. Their precision is their own.
func TestByPTX(t *testing.T) {
	s, err := gdn.Parse("tiny")
	require.NoError(t, err)
	p := Plan{Text: gdn.Auto, PTX: forward{}}
	require.True(t, p.ByPTX(s))
	precision, err := p.Precision(s)
	require.NoError(t, err)
	require.Equal(t, "bf16x1", precision)
	variant, precision, _ := p.Describe(s, gdn.Variant{})
	require.Equal(t, []string{"wide", "bf16x1"}, []string{variant, precision})
	compute, err := (&Env{Context: t.Context()}).deviceCompute(p)
	require.NoError(t, err)
	_, err = compute(s, nil)
	require.EqualError(t, err, "the compiler refuses it")

	train := s
	train.Direction = gdn.Train
	require.False(t, p.ByPTX(train))
	require.False(t, Plan{Text: "token", PTX: forward{}}.ByPTX(s))
	require.False(t, Plan{Text: gdn.Auto}.ByPTX(s))
}
