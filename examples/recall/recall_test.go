package main

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/gomlx/compute"
	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/examples/lab"
	"github.com/gdngen/gdngen/gdn/layer/device"
	"github.com/gdngen/gdngen/pjrt/plugins"
)

func backend(t *testing.T, name string) compute.Backend {
	b, err := lab.OpenBackend(context.Background(), name, nil)
	if missing := (*plugins.MissingError)(nil); errors.As(err, &missing) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	require.NoError(t, err)
	return b
}

// The layer learns to recall, and without the rule stays at chance.
func TestRecall(t *testing.T) {
	b := backend(t, device.XLA)
	var r *lab.Result
	for _, mixer := range []string{"kda", "delta"} {
		var err error
		r, err = train(context.Background(), b, mixer, lab.Config{Steps: 1000, Target: .99, Seed: 1, Every: 20})
		require.NoError(t, err)
		require.GreaterOrEqual(t, r.Merit, .99, "%s after %d steps", mixer, r.Steps)
	}
	none, err := train(context.Background(), b, "none", lab.Config{Steps: r.Steps, Seed: 1, Every: r.Steps})
	require.NoError(t, err)
	require.InDelta(t, 1./keys, none.Merit, .03)
	_, err = train(context.Background(), b, "both", lab.Config{})
	require.ErrorContains(t, err, "known: delta kda none")

	// The other backend, whose random numbers are others, learns too.
	other, err := train(context.Background(), backend(t, device.Go), "delta", lab.Config{Steps: 30, Seed: 1})
	require.NoError(t, err)
	require.Less(t, other.Losses[29], other.Losses[0]-.1)
}
