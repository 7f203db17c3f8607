package triton

import (
	"io"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn"
)

// The template of a file is executed for decode and prefill with any choices and options: what it asks for is there, by its name.
func TestTemplates(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, text := range []string{"contest-decode", "contest-prefill,seqs=2", "b=2,t=256,hk=1,hv=2,k=128,v=128,dtype=bf16"} {
		s, err := gdn.Parse(text)
		require.NoError(t, err)
		for range 300 {
			v := Default(s)
			for _, a := range Axes {
				if w, err := v.changed(a.Name + "=" + a.Values[r.IntN(len(a.Values))]); err == nil && r.IntN(2) == 0 {
					v = w
				}
			}
			d := newData(s, v, "test")
			f := reflect.ValueOf(d).Elem()
			for i := range f.NumField() {
				if f.Field(i).Kind() == reflect.Bool {
					f.Field(i).SetBool(r.IntN(2) == 0)
				}
			}
			require.NoError(t, templates.ExecuteTemplate(io.Discard, "file", d), "%s by %s", s, v.Text(s))
		}
	}
}
