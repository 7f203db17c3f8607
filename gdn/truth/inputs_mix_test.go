package truth

import (
	"testing"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/gdntest"
	"github.com/stretchr/testify/require"
)

func names(classes []Class) (l []string) {
	for _, c := range classes {
		l = append(l, c.Name)
	}
	return l
}

// Classes of one kind of keys share key heads, every class is seen, and every head has one.
func TestDeal(t *testing.T) {
	var few []Class
	for _, name := range []string{"random", "slow", "beta0", "cos.9"} {
		c, err := LookupClass(name)
		require.NoError(t, err)
		few = append(few, c)
	}
	deals := Deal(gdntest.MustParse(t, "t=8,hk=4,hv=8,k=4"), few)
	require.Len(t, deals, 1)
	require.Equal(t, []string{"random", "slow", "beta0", "random", "cos.9", "cos.9", "random", "slow"}, names(deals[0]))
	for _, text := range []string{"t=8,hk=1,k=4", "b=3,t=8,hk=2,hv=8,k=4,negeig", "b=2,t=8,hk=5,k=4,gates=fused,negeig"} {
		s := gdntest.MustParse(t, text)
		var all []Class
		seen := map[string]bool{}
		for _, c := range Classes {
			if c.OfChannels() {
				continue
			}
			if c.Supports(s) == nil {
				all = append(all, c)
			}
		}
		for _, deal := range Deal(s, all) {
			require.Len(t, deal, s.Batch*s.HeadsV)
			for i, c := range deal {
				seen[c.Name] = true
				require.Same(t, deal[i/s.Groups()*s.Groups()].keys, c.keys)
			}
		}
		require.Len(t, seen, len(all), text)
	}
	require.Empty(t, Deal(gdntest.MustParse(t, "t=8,hk=1,k=4"), nil))
}

// Each head has the gates and keys of its class, in every layout; states of every second head are zero, by turns.
func TestGenerateMix(t *testing.T) {
	for _, text := range []string{"b=2,t=40,hk=2,hv=4,k=8,v=12,init", "t=40,hk=4,k=8,gates=fused,l2norm,seqs=6,init,state=vk,pool=7,packed"} {
		s := gdntest.MustParse(t, text)
		pick := []string{"cos.9", "reset.cos.9", "beta0", "hold", "faint", "cos.99", "u01nodecay", "masked"}
		if s.Batch == 1 {
			pick = []string{"cos.9", "beta0", "faint", "u01nodecay"}
		}
		var classes []Class
		for _, name := range pick {
			c, err := LookupClass(name)
			require.NoError(t, err)
			classes = append(classes, c)
		}
		in, err := GenerateMix(s, classes, 2)
		require.NoError(t, err)
		require.NoError(t, CheckInputs(s, in))
		again, err := GenerateMix(s, classes, 2)
		require.NoError(t, err)
		require.Equal(t, in, again)
		r := newRecurrence(s, in)
		for i, c := range classes {
			row, h := i/s.HeadsV, i%s.HeadsV
			for at := range s.Tokens {
				j := (row*s.Tokens+at)*s.HeadsV + h
				g, beta := r.g[j], r.beta[j]
				switch c.Name {
				case "cos.9", "cos.99":
					require.InDelta(t, 0, g, 1e-6)
					require.InDelta(t, 1, beta, 1e-6)
				case "faint":
					require.InDelta(t, .02, beta, 1e-6)
				case "beta0":
					require.InDelta(t, 0, beta, 1e-6)
				case "hold":
					require.Greater(t, beta, 1e-3)
				}
			}
			zero := true
			for j := range s.K * s.V {
				zero = zero && r.initial[h*s.K*s.V+j] == 0
			}
			require.Equal(t, h%2 == 0, zero)
		}
	}
	_, err := GenerateMix(gdntest.MustParse(t, "t=4,hk=2,k=2"), Classes[:1], 1)
	require.ErrorContains(t, err, "one class a value head")
	for name, want := range map[string]string{"reflect": "negeig", "mixed": "decays of channels", "bound": "decays of channels"} {
		c, err := LookupClass(name)
		require.NoError(t, err)
		_, err = GenerateMix(gdntest.MustParse(t, "t=4,hk=1,k=2"), []Class{c}, 1)
		require.ErrorContains(t, err, want)
	}
}

// Empty sequences and ones of a single token are first, between and last.
func TestVariedBounds(t *testing.T) {
	lengths := func(seed uint64) (l []int64) {
		s := gdntest.MustParse(t, "t=50,hk=1,k=2,seqs=6")
		in, err := GenerateMix(s, Classes[:1], seed)
		require.NoError(t, err)
		cu := in["cu_seqlens"].Int64s()
		for i := range 6 {
			l = append(l, cu[i+1]-cu[i])
		}
		return l
	}
	require.Equal(t, []int64{0, 1, 0}, []int64{lengths(1)[0], lengths(1)[1], lengths(1)[5]})
	require.Equal(t, []int64{1, 0, 1}, []int64{lengths(2)[0], lengths(2)[3], lengths(2)[5]})
	for seed := range uint64(9) {
		for n := 1; n < 7; n++ {
			for _, tokens := range []int{1, 3, 4, 9} {
				s := gdn.NewSpec(1, tokens, 1, 1, 2, 2)
				s.Seqs = n
				_, err := GenerateMix(s, Classes[:1], seed)
				require.NoError(t, err)
			}
		}
	}
}
