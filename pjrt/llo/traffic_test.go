package llo

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// traffic holds modules of ours and of JAX whose bytes are known: every argument is read once and every result written once, and what
// comes on top has a reason. The granules that the top-level program fetches its parameters by count too.
var traffic = []struct {
	dump, target string
	onTop        int64
	why          string
}{
	{"batch2_v6e", "v6e", granule, ""},
	{"blocks2_v5e", "v5e", 16 * granule, ""},
	{"general_v6e", "v6e", granule, ""},
	{"general_tpu7x", "tpu7x", granule, ""},
	{"train_v6e", "v6e", granule + 2*256*(128+128+2*128)*2, "the backward kernel reads q, k and v again; what the forward kernel saves stays in vector memory"},
	{"decode_v6e", "v6e", granule + 2*(2048-2*16*8) + 2*(512-4*8), "gates and their biases are read in tiles"},
	{"split_v6e", "v6e", granule, ""},
	{"jax_general_v6e", "v6e", granule, ""},
	{"jax_split_v5e", "v5e", 16*granule + 256*2*64*2, "the output is 64 wide, in tiles of 128 lanes"},
	{"jax_tpu_v6e", "v6e", 2720, "gates of 300 tokens are padded to 304, and to tiles"},
	{"jax_decode_tpu7x", "tpu7x", 2016, "rows of one token are padded to tiles"},
	{"jax_scan_v6e", "v6e", 2080, "gates of two heads are padded to tiles"},
	{"jax_mlp_v6e", "v6e", 1024*512*2 + 2080, "the residual is read again; partial sums go through main memory"},
	{"jax_gather_v6e", "v6e", 4096*128*4 + 16512, "the column that is sorted is read in tiles of 128 lanes, beside the rows"},
}

// necessaryBytes are those of the arguments and results of a module, each once and without padding.
func necessaryBytes(t *testing.T, module string) (n int64) {
	t.Helper()
	_, layout, ok := strings.Cut(module, "entry_computation_layout={")
	require.True(t, ok)
	width := map[string]int64{"bf16": 2, "f32": 4, "s32": 4}
	for _, m := range regexp.MustCompile(`(\w+)\[([\d,]*)\]`).FindAllStringSubmatch(layout, -1) {
		bytes, ok := width[m[1]]
		require.True(t, ok, m[0])
		for d := range strings.SplitSeq(m[2], ",") {
			k, err := strconv.ParseInt(d, 10, 64)
			require.NoError(t, err, m[0])
			bytes *= k
		}
		n += bytes
	}
	return n
}

// Each transfer of kernels, of XLA's own ops and of the copies between them is counted.
func TestTraffic(t *testing.T) {
	for _, row := range traffic {
		a := archive(t, "traffic/"+row.dump)
		r, err := Options{}.Analyze(unpack(t, a), lookup(t, row.target))
		require.NoError(t, err, row.dump)
		module := ""
		for _, f := range a.Files {
			if strings.HasSuffix(f.Name, "-hlo.txt") {
				module = string(f.Data)
			}
		}
		require.Equal(t, row.onTop, r.HBMBytes-necessaryBytes(t, module), "%s: %s", row.dump, row.why)
		require.Empty(t, r.HBMUnknown)
	}
}

// The memory of a general transfer is that of its addresses, by how they are made or by the operand; without one nothing is counted.
func TestGeneralTransfer(t *testing.T) {
	const operand = "%s1_s1 = inlined_call_operand.hbm [shape: f32[8], index: 0, kind: input]"
	for _, row := range []struct {
		name, program string
		bytes         int64
		why           string
	}{
		{"by address", operand + " | %s2_s2 = scalar_lea.hbm %s1_s1, 16 ;; %s3_s3 = int_to_ptr.vmem %s9_s3 | %0 = dma.general %s2_s2, 8, %s3_s3, [#allocation2], 0, [#allocation3], 0, 0", 8 * granule, ""},
		{"by operand", operand + " | %s2_s2 = sadd.s32 %s1_s1, 16 ;; %s3_s3 = int_to_ptr.vmem %s9_s3 | %0 = dma.general %s3_s3, 8, %s2_s2, [#allocation2]", 8 * granule, ""},
		{"between two of main memory", operand + " | %s2_s2 = scalar_lea.hbm %s1_s1, 16 | %0 = dma.general %s1_s1, 8, %s2_s2, [#allocation2]", 16 * granule, ""},
		{"unknown", "%s1_s1 = sld [smem:[#allocation1]] ;; %s3_s3 = int_to_ptr.vmem %s9_s3 | %0 = dma.general %s1_s1, 8, %s3_s3, [#allocation2]", -1, "dma.general has an address whose memory only a run would tell"},
		{"unknown form", operand + " | %0 = dma.sv.hbm_to_vmem %s1_s1, %v1_v1, 8", -1, "dma.sv.hbm_to_vmem at 0x1 is a form of transfer that is not known"},
	} {
		tr, err := execute(t, Options{}, false, strings.Split(row.program, " | ")...)
		require.NoError(t, err, row.name)
		require.Equal(t, row.bytes, tr.hbmBytes, row.name)
		require.Equal(t, row.why, tr.hbmWhy, row.name)
	}
}
