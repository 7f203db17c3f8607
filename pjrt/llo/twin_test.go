package llo

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"
)

// libtpu compiles ops that are the same computation once: what one of them costs, the other does.
func TestTwins(t *testing.T) {
	r, err := Options{}.Analyze(unpack(t, archive(t, "twins_v6e_0.0.51")), lookup(t, "v6e"))
	require.NoError(t, err)
	ops := map[string]OpReport{}
	sum := r.TopLevel
	for _, op := range r.Ops {
		ops[op.Name] = op
		sum += op.Calls * op.Cycles
	}
	require.Len(t, ops, 7)
	require.Equal(t, sum, r.Cycles)
	for name, op := range ops {
		twin := map[string]string{"reduce.2": "reduce.3", "copy.4": "copy.3"}[name]
		require.Equal(t, twin, op.Twin, name)
		if twin != "" {
			like := ops[twin]
			like.Name, like.Twin = name, twin
			require.Equal(t, like, op)
		}
	}
}

// An op without a schedule is an error unless another one is the same computation in everything but names and where it comes from.
func TestNoTwin(t *testing.T) {
	analyze := func(files []txtar.File) error {
		_, err := Options{}.Analyze(unpack(t, &txtar.Archive{Files: files}), lookup(t, "v6e"))
		return err
	}
	edited := func(oldnew ...string) error {
		a := archive(t, "twins_v6e_0.0.51")
		for i, f := range a.Files {
			if strings.HasSuffix(f.Name, "-TLP-hlo.txt") {
				text := string(f.Data)
				for i := 0; i < len(oldnew); i += 2 {
					require.Contains(t, text, oldnew[i])
					text = strings.Replace(text, oldnew[i], oldnew[i+1], 1)
				}
				a.Files[i].Data = []byte(text)
			}
		}
		return analyze(a.Files)
	}
	without := func(part string) error {
		var kept []txtar.File
		for _, f := range archive(t, "twins_v6e_0.0.51").Files {
			if !strings.Contains(f.Name, part) {
				kept = append(kept, f)
			}
		}
		return analyze(kept)
	}
	const reduceLacks = `op "reduce.2" is called but its final_bundles or utilization file is missing in `
	const none = "and so is a twin: no reduce of the same type, operands and attributes in "
	const reduce = "reduce(%Arg_0.5, %constant.1), dimensions={0}, to_apply=%region_0.1"
	const config = `"aliasing_operands":{"lists":[]}}` + "\n  %reduce.3"
	for _, edit := range [][]string{
		{"maximum(%Arg_0.2, %Arg_1.2)", "minimum(%Arg_0.2, %Arg_1.2)"}, // an op of the computation called
		{"maximum(%Arg_0.2, %Arg_1.2)", "maximum(%Arg_1.2, %Arg_0.2)"}, // its operands
		{reduce, strings.Replace(reduce, "%Arg_0.5", "%Arg_2.1", 1)},   // type of an operand
		{reduce, strings.Replace(reduce, "%constant.1", "%constant.2", 1), "  %Arg_0.5 =", "  %constant.2 = f32[]{:T(128)} constant(1)\n  %Arg_0.5 ="},
		{reduce, strings.Replace(reduce, "{0}", "{1}", 1)}, // attributes
		{config, `"aliasing_operands":{"lists":[1]}}` + "\n  %reduce.3"},
		{"%reduce.2 = f32[256]{0:T(256)S(1)}", "%reduce.2 = f32[256]{0:T(256)}"}, // memory space
	} {
		err := edited(edit...)
		require.ErrorContains(t, err, reduceLacks, edit[1])
		require.ErrorContains(t, err, none, edit[1])
	}
	require.NoError(t, edited(reduce, reduce+", control-predecessors={%copy-done}"))
	require.NoError(t, edited(config, strings.Replace(config, "}}", `},"fusion_formation_source":{"fusion_id":"7"}}`, 1)))

	require.ErrorContains(t, without("reduce.3-0"), none)
	require.ErrorContains(t, without("copy.5-0"), `no copy of the same type`)
	require.ErrorContains(t, without("TLP-hlo"), "no *-TLP-hlo.txt to find another op")
	require.ErrorContains(t, edited("%reduce.2 = ", "%reduce.9 = "), "-TLP-hlo.txt does not name it")
	require.ErrorContains(t, edited("ROOT %maximum.1 = f32[]{:T(128)} maximum(", "ROOT %maximum.1 = f32[]{:T(128)} maximum["), "-TLP-hlo.txt:12: op without operands")
	require.ErrorContains(t, edited("maximum(%Arg_0.2, %Arg_1.2)", "maximum(%Arg_0.2, %Arg_1.2"), "-TLP-hlo.txt:12: bracket or quote is not closed")
	require.ErrorContains(t, edited("\n%region_0.1 (", "\n%region_7 ("), "computation region_0.1 is called but missing")
	require.ErrorContains(t, edited("maximum(%Arg_0.2, %Arg_1.2)", "maximum(%Arg_0.2, %Arg_1.2), to_apply=%region_0.1"), "computation region_0.1 calls itself")
}

// Two ops like the one that lacks a schedule must agree on theirs.
func TestTwinsDisagree(t *testing.T) {
	a := archive(t, "twins_v6e_0.0.51")
	var more []txtar.File
	for i, f := range a.Files {
		switch {
		case strings.HasSuffix(f.Name, "-TLP-hlo.txt"):
			text := string(f.Data)
			from, to := strings.Index(text, "  %copy.3 = "), strings.Index(text, "  %copy-start.2 = ")
			require.True(t, 0 < from && from < to)
			a.Files[i].Data = []byte(text[:to] + strings.Replace(text[from:to], "copy.3", "copy.8", 1) + text[to:])
		case strings.Contains(f.Name, "copy.3-0"):
			more = append(more, txtar.File{Name: strings.Replace(f.Name, "copy.3", "copy.8", 1), Data: f.Data})
		}
	}
	analyze := func() error {
		_, err := Options{}.Analyze(unpack(t, &txtar.Archive{Files: append(a.Files, more...)}), lookup(t, "v6e"))
		return err
	}
	require.NoError(t, analyze())
	for i := range more {
		more[i].Data = []byte(strings.ReplaceAll(string(more[i].Data), "vsyncpa", "vsyncadd"))
	}
	require.ErrorContains(t, analyze(), "copy.3 and copy.8 are both like it")
}

// Scalar operands that the module has as constants need no values from outside, and two calls of a kernel that differ in them alone have
// one schedule.
func TestConstantOperands(t *testing.T) {
	dir := unpack(t, archive(t, "constants_v6e_0.0.51"))
	r, err := Options{}.Analyze(dir, lookup(t, "v6e"))
	require.NoError(t, err)
	require.Len(t, r.Ops, 2)
	require.Equal(t, "name.2", r.Ops[0].Twin, "steps of 5 turns")
	require.Equal(t, "name.2", r.Ops[1].Name, "steps of 3 turns")
	require.EqualValues(t, 4*2*8, r.Ops[0].Cycles-r.Ops[1].Cycles, "two more turns of 8 bundles at each of 4 points")
	given, err := Options{Scalars: map[string][]int64{"name.2/0": {5}}}.Analyze(dir, lookup(t, "v6e"))
	require.NoError(t, err)
	require.Equal(t, given.Ops[0].Cycles, given.Ops[1].Cycles, "values from outside count first")
}
