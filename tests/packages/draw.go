package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/gdngen/gdngen/gdn"
)

// draw is a package that a user might request.
type draw struct {
	seed               uint64
	spec, auto, target string
}

// drawn returns the draw of a seed, always the same. One in 25 asks for f16, which TPU kernels lack, since users do.
func drawn(seed uint64) draw {
	r := rand.New(rand.NewPCG(seed, 60))
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	some := func(field string) string { return pick("", ","+field) }
	dtype := pick("bf16", "bf16", "bf16", "f32")
	if r.IntN(25) == 0 {
		dtype = "f16"
	}
	heads := pick("1 1", "1 2", "1 3", "2 2", "2 4", "2 6", "3 3", "10 10", "5 10")
	hk, hv, _ := strings.Cut(heads, " ")
	spec := fmt.Sprintf("b=1,t=%s,hk=%s,hv=%s,k=%s,v=%s,dtype=%s", pick("256", "1024", "4096"), hk, hv,
		pick("32", "64", "96", "128", "128", "256"), pick("32", "64", "96", "128", "128", "256"), dtype)
	rule := pick("gdn", "gdn", "gdn", "gdn", "kda", "gdn2", "gla", "deltanet", "simple-gla")
	spec += map[bool]string{false: ",rule=" + rule}[rule == "gdn"]
	switch gates := pick("given", "given", "fused"); {
	case gates == "fused" && (rule == "gdn" || rule == "kda"):
		spec += ",gates=fused" + some("gatedtype=bf16")
	case rule == "kda":
		spec += some("bound=-5")
	}
	spec += some("init") + some("l2norm") + pick("", "", ",state=vk")
	return draw{seed, spec, pick(gdn.Auto, gdn.Auto, "auto-f32-like"), pick("v6e", "v6e", "v5e", "tpu7x")}
}

// size estimates how long a package takes to write and lower, without a unit.
func (d draw) size() int {
	s, err := gdn.Parse(d.spec)
	if err != nil {
		return 0
	}
	return s.HeadsV * cmp.Or(s.K, 1) * cmp.Or(s.V, 1)
}
