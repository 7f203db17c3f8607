package gdn

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// drawn sets the axes that are picked, whether they apply or not.
func drawn(r *rand.Rand, v Variant, picked func(Axis) bool) Variant {
	for _, a := range Axes {
		if picked(a) {
			if err := a.Set(&v, a.Values[r.IntN(len(a.Values))]); err != nil {
				panic(err)
			}
		}
	}
	return v
}

// raw draws all axes, or those of a named variant's that a coin picks: what few axes agree in, even draws seldom meet.
func raw(r *rand.Rand) Variant {
	share := []float64{1, .3, .1}[r.IntN(3)]
	v := parsed[r.IntN(len(parsed))]
	return drawn(r, v, func(Axis) bool { return r.Float64() < share })
}

var parsed = func() (l []Variant) {
	for _, n := range Variants {
		v, err := ParseVariant(n.Text)
		if err != nil {
			panic(err)
		}
		l = append(l, v)
	}
	return l
}()

// Canon is a fixpoint, and a choice that does not apply decides nothing: variants that are equal in all that applies have one text.
func TestCanonIsAFixpoint(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	texts := map[string]Variant{}
	for i := range 200_000 {
		v := raw(r)
		c := v.Canon()
		if c != c.Canon() {
			t.Fatalf("Canon of Canon is another variant: %s, %s", c, c.Canon())
		}
		w := drawn(r, v, func(a Axis) bool { return a.Applies != nil && !a.Applies(c) })
		if w.Canon() != c {
			t.Fatalf("what does not apply makes another variant: %s, %s", c, w.Canon())
		}
		if i%10 == 0 {
			text := c.String()
			if old, ok := texts[text]; ok && old != c {
				t.Fatalf("two variants have one text: %s", text)
			}
			texts[text] = c
			back, err := ParseVariant(text)
			require.NoError(t, err, text)
			require.Equal(t, c, back, text)
		}
	}
}

// Whether an axis applies depends on the axes that its row names, and on no other.
func TestAxesRead(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	read := map[string]bool{}
	for range 30_000 {
		v := raw(r)
		b := Axes[r.IntN(len(Axes))]
		w := v
		require.NoError(t, b.Set(&w, b.Values[r.IntN(len(b.Values))]))
		for _, a := range Axes {
			if a.Applies == nil || a.Applies(v) == a.Applies(w) {
				continue
			}
			reads := slices.Contains(a.reads, b.Name) || slices.ContainsFunc(b.Sets, func(part string) bool { return slices.Contains(a.reads, part) })
			require.True(t, reads, "%s reads %s", a.Name, b.Name)
			read[a.Name] = true
		}
	}
	for _, a := range Axes {
		if a.Applies != nil {
			require.NotEmpty(t, a.reads, a.Name)
		}
		require.True(t, a.Applies == nil || read[a.Name], "%s: no draw changed whether it applies", a.Name)
	}
	at := func(name string) int { return slices.IndexFunc(judged, func(a *Axis) bool { return a.Name == name }) }
	for _, a := range judged {
		for _, name := range a.reads {
			require.Less(t, at(name), at(a.Name), "%s is judged after %s", a.Name, name)
		}
	}
}

// Every group has axes, names are those of axes, and the scalars are sizes and numbers of schedules.
func TestGroups(t *testing.T) {
	seen := map[Group]int{}
	var scalars []string
	for _, a := range Axes {
		seen[a.Group]++
		require.NotContains(t, a.Also, a.Group, a.Name)
		for _, part := range a.Sets {
			whole, err := LookupAxis(part)
			require.NoError(t, err)
			require.Equal(t, a.Name, whole.Part())
			require.Equal(t, a.Values, whole.Values, "%s sets %s", a.Name, part)
		}
		if !a.Structural() {
			scalars = append(scalars, a.Name)
		}
	}
	require.Equal(t, []string{"chunk", "leaf", "leafnewton", "span", "error_feedback", "mergepairs", "phases_before", "steps", "head_group", "state_delay", "grain", "prologue_end", "bwd.phases_before", "bwd.phases_after", "bwd.steps", "bwd.head_group", "bwd.state_delay", "bwd.grain", "bwd.head_skew"}, scalars)
	require.Len(t, seen, len(Groups()))
	for _, g := range Groups() {
		require.NotZero(t, seen[g], g.String())
	}
	a, b := parseVariant(t, "tpu-train"), parseVariant(t, "tpu-train,state_delay=20,head_group=8,bwd.state_delay=20,steps=4,bwd.head_skew=3")
	require.NotEqual(t, a, b)
	require.Equal(t, a.Cell(), b.Cell(), "schedules are numbers of a cell")
	require.NotEqual(t, a.Cell(), parseVariant(t, "tpu-train,chunks=4").Cell())
	require.Equal(t, parseVariant(t, "tpu-train,phases_before=0,steps=1,head_group=0,bwd.phases_before=0,bwd.phases_after=0,bwd.steps=1,bwd.head_group=0"), a.Unscheduled())
}
