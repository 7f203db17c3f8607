package gdn

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/ir"
)

// Changing an axis changes the text, and the cell exactly where the axis is structural.
func TestAxes(t *testing.T) {
	names := map[string]bool{}
	for _, a := range Axes {
		require.False(t, names[a.Name], a.Name)
		names[a.Name] = true
		require.NotEmpty(t, a.Doc, a.Name)
		require.GreaterOrEqual(t, len(a.Values), 2, a.Name)
		if a.Name != "prec" {
			require.Contains(t, a.Values, a.Default, a.Name)
		}
		v := DefaultVariant()
		require.Error(t, a.Set(&v, "nonsense"), a.Name)
		if context, ok := map[string]string{
			"leafnewton":      "leaf=16,leafby=neumann",
			"out":             "fold=yes",
			"state_delay":     "phases_before=1",
			"state_whole":     "phases_before=1",
			"grain":           "phases_before=1",
			"bwd.grain":       "bwd.phases_after=1",
			"bwd.state_delay": "bwd.phases_after=1",
			"bwd.head_skew":   "bwd.phases_after=1",
			"prologue_end":    "phases_before=1",
			"interleave":      "phases_before=1",
			"unit":            "algo=token",
			"pack":            "layout=bthd,decay=clamp,fold=yes",
			"hbm":             "phases_before=1",
			"persistent_rows": "layout=bthd",
			"prefetch":        "layout=bthd,decay=clamp,pack=aligned,phases_before=1",
			"decay_bf16":      "store=bf16",
			"error_feedback":  "store=bf16",
			"bwd.decay_bf16":  "store=bf16",
			"split_at":        "prec=bf16x3",
			"mask":            "merge=packed,leaf=16,prec=bf16x1,store=bf16",
			"mergepairs":      "merge=packed,leaf=16,prec=bf16x1,store=bf16,mask=words",
			"refine":          "merge=packed,leaf=16,prec=bf16x1,store=bf16,mask=words",
		}[a.Name]; ok {
			v = parseVariant(t, context)
		}
		texts, cells := map[string]bool{}, map[string]bool{}
		for _, value := range a.Values {
			w, err := v.With(a.Name, value)
			require.NoError(t, err, a.Name)
			require.Equal(t, value, a.Get(&w), a.Name)
			texts[w.String()], cells[w.Cell()] = true, true
		}
		require.Len(t, texts, len(a.Values), a.Name)
		require.Equal(t, a.Structural(), len(cells) == len(a.Values), a.Name)
	}
}

func TestVariantErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "the text is empty",
		"chunk":                             "needs a value: chunk=1|8|16",
		"chunk=64,":                         "entry 2",
		"chunk=64,chunk=64":                 "chunk is given twice",
		"chunk=63":                          `"63" is not allowed`,
		"chnk=64":                           `did you mean "chunk"`,
		"solve=laddr":                       `did you mean "ladder"`,
		"solve=merg":                        `allowed: merge ladder block forward neumann newton`,
		"mergepacked":                       `did you mean "merge-packed"`,
		"solve=forward,leaf=8":              "leaf (size of the diagonal blocks that merge, ladder and block start from) does not apply",
		"algo=token,solve=merge":            "does not apply to algo=token,chunk=64: leave it out, or take algo=chunk",
		"unit=lanes":                        "leave it out, or take algo=token",
		"merge=rows,solve=ladder":           "leave it out, or take solve=merge",
		"leafnewton=1":                      "does not apply",
		"prec=f16":                          "allowed: f32 bf16x1 bf16x3 bf16x6",
		"store=f16":                         "allowed: f32 bf16",
		"share=true":                        "allowed: no yes",
		"algo=chunk,chunk=64,wat=1,leaf=16": `unknown axis "wat"`,
	} {
		_, err := ParseVariant(text)
		require.ErrorContains(t, err, want, text)
	}
	_, err := parseVariant(t, "naive").With("leaf", "8")
	require.ErrorContains(t, err, "does not apply")
	_, err = parseVariant(t, "naive").With("leef", "8")
	require.ErrorContains(t, err, `did you mean "leaf"`)
	_, err = parseVariant(t, "naive").With("chunk", "100")
	require.ErrorContains(t, err, "allowed: 1 8 16 32 64 128 256")

	s := mustParse(t, "b=2,t=64,hk=2,hv=4,k=8")
	require.ErrorContains(t, parseVariant(t, "layout=bthd,heads=1").Check(s), "layout=bthd needs all 2 value heads of a key head")
}

func TestFit(t *testing.T) {
	fit := func(text, spec string) Variant { return parseVariant(t, text).Fit(mustParse(t, spec)) }
	require.Equal(t, 8, fit("chunk=64", "t=1,hk=1,k=8").Chunk)
	require.Equal(t, 16, fit("chunk=64", "t=9,hk=1,k=8").Chunk)
	require.Equal(t, 1, fit("algo=token,chunk=64", "t=1,hk=1,k=8").Chunk)
	require.Equal(t, 16, fit("algo=token,chunk=64", "t=99,hk=1,k=8").Chunk)
	require.Equal(t, 8, fit("leaf=32", "t=8,hk=1,k=8").Inverse.Leaf)
	require.Equal(t, 1, fit("chunks=4", "t=64,hk=1,k=8").Mapping.Chunks)
	require.Equal(t, 2, fit("chunks=4", "t=128,hk=1,k=8").Mapping.Chunks)
	require.Equal(t, 1, fit("chunks=4", "t=999,hk=1,k=8,seqs=2").Mapping.Chunks)
	require.Equal(t, 3, fit("batch=4", "b=3,t=8,hk=1,k=8").Mapping.Batch)
	require.Equal(t, 3, fit("batch=4", "b=6,t=8,hk=1,k=8").Mapping.Batch)
	for heads, want := range map[string]int{"0": 12, "1": 1, "2": 1, "4": 3, "8": 6, "16": 12} {
		require.Equal(t, want, fit("heads="+heads, "t=8,hk=4,hv=12,k=8").Mapping.Heads, heads)
	}
}

func TestGuard(t *testing.T) {
	s, s2 := mustParse(t, "t=256,hk=1,k=8"), mustParse(t, "t=256,hk=1,k=8,negeig")
	for text, want := range map[string][2]bool{ // safe with beta up to 1, up to 2
		"algo=token":                                         {true, true},
		"solve=forward":                                      {true, true},
		"leaf=32":                                            {true, true},
		"solve=ladder,leaf=1,prec=bf16x1":                    {true, true},
		"leaf=4,leafby=neumann,prec=bf16x1":                  {true, true},
		"leaf=8,leafby=neumann,prec=bf16x1":                  {false, false},
		"leaf=8,leafby=neumann,prec=bf16x3":                  {true, false},
		"leaf=16,leafby=neumann":                             {false, false},
		"leaf=16,leafby=neumann,leafnewton=1":                {true, true},
		"leaf=32,leafby=neumann,leafnewton=1":                {false, false},
		"leaf=32,leafby=neumann,leafnewton=2":                {true, false},
		"leaf=16,leafby=neumann,leafnewton=1,precinv=bf16x3": {false, false},
		"solve=neumann":                                      {false, false},
		"solve=newton":                                       {false, false},
		"solve=neumann,chunk=16":                             {false, false},
	} {
		v := parseVariant(t, text)
		require.Equal(t, want[0], v.Unsafe(s) == "", "%s: %s", text, v.Unsafe(s))
		require.Equal(t, want[1], v.Unsafe(s2) == "", "%s: %s", text, v.Unsafe(s2))
	}
	train := s
	train.Direction = Train
	for text, safe := range map[string]bool{
		"tpu-train": true, "tpu-train-x3": true, "tpu-train,decaygrad=inverse": false, "tpu-train,decaygrad=inverse,refine=yes": true, "chunk=32,decaygrad=inverse": true,
	} {
		require.Equal(t, safe, parseVariant(t, text).Unsafe(train) == "", text)
		require.Empty(t, parseVariant(t, text).Unsafe(s), text)
	}
	packed, one := mustParse(t, "t=256,hk=1,k=8,seqs=3"), mustParse(t, "t=256,hk=1,k=8,seqs=1")
	for text, safe := range map[string]bool{
		"tpu-packed": true, "tpu-packed,mask=select": false, "tpu-packed,prec=bf16x3": false, "tpu-packed,mask=select,pack=gather": true, "tpu,pack=segments,mask=select": true,
	} {
		v := parseVariant(t, text)
		require.NoError(t, v.Check(packed), text)
		require.Equal(t, safe, v.Unsafe(packed) == "", text)
		require.Empty(t, v.Unsafe(one), text)
		require.Empty(t, v.Unsafe(s), text)
	}
	for _, n := range Variants {
		require.Equal(t, n.Negative, parseVariant(t, n.Text).Unsafe(s) != "", n.Name)
	}
}

func TestPrecision(t *testing.T) {
	for text, want := range map[string]ir.Precision{
		"algo=chunk": ir.PrecF32, "prec=bf16x6": ir.PrecBF16x6, "prec=bf16x3": ir.PrecBF16x3, "prec=bf16x1": ir.PrecBF16x1,
		"prec=bf16x3,precinv=f32": ir.PrecBF16x3, "precinv=bf16x1": ir.PrecBF16x1, "precintra=bf16x6,precstate=bf16x3": ir.PrecBF16x3,
		"decay=base2": ir.PrecBF16x3, "decay=base2,prec=bf16x1": ir.PrecBF16x1, "store=bf16": ir.PrecBF16x1, "algo=token": ir.PrecF32, "algo=token,precstate=bf16x3": ir.PrecBF16x3,
	} {
		require.Equal(t, want, parseVariant(t, text).Precision(), text)
	}
}

func TestCells(t *testing.T) {
	s := mustParse(t, "b=2,t=200,hk=2,hv=4,k=16")
	n, cells := 0, map[string]bool{}
	for v := range Cells(s, DefaultVariant()) {
		require.NoError(t, v.Check(s))
		require.Empty(t, v.Unsafe(s))
		cells[v.Cell()] = true
		if n++; n == 4000 {
			break
		}
	}
	require.Equal(t, 4000, n)
	require.Len(t, cells, n)
}

// A named variant is known by its name alone and with axes after it, so no name is that of an axis.
func TestNamesParse(t *testing.T) {
	for _, n := range Variants {
		want, err := ParseVariant(n.Text)
		require.NoError(t, err, n.Name)
		got, err := ParseVariant(n.Name)
		require.NoError(t, err, n.Name)
		require.Equal(t, want, got, n.Name)
		_, err = ParseVariant(n.Name + ",chunk=16")
		require.NoError(t, err, n.Name)
	}
}

// Former names still read, as what they were, and no list shows them.
func TestFormerNames(t *testing.T) {
	for _, n := range Former {
		v, err := ParseVariant(n.Name)
		require.NoError(t, err)
		require.Equal(t, parseVariant(t, n.Text), v)
		require.False(t, slices.ContainsFunc(Variants, func(x NamedVariant) bool { return x.Name == n.Name }), n.Name)
	}
}
