//go:build unix

package layer_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn/layer"
)

// A file of weights that is cut after it was opened is an error; what was read before stays.
func TestWeightsCut(t *testing.T) {
	const n = 1 << 20
	head := fmt.Sprintf(`{"x":{"dtype":"F32","shape":[%d],"data_offsets":[0,%d]}}`, n/4, n)
	var b bytes.Buffer
	require.NoError(t, binary.Write(&b, binary.LittleEndian, uint64(len(head))))
	b.WriteString(head)
	b.Write(make([]byte, n))
	path := filepath.Join(t.TempDir(), layer.SingleName)
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o644))
	w, err := layer.OpenWeights(path)
	require.NoError(t, err)
	defer w.Close()
	x, err := w.Read("x")
	require.NoError(t, err)
	require.NoError(t, os.Truncate(path, 1000))
	_, err = w.Read("x")
	require.ErrorContains(t, err, "which was cut or lost since it was opened")
	require.Zero(t, x.Float64s()[n/4-1])
}
