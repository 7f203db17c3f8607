package truth

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/gdntest"
	"github.com/gdngen/gdngen/ir/array"
)

// Every gradient is the slope of the loss sum(o do) + sum(final_state dfinal_state), by differences along random
// directions.
func TestReferenceGradients(t *testing.T) {
	for text, class := range map[string]string{
		"t=9,hk=1,hv=2,k=5,v=3,init":                                                   "random",
		"b=2,t=130,hk=1,k=4,v=6,state=vk,init,scale=1":                                 "slow",
		"t=12,hk=2,hv=4,k=4,init,gates=fused,l2norm,negeig":                            "random",
		"t=20,hk=1,k=4,v=2,seqs=4,init,empty=zero,packed":                              "random",
		"t=6,hk=1,k=4,v=2,gates=fused":                                                 "resets",
		"t=10,hk=1,k=6,negeig,init":                                                    "beta2",
		"t=7,hk=1,k=4,init":                                                            "beta0",
		"t=20,hk=2,k=4,v=2,seqs=4,init,state=vk,l2norm,final=false,direction=backward": "cos.9",
		"t=70,hk=1,hv=2,k=4,init,rule=deltanet":                                        "random",
		"t=9,hk=1,hv=2,k=4,init,rule=deltanet,gates=fused,negeig":                      "random",
		"t=70,hk=1,hv=2,k=4,init,rule=simple-gla,l2norm":                               "random",
		"t=20,hk=1,hv=2,k=4,init,rule=simple-gla,gates=fused,seqs=3":                   "random",
		"t=20,hk=1,hv=2,k=4,init,rule=linear":                                          "random",
		"t=70,hk=1,hv=2,k=4,v=3,init,rule=kda,l2norm":                                  "random",
		"t=9,hk=1,hv=2,k=4,init,rule=kda,gates=fused,negeig,state=vk":                  "random",
		"t=70,hk=1,hv=2,k=4,v=3,init,rule=gdn2,l2norm":                                 "random",
		"t=20,hk=1,hv=2,k=4,init,rule=gdn2,gates=fused,negeig,seqs=3,state=vk":         "random",
		"t=20,hk=1,hv=2,k=4,init,rule=kda,gates=fused,bound=-5,seqs=3":                 "random",
	} {
		s := gdntest.MustParse(t, text)
		if s.Direction == gdn.Forward {
			s.Direction = gdn.Train
		}
		inputs := generate(t, class, s, 3)
		grads := reference(t, s, inputs)
		forward := s
		forward.Direction = gdn.Forward
		loss := func(name string, x *array.Array) float64 {
			in := map[string]*array.Array{}
			for _, p := range forward.Inputs() {
				in[p.Name] = inputs[p.Name]
			}
			in[name] = x
			sum := 0.0
			for n, y := range reference(t, forward, in) {
				d := inputs["d"+n].Float64s()
				for i, e := range y.Float64s() {
					sum += e * d[i]
				}
			}
			return sum
		}
		r := rand.New(rand.NewPCG(1, 2))
		for _, p := range s.Differentiable() {
			const h = 1e-3
			x := inputs[p.Name].Float64s()
			up, down, g := make([]float64, len(x)), make([]float64, len(x)), grads["d"+p.Name].Float64s()
			for i := range x {
				d := h * r.NormFloat64()
				up[i], down[i] = x[i]+d, x[i]-d
			}
			a, b := array.FromFloat64s(p.Type.DType, p.Type.Shape, up), array.FromFloat64s(p.Type.DType, p.Type.Shape, down)
			want, size := 0.0, 0.0
			ua, ub := a.Float64s(), b.Float64s()
			for i := range x {
				want += g[i] * (ua[i] - ub[i])
				size += g[i] * g[i] * (ua[i] - ub[i]) * (ua[i] - ub[i])
			}
			require.True(t, size > 0 || class == "beta0", "%s %s", text, p.Name)
			require.InDelta(t, want, loss(p.Name, a)-loss(p.Name, b), 1e-9+2e-4*math.Sqrt(size), "%s %s", text, p.Name)
		}
	}
}
