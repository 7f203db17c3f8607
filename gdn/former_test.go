package gdn

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Texts of journals from before axes got the names of the field read as what they are now, and nothing writes them.
func TestFormerAxes(t *testing.T) {
	for name, text := range map[string]string{
		"tpu":               "chunk=128,leaf=16,merge=packed,layout=token,decay=base2,fuse=kernel,kq=joined,beta=exponent,fold=yes,turn=key,out=shared,prec=bf16x1,scale=output,store=bf16,low=operands,feedback=4,mask=words,mergepairs=32,ahead=2,steps=2,lock=2,beside=yes,ready=80",
		"tpu-packed":        "chunk=128,leaf=16,merge=packed,layout=token,decay=base2,fuse=kernel,kq=joined,beta=exponent,spread=turned,pack=aligned,chunks=4,prec=bf16x1,store=bf16,low=yes,mask=words,mergepairs=64,ahead=1,lock=2,late=10",
		"tpu-x3":            "chunk=128,leaf=16,merge=packed,layout=token,decay=base2,fuse=kernel,kq=joined,beta=exponent,turn=key,rest=value,prec=bf16x3,parts=kept,mask=words,mergepairs=32,ahead=2,steps=4,lock=2",
		"tpu-train":         "chunk=128,leaf=16,merge=packed,layout=token,decay=base2,fuse=kernel,kq=joined,beta=exponent,fold=yes,out=shared,turn=key,prec=bf16x1,scale=output,store=bf16,low=operands,mask=words,mergepairs=32,ahead=2,steps=2,lock=2,beside=yes,ready=80,save=all,saved=bf16,backlow=yes,backahead=1,behind=1,backsteps=2,backlock=2,backlate=3,stagger=2",
		"tpu,layout=bhdt":   "tpu,layout=turned",
		"tpu,precapply=f32": "tpu,precapply=f32,precgrad=intra,precupdate=state",
	} {
		require.Equal(t, parseVariant(t, name), parseVariant(t, text), name)
	}
	v, err := DefaultVariant().With("ahead", "1")
	require.NoError(t, err)
	v, err = v.Towards("rest", "value")
	require.NoError(t, err)
	require.Equal(t, "algo=chunk,chunk=64,solve=merge,leaf=8,flow=fused,tail_decay=v,phases_before=1", v.String())
	_, err = ParseVariant("tpu,late=3,state_delay=6")
	require.ErrorContains(t, err, "state_delay is given twice")
	_, err = ParseVariant("low=perhaps")
	require.ErrorContains(t, err, `decay_bf16 (products with decays in bf16`)

	for former, now := range map[string]string{"tpu-packed,pack=visits": "tpu-packed,pack=segments", "tpu,fuse=glue": "tpu,fuse=xla",
		"tpu-long,fetch=copies,main=yes,row_chain=yes": "tpu-long,prefetch=dma,hbm=yes,persistent_rows=yes", "tpu-packed,fetch=windows": "tpu-packed,prefetch=blocks"} {
		require.Equal(t, parseVariant(t, now), parseVariant(t, former), former)
	}
	require.Equal(t, []string{"pack=visits is pack=segments now", "fuse=glue is fuse=xla now"}, Renamed("pack=visits,fuse=glue"))
	require.Equal(t, []string{"fetch=copies is prefetch=dma now", "main=yes is hbm=yes now", "row_chain=yes is persistent_rows=yes now"}, Renamed("fetch=copies,main=yes,row_chain=yes"))
	require.Equal(t, []string{"late=3 is state_delay=3 now", "layout=token is layout=bthd now"}, Renamed("tpu,late=3, layout=token,chunk=64"))
	require.Empty(t, Renamed("tpu,state_delay=3,layout=bthd,late=much,wat=1,@run#5"))
}

// A former name stands for one axis, and for a value that is no longer written otherwise.
func TestFormerNamesAreUnique(t *testing.T) {
	names := map[string]string{}
	for _, a := range Axes {
		names[a.Name] = a.Name
	}
	for _, a := range Axes {
		if a.Former != "" && a.Former != a.Name {
			require.Empty(t, names[a.Former], "%s is a former name of %s, and one of another", a.Former, a.Name)
			names[a.Former] = a.Name
		}
		for former, now := range a.formerValues {
			require.Contains(t, a.Values, now, a.Name)
			require.NotContains(t, a.Values, former, a.Name)
		}
	}
}
