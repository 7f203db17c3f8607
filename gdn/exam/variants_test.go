package exam

import (
	"flag"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/ir/interp"
)

var all = flag.Bool("all", false, "examine all named variants, not a sample")

// unnamed variants are honest ones that searches found, or that other accuracy asks for.
var unnamed = []string{
	"tpu-long,rest=value",
	"bf16,beta=left",
	"tpu-x3,mergepairs=64,chunks=4,ahead=1,steps=1,lock=1,late=3,precinv=bf16x3,precintra=bf16x1,precstate=bf16x1",
}

// examined are the kinds of specs that variants are examined on.
var examined = []string{
	"b=2,t=300,hk=1,hv=2,k=128,v=128,dtype=bf16,negeig",
	"t=300,hk=2,hv=4,k=64,v=64,dtype=bf16,out=f32,init,l2norm,gates=fused",
	"t=300,hk=2,hv=4,k=128,v=128,dtype=bf16,seqs=6,init,state=vk",
	"b=4,t=1,hk=2,hv=4,k=128,v=128,dtype=bf16,init,pool=6",
}

// Every named variant passes, and honest ones without a name: a sample that changes by the day, on a kind of spec that does too.
func TestHonest(t *testing.T) {
	day := int(time.Now().Unix() / 86400)
	texts := append([]string{}, unnamed...)
	for _, n := range gdn.Variants {
		if !n.Negative {
			texts = append(texts, n.Name)
		}
	}
	var cache Cache
	for i, text := range texts {
		v, err := gdn.ParseVariant(text)
		require.NoError(t, err)
		for j, spec := range examined {
			s, err := gdn.Parse(spec)
			require.NoError(t, err)
			if v.Check(s) != nil || !*all && (i+5*j+day)%23 != 0 {
				continue
			}
			t.Run(text+" on "+spec, func(t *testing.T) { requirePass(t, &cache, s, v, uint64(day%100)) })
		}
	}
}

// requirePass examines a variant on every class.
func requirePass(t *testing.T, cache *Cache, s gdn.Spec, v gdn.Variant, seed uint64) {
	m, err := gdn.Build(s, v)
	require.NoError(t, err)
	for _, classes := range Deal(s, Supported(s)) {
		x, err := cache.Draw(s, classes, seed)
		require.NoError(t, err)
		got, err := interp.Run(m, x.Inputs, interp.Options{})
		require.NoError(t, err)
		marks, err := x.Judge(v.Precision().String(), got)
		require.NoError(t, err)
		for _, k := range marks {
			if !k.Pass() {
				t.Errorf("seed %d: %s", seed, k)
			}
		}
	}
}
