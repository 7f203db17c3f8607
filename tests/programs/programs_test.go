package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/codegen/route"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/internal/rotate"
	"github.com/gdngen/gdngen/ir/target"
	"github.com/gdngen/gdngen/tests/history"
)

// frozen is the digest of the programs at the base, and of their names. It stays; programs may change, with a reason. It changed twice,
// when axes got the names of the field: their hashes did not.
const frozen = "ceb5103c7f7c016c"

func readTable(t *testing.T) *table {
	t.Helper()
	data, err := os.ReadFile("programs.tsv")
	require.NoError(t, err)
	tab, err := parseTable(data)
	require.NoError(t, err)
	require.Equal(t, string(tab.text()), string(data), "the table is sorted and has what is used")
	return tab
}

// The base is as it was frozen, each change has a reason, and each name has its row and means what it meant.
func TestTable(t *testing.T) {
	tab := readTable(t)
	require.Equal(t, frozen, tab.frozen(), "the first versions of hashes, their rows and names never change: go run ./tests/programs records a change")
	for _, r := range tab.reasons {
		date, why, _ := strings.Cut(r, "\t")
		require.Regexp(t, `^\d{4}-\d\d-\d\d$`, date)
		require.NotEmpty(t, strings.TrimSpace(why))
	}
	rows, known := map[string]*row{}, map[string]bool{}
	for _, r := range tab.rows {
		rows[r.preset+" "+r.variant] = r
		for _, name := range r.names {
			known[name] = true
		}
	}
	for _, p := range gdn.Presets {
		for _, n := range gdn.Variants {
			v, err := gdn.ParseVariant(n.Text)
			require.NoError(t, err)
			r := rows[p.Name+" "+v.String()]
			require.NotNil(t, r, "%s by %s is not in the table: go run ./tests/programs", p.Name, n.Name)
			require.True(t, !known[n.Name] || slices.Contains(r.names, n.Name), "%s is another text than at the base: give the new one a name of its own", n.Name)
		}
	}
}

// Programs are those of the table: what the change under test touched, the champions, and a sample that rotates by commit.
func TestPrograms(t *testing.T) {
	tab := readTable(t)
	for _, r := range sample(t, tab) {
		t.Run(r.preset+" by "+r.variant, func(t *testing.T) {
			t.Parallel()
			texts, errs := program(r.preset, r.variant)
			for i, c := range r.cells {
				if errs[i] != nil {
					require.True(t, refused(c.now()), "%s is refused now (%v): say why by go run ./tests/programs -reason", columns[i], errs[i])
					continue
				}
				require.Equal(t, c.now(), hash(texts[i]), "%s is another program than before: undo that, or say why by go run ./tests/programs -reason", columns[i])
			}
		})
	}
}

// What names stood for at the base on a preset and a target, auto stands for, with what has changed since: the first form that it asks for.
func TestAuto(t *testing.T) {
	tab := readTable(t)
	exactKeys := []string{"out=separate", "tail_decay=v"} // beta and decay in the update's K were rounded there
	inMain := "hbm=yes"                                   // the compiler copied operands to vector memory before the kernel
	fetched := []string{"prefetch=dma", inMain}
	oneStep := []string{"chunks=4", "tail_decay=v", "phases_before=0", "decay_bf16=none"} // short works of few heads took two phases there, as tpu, and lost limits of bias
	for _, job := range []struct {
		presets, auto, name string
		since               []string
	}{
		{"bench", "auto-fast", "tpu", exactKeys},
		{"tiny", "auto-fast", "tpu-long", oneStep},
		{"bench", "auto", "tpu", exactKeys},
		{"bench", "auto-f32-like", "tpu-x3", nil},
		{"train", "auto", "tpu-train", []string{"row_broadcast=transpose", "head_group=2", "state_delay=6", "prologue_end=90"}},
		{"train", "auto-f32-like", "tpu-train-x3", nil},
		{"contest-prefill", "auto", "tpu-packed", fetched},
		{"contest-prefill", "auto-f32-like", "tpu-x3", []string{"pack=segments", "prefetch=dma"}}, // sequences were gathered
		{"decode contest-decode", "auto", "decode-f32", []string{inMain}},                         // it costs what bf16 does
		{"decode-pool", "auto", "decode", []string{inMain}},
		{"decode decode-pool contest-decode", "auto-f32-like", "decode-f32", []string{inMain}},
	} {
		for preset := range strings.SplitSeq(job.presets, " ") {
			s, err := gdn.LookupPreset(preset)
			require.NoError(t, err)
			for _, name := range columns[2:] {
				target, err := target.Lookup(name)
				require.NoError(t, err)
				choices, err := gdn.Choices(job.auto, s, gdn.HostTPU, target.Machine())
				require.NoError(t, err)
				stood := job.name
				if s.Gates == gdn.GatesFused && job.auto == gdn.Auto && name == "tpu7x" && stood == "decode-f32" {
					stood = "decode" // raw gates keep the vector unit busy there
				}
				v, err := gdn.ParseVariant(tab.stood(stood, preset, name))
				require.NoError(t, err)
				since := job.since
				if preset == "bench" && job.name == "tpu" {
					since = append(slices.Clone(since), "prefetch=dma")
					if target.MXUSize == 256 {
						since = append(since, inMain)
					} else {
						since = append(since, "state_delay=6")
					}
				}
				if job.name == "tpu-train" {
					since = append(slices.Clone(since), "prefetch=dma")
					if target.MXUSize == 256 && target.VMEM <= 64<<20 {
						since = append(since, inMain)
					}
					if target.MXUSize == 128 {
						since = append(since, "bwd.decay_bf16=rows", "bwd.state_delay=6")
					}
				}
				if job.name == "tpu-packed" && target.MXUSize == 128 {
					since = append(slices.Clone(since), "chunks=4", "mergepairs=32", "state_delay=10")
				}
				for _, change := range since {
					axis, value, _ := strings.Cut(change, "=")
					v, err = v.With(axis, value)
					require.NoError(t, err)
				}
				require.Equal(t, v.String(), choices[0].Variant.String(), "%s on %s for %s", job.auto, preset, name)
			}
		}
	}
}

// What auto stands for on the bench work fits the memory of every target, as its first form. Without a target it is for a CPU. A head or two in one
// chunk have a row of their own in three passes.
func TestAutoFits(t *testing.T) {
	s, err := gdn.LookupPreset("bench")
	require.NoError(t, err)
	for generation, want := range map[string]string{"v5e": "tpu-128,prefetch=dma,tail_decay=v,state_delay=6", "tpu7x": "tpu-long,prefetch=dma,hbm=yes,tail_decay=v"} {
		tg, err := target.Lookup(generation)
		require.NoError(t, err)
		f, err := route.Resolve(s, gdn.Auto, tg, nil)
		require.NoError(t, err)
		require.Equal(t, want, f.Variant.Short())
		require.NotEmpty(t, f.From.Why)
	}
	f, err := route.Resolve(s, gdn.Auto, nil, nil)
	require.NoError(t, err)
	require.Equal(t, "cpu", f.Variant.Short())
	v6e, err := target.Lookup("v6e")
	require.NoError(t, err)
	for spec, own := range map[string]bool{"tiny": true, "tiny,t=64": true, "tiny,t=65": false, "tiny,hk=4,hv=8,k=128,v=128": false, "tiny,rule=kda": false, "tiny,b=2": false} {
		s, err := gdn.Parse(spec)
		require.NoError(t, err)
		f, err := route.Resolve(s, gdn.Auto, v6e, nil)
		require.NoError(t, err)
		require.Equal(t, own, strings.Contains(f.From.Text, "flow=solve"), "%s: %s", spec, f.From.Text)
	}
}

// stood is the text that a name stood for at the base.
func (t *table) stood(name, preset, target string) string {
	text := ""
	for _, r := range t.rows {
		for _, n := range r.names {
			n, targets, only := strings.Cut(n, "@")
			switch {
			case r.preset != preset || n != name:
			case !only && text == "":
				text = r.variant
			case only && slices.Contains(strings.Split(targets, ","), target):
				return r.variant
			}
		}
	}
	return text
}

// Rows that a test computes in addition to the champions.
const (
	sampled = 8  // drawn by the commit
	changed = 24 // drawn where code that makes programs has changed
	touched = 16 // most that the change records
)

// makers are the packages that make programs, with what they import.
var makers = []string{
	"github.com/gdngen/gdngen/codegen/route", "github.com/gdngen/gdngen/codegen/mosaic", "github.com/gdngen/gdngen/codegen/pallas",
}

// sample takes the rows that the change records, at most some, then the champions, then some drawn by the commit, more where the code
// that makes programs has changed.
func sample(t *testing.T, tab *table) []*row {
	change := history.Changed()
	t.Log(change)
	lines, err := change.Added("programs.tsv")
	require.NoError(t, err)
	recorded := map[string]bool{}
	for _, line := range lines {
		if fields := strings.Split(line, "\t"); fields[0] == "program" {
			recorded[fields[1]+" "+fields[2]] = true
		}
	}
	code, err := change.Code(makers...)
	require.NoError(t, err)
	n := sampled
	if len(code) > 0 {
		n = changed
		t.Logf("%d rows are drawn in place of %d: %s have changed", n, sampled, strings.Join(code, ", "))
	}
	var first, champions []*row
	for _, r := range tab.rows {
		if recorded[r.preset+" "+r.variant] {
			first = append(first, r)
		}
		if slices.ContainsFunc(r.names, func(name string) bool { return champion[r.preset+" "+name] }) {
			champions = append(champions, r)
		}
	}
	first, left := history.Bounded(1, first, touched)
	for _, r := range left {
		t.Logf("changed and not computed: %s by %s", r.preset, r.variant)
	}
	var list []*row
	for _, r := range slices.Concat(first, champions, rotate.Sample(0, tab.rows, n)) {
		if !slices.Contains(list, r) {
			list = append(list, r)
		}
	}
	return list
}

// champion are the best known of each kind of work at the base.
var champion = map[string]bool{
	"bench tpu@v5e": true, "bench tpu@v6e,tpu7x": true, "train tpu-train@v6e,tpu7x": true, "contest-prefill tpu-packed@v6e": true,
	"contest-decode decode": true, "bench cpu": true,
}

// A hash that changes keeps its history, with a reason for each change; another text of a refusal is no change.
func TestCell(t *testing.T) {
	c := cell(nil).set("aa", 0, false).set("bb", 1, true).set("bb", 2, true).set("!1", 3, true).set("!2", 4, true)
	require.Equal(t, "aa>bb/1>!2/3", c.String())
	p, err := parseCell(c.String())
	require.NoError(t, err)
	require.Equal(t, c, p)
	require.Equal(t, "+aa>bb/1", cell(nil).set("aa", 0, true).set("bb", 1, true).String())
	require.Equal(t, "aa", cell(nil).set("aa", 0, true).now())
	for _, bad := range []string{"", "aa/1", "aa>bb", "aa>bb/x", "aa>bb/0", "aa>>bb/1"} {
		_, err := parseCell(bad)
		require.Error(t, err, bad)
	}
}

// A program that has changed is recorded with a reason, and in no other way.
func TestUpdate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "programs.tsv")
	require.NoError(t, os.WriteFile(file, []byte("base\t0\t2026-01-01\nwhole\t0\t2026-01-01\n"), 0o600))
	const only = "tiny,algo=token,unit=sums"
	require.NoError(t, update(file, "", only))
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, 1, bytes.Count(data, []byte("program\ttiny\t")))
	require.NoError(t, update(file, "", only))

	line := bytes.Split(data[bytes.Index(data, []byte("program\t")):], []byte("\t"))
	now := line[4] // StableHLO
	other := bytes.Replace(data, now, []byte("+0123456789ab"), 1)
	require.NoError(t, os.WriteFile(file, other, 0o600))
	require.ErrorContains(t, update(file, "", only), "1 programs have changed; give -reason")
	data, err = os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, other, data)
	require.NoError(t, update(file, "a test", only))
	data, err = os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(data), "+0123456789ab>"+string(now[1:])+"/1\t")
	require.Regexp(t, `(?m)^reason\t1\t\S+\ta test$`, string(data))
}

// Locations are no part of a program, nor what stands around the kernels of a file.
func TestStripped(t *testing.T) {
	require.Equal(t, "  %a = op(%b) : f32\n}\n", withoutLocations("  %a = op(%b) : f32 loc(\"state\":1:1)\n}\n"))
	require.Equal(t, "  %a = op(%b) : f32\n}\n", withoutLocations("  %a = op(%b) : f32 loc(unknown)\n}\n"))
	require.Equal(t, "def f():\n    pass\n", kernelsOf("\"\"\"Made today.\"\"\"\n\nimport jax\n\ndef f():\n    pass\n\n# B: batch rows\nAXES = {}\n"))
}
