package sass

import (
	"compress/gzip"
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/ir/target"
)

// stored is the code of a listing in testdata. Of the words of an instruction the listings keep the upper one alone, where the control code is:
// nothing reads the lower one, which would not compress.
func stored(t *testing.T, name, registers, stack string) *Code {
	f, err := os.Open("testdata/" + name + ".sass.gz")
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	text, err := io.ReadAll(z)
	require.NoError(t, err)
	c, err := Parse(string(text), fmt.Sprintf("REG:%s STACK:%s", registers, stack))
	require.NoError(t, err)
	return c
}

// reservedTwice is an h100 as the other model takes it: what the driver reserves of shared memory for a program is taken from the multiprocessor
// once more. It matters to launches that fill an SM to the last KiB alone (TestBounds has one).
func reservedTwice(t *testing.T) *target.GPU {
	g := *h100(t)
	g.Shared -= g.SharedReserved
	return &g
}

// Figures of a model that was written independently of this one, in Python, with the constants of the table, for the same machine code by Triton 3.6.0 for
// sm_90: prototypes of decode, scan and prepare in their variants, kernels of this generator (own), and those of flash-linear-attention 0.6.0
// (chunk_gated_delta_rule on packed sequences, several of its autotuning's configs a kernel).
func TestOtherModel(t *testing.T) {
	for _, file := range []string{"prototypes", "fla"} {
		f, err := os.Open("testdata/" + file + ".tsv")
		require.NoError(t, err)
		defer f.Close()
		r := csv.NewReader(f)
		r.Comma = '\t'
		rows, err := r.ReadAll()
		require.NoError(t, err)
		require.Greater(t, len(rows), 12)
		for _, row := range rows[1:] {
			figure := map[string]float64{}
			for i, name := range rows[0][1:] {
				figure[name], err = strconv.ParseFloat(row[i+1], 64)
				require.NoError(t, err)
			}
			at := func(name string) int { return int(figure[name]) }
			code := stored(t, row[0], row[1], row[2])
			l := Launch{Programs: at("programs"), Warps: at("warps"), Shared: at("shared"), Trips: at("trips"), Bytes: int64(at("bytes"))}
			got, err := code.Model(l, reservedTwice(t))
			require.NoError(t, err)
			for name, x := range map[string]float64{"us": got.Time, "issue": got.Issue, "dram": got.DRAM, "cycles": got.Cycles, "turn": got.Turn, "waves": got.Waves} {
				require.InDelta(t, figure[name], x, .03*figure[name], "%s %+v: %s", row[0], l, name)
			}
			require.Equal(t, []int{at("resident"), at("limit"), at("instructions")}, []int{got.Resident, got.Limit, got.Instructions}, "%s %+v", row[0], l)
		}
	}
}
