package judge

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/truth"
)

// Exams are of small specs: few heads and sequences, of full width, and of parts at most two.
func TestTritonForm(t *testing.T) {
	s, v, err := tritonForm(spec(t, "contest-prefill,seqs=57"), "auto,part=16,chunk=64,warps=8", fullExam)
	require.NoError(t, err)
	require.Equal(t, 2, v.Part)
	require.Equal(t, 4, v.Warps, "they change no number")
	require.Equal(t, [5]int{4, 8, 4, 336, 128}, [5]int{s.HeadsK, s.HeadsV, s.Seqs, s.Tokens, s.K})
}

// What one chunk rounds adds up over several: an inverse in one part of bf16 passes the short exam, and not that of four chunks.
func TestExamOfChunks(t *testing.T) {
	lab, err := NewGPULab(t.Context(), LabOptions{Cache: &measure.Cache{Dir: t.TempDir()}})
	if err != nil && os.Getenv("CI") == "" {
		t.Skipf("not tested: %v", err)
	}
	require.NoError(t, err)
	s := spec(t, "b=1,t=512,hk=1,hv=1,k=64,v=64,dtype=bf16")
	for variant, passes := range map[string]bool{"auto,chunk=64": true, "auto,chunk=64,tparts=1": false} {
		w := &Work{Spec: s, Shapes: []Shape{{Spec: s, Weight: 1}}, Seed: 1, Record: &journal.Candidate{Variant: variant}}
		r, err := lab.examineOn(t.Context(), w, chunksExam, func(s gdn.Spec) ([]truth.Class, error) { return lookup(s, []string{"identical"}) })
		require.NoError(t, err)
		require.Equal(t, passes, r == nil, variant)
		if r != nil {
			require.Equal(t, journal.Numerics, r.Verdict)
		}
	}
}
