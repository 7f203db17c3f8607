package trace

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// forever gives a text again and again.
type forever struct {
	text string
	at   int
}

func (f *forever) Read(b []byte) (int, error) {
	n := copy(b, f.text[f.at:])
	f.at = (f.at + n) % len(f.text)
	return n, nil
}

// Reading ends with its context, takes a time linear in blanks, and is bounded in what it keeps.
func TestBounded(t *testing.T) {
	event := `{"ph":"X","pid":1,"tid":1,"ts":1,"dur":1,"name":"a b\"  c"},`
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	_, err := decode(ctx, io.MultiReader(strings.NewReader(`{"traceEvents":[`), &forever{text: strings.Repeat(event, 100)}))
	require.ErrorIs(t, err, context.DeadlineExceeded)

	start := time.Now()
	x, err := decode(t.Context(), io.MultiReader(strings.NewReader(`{"traceEvents":[`+event), bytes.NewReader(bytes.Repeat([]byte(" "), 32<<20)), strings.NewReader(event[:len(event)-1]+"]}")))
	require.NoError(t, err)
	x.describe()
	require.Less(t, time.Since(start), 20*time.Second, "a quadratic reader takes minutes")
	require.Len(t, x.Planes[0].Lines[0].Events, 2)
	require.Equal(t, `a b"  c`, x.Planes[0].Lines[0].Events[0].Op.Name, "blanks of a text are left alone")

	value, timed, space := mostValue, mostTimed, mostSpace
	mostValue, mostTimed, mostSpace = 1<<20, 100, 1<<20
	defer func() { mostValue, mostTimed, mostSpace = value, timed, space }()
	_, err = decode(t.Context(), io.MultiReader(strings.NewReader(`{"traceEvents":[{"name":"`), &forever{text: "a"}))
	require.ErrorContains(t, err, "a value of it has more than 1048576 bytes")
	_, err = decode(t.Context(), strings.NewReader(`[`+strings.Repeat(event, 200)))
	require.ErrorContains(t, err, "more than 100 events")
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	fmt.Fprint(z, strings.Repeat("\x00", 4<<20))
	require.NoError(t, z.Close())
	path := filepath.Join(t.TempDir(), "x.xplane.pb")
	require.NoError(t, os.WriteFile(path, bomb.Bytes(), 0o644))
	_, err = Open(t.Context(), path)
	require.ErrorContains(t, err, "more than 1048576 bytes, unpacked")
}
