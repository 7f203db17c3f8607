package truth

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn/gdntest"
	"github.com/gdngen/gdngen/ir/array"
)

var naive = flag.String("naive", "", "a folder: write inputs and outputs there that tests/peers/naive.py compares with flash-linear-attention")

// What is written for a comparison with others is whole: inputs, outputs and gradients, by name.
func TestNaive(t *testing.T) {
	for _, rule := range []string{"kda", "gdn2"} {
		s := gdntest.MustParse(t, "b=1,t=70,hk=2,hv=2,k=32,v=24,init,direction=train,rule="+rule)
		in := generate(t, "random", s, 1)
		out, err := Reference(s, in)
		require.NoError(t, err)
		tensors := map[string]any{}
		put := func(prefix string, l map[string]*array.Array) {
			for name, x := range l {
				tensors[prefix+name] = map[string]any{"shape": x.Shape, "values": x.Float64s()}
			}
		}
		put("in.", in)
		put("out.", out)
		require.Len(t, tensors, len(s.Inputs())+len(s.Outputs()))
		if *naive != "" {
			data, err := json.Marshal(tensors)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(*naive, rule+".json"), data, 0o644))
		}
	}
}
