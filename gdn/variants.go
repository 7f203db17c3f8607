package gdn

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/internal/suggest"
)

// NamedVariant is a variant with a name.
type NamedVariant struct {
	Name, Doc, Text string
	Negative        bool // wrong on correlated keys by design; accuracy tests must reject it
}

// Variants lists structurally different variants: one for each way to compute the rule, and the negative examples.
var Variants = []NamedVariant{
	{Name: "default", Doc: "every axis at its default: small blocks merged, all heads in a program, float32", Text: "algo=chunk"},
	{Name: "cpu", Doc: "the fastest known in float32 on a CPU: tensors as they are, short chunks", Text: "chunk=32,layout=bthd,kq=joined"},
	{Name: "cpu-packed", Doc: "as cpu, for packed sequences: a stream of chunks, of four sequences at once", Text: "chunk=32,batch=4,layout=bthd,kq=joined,pack=stream"},
	{Name: "naive", Doc: "one head a program, forward substitution over the chunk: where a search starts", Text: "solve=forward,heads=1"},
	{Name: "token", Doc: "the token recurrence", Text: "algo=token,chunk=16"},
	{Name: "token-inner", Doc: "the token recurrence on tensors as they are", Text: "algo=token,chunk=8,layout=bthd"},
	{Name: "token-vector", Doc: "the token recurrence by products and sums, on states as they are", Text: "algo=token,chunk=8,layout=bthd,unit=vector"},
	{Name: "decode", Doc: "a few tokens a sequence on a TPU: states as they are, K S in f32 on the vector unit, and Q S too where k is first and the kernel norms no q, else in bf16 on the MXU",
		Text: "algo=token,chunk=8,batch=4,layout=bthd,fuse=kernel,unit=lanes,precstate=bf16x1,head_group=1"},
	{Name: "decode-f32", Doc: "as decode, all of it in f32 on the vector unit", Text: "algo=token,chunk=8,batch=4,layout=bthd,fuse=kernel,unit=lanes"},
	{Name: "cpu-decode", Doc: "a few tokens a sequence on a CPU, in float32: each state is read by one pass for K S and Q S and one update",
		Text: "algo=token,chunk=8,unit=sums"},
	{Name: "forward", Doc: "forward substitution, all heads interleaved", Text: "solve=forward,chunk=32,decay=segment"},
	{Name: "block", Doc: "block forward substitution", Text: "solve=block,leaf=16"},
	{Name: "ladder", Doc: "X + X L X from single rows", Text: "solve=ladder,leaf=1"},
	{Name: "ladder16", Doc: "X + X L X from leaves of 16", Text: "solve=ladder,leaf=16,beta=right"},
	{Name: "merge-rows", Doc: "merges by the rows of the odd blocks", Text: "solve=merge,leaf=16,merge=rows,layout=bthd,kq=joined"},
	{Name: "merge-packed", Doc: "merges with packed rows, beta on the right", Text: "solve=merge,leaf=16,merge=packed,layout=bthd,beta=right"},
	{Name: "merge-neumann", Doc: "leaves of 8 by a power series", Text: "solve=merge,leaf=8,leafby=neumann,decay=segment"},
	{Name: "merge-newton", Doc: "leaves of 16 by a power series and a Newton step", Text: "solve=merge,leaf=16,leafby=neumann,leafnewton=1,merge=packed"},
	{Name: "merge-newton32", Doc: "leaves of 32 by a power series and two Newton steps", Text: "solve=merge,leaf=32,leafby=neumann,leafnewton=2"},
	{Name: "uw", Doc: "explicit U and W in one kernel", Text: "form=uw,kq=joined"},
	{Name: "split", Doc: "state-free grid, then a scan over V' = T(beta(V - K S))", Text: "flow=split,solve=merge,leaf=16,merge=packed"},
	{Name: "split-uw", Doc: "state-free grid with U and W, then a scan: the form of flash-linear-attention", Text: "flow=split,form=uw,chunks=2"},
	{Name: "solve-alone", Doc: "the inverse in a grid of its own", Text: "flow=solve,solve=ladder,leaf=8,fuse=kernel"},
	{Name: "chunks2", Doc: "state-free work of two chunks at once", Text: "chunks=2,solve=merge,leaf=16,merge=rows,fuse=kernel,layout=bthd"},
	{Name: "bf16x3", Doc: "matrix products in three bf16 passes", Text: "prec=bf16x3,leaf=16,merge=packed,decay=clamp"},
	{Name: "bf16", Doc: "matrix products and storage in bf16, leaves of 16 by substitution", Text: "chunk=128,leaf=16,merge=packed,layout=bthd,fuse=kernel,decay=clamp,kq=joined,beta=right,prec=bf16x1,store=bf16"},
	{Name: "tpu", Doc: "masks on words, exp(G) in the operands, one kernel whose steps overlap in three phases",
		Text: "chunk=128,leaf=16,merge=packed,layout=bthd,decay=base2,fuse=kernel,kq=joined,beta=exponent,fold=yes,transpose_k=key,out=shared,prec=bf16x1,scale=output,store=bf16,decay_bf16=operands,error_feedback=4,mask=words,mergepairs=32,phases_before=2,steps=2,head_group=2,interleave=yes,prologue_end=80"},
	{Name: "tpu-long", Doc: "as tpu, with the work of four chunks that needs no state interleaved: for MXUs of 256 rows, eight heads and long sequences",
		Text: "chunk=128,leaf=16,merge=packed,chunks=4,layout=bthd,decay=base2,fuse=kernel,kq=joined,beta=exponent,fold=yes,transpose_k=key,row_broadcast=transpose,prec=bf16x1,scale=output,store=bf16,decay_bf16=operands,error_feedback=4,mask=words,mergepairs=64,phases_before=1,head_group=1,state_delay=6"},
	{Name: "tpu-few", Doc: "as tpu-long, with output and next state as affine maps of the state, of eight chunks at once: for a head or two, which wait for the state",
		Text: "chunk=128,leaf=32,merge=packed,form=map,chunks=8,layout=bthd,decay=base2,fuse=kernel,kq=joined,beta=exponent,fold=yes,transpose_k=key,row_broadcast=transpose,prec=bf16x1,scale=output,store=bf16,mask=words,mergepairs=64,phases_before=2,head_group=1"},
	{Name: "tpu-128", Doc: "as tpu-long, the first phase done earlier and the products of decay with columns in f32: for MXUs of 128 rows, and vector units without bf16",
		Text: "chunk=128,leaf=16,merge=packed,chunks=4,layout=bthd,decay=base2,fuse=kernel,kq=joined,beta=exponent,fold=yes,transpose_k=key,row_broadcast=transpose,prec=bf16x1,scale=output,store=bf16,decay_bf16=rows,error_feedback=4,mask=words,mergepairs=32,phases_before=1,head_group=1,state_delay=10,prologue_end=80"},
	{Name: "tpu-packed", Doc: "as tpu-long, for packed sequences: aligned blocks of tokens without padding, four interleaved",
		Text: "chunk=128,leaf=16,merge=packed,layout=bthd,decay=base2,fuse=kernel,kq=joined,beta=exponent,row_broadcast=transpose,pack=aligned,chunks=4,prec=bf16x1,store=bf16,decay_bf16=all,mask=words,mergepairs=64,phases_before=1,head_group=2,state_delay=10"},
	{Name: "tpu-packed-128", Doc: "as tpu-packed, two interleaved blocks and the decays of columns in f32: for MXUs of 128 rows",
		Text: "chunk=128,leaf=16,merge=packed,layout=bthd,decay=base2,fuse=kernel,kq=joined,beta=exponent,row_broadcast=transpose,pack=aligned,chunks=2,prec=bf16x1,store=bf16,decay_bf16=operands,mask=words,mergepairs=64,phases_before=1,head_group=2,state_delay=3"},
	{Name: "tpu-x3", Doc: "as tpu, in three bf16 passes on parts that are split where they are made",
		Text: "chunk=128,leaf=16,merge=packed,layout=bthd,decay=base2,fuse=kernel,kq=joined,beta=exponent,transpose_k=key,tail_decay=v,prec=bf16x3,split_at=def,mask=words,mergepairs=32,phases_before=2,steps=4,head_group=2"},
	{Name: "tpu-x3-long", Doc: "as tpu-x3, with the work of four chunks that needs no state interleaved: for MXUs of 256 rows, eight heads and long sequences",
		Text: "chunk=128,leaf=16,merge=packed,chunks=4,layout=bthd,decay=base2,fuse=kernel,kq=joined,beta=exponent,transpose_k=key,tail_decay=v,prec=bf16x3,split_at=def,mask=words,mergepairs=64,phases_before=1,head_group=1,state_delay=3"},
	{Name: "tpu-train", Doc: "as tpu, for direction=train: state, T and U kept in bf16, a phase behind the state of the backward kernel",
		Text: "chunk=128,leaf=16,merge=packed,layout=bthd,decay=base2,fuse=kernel,kq=joined,beta=exponent,fold=yes,out=shared,transpose_k=key,prec=bf16x1,scale=output,store=bf16,decay_bf16=operands,mask=words,mergepairs=32,phases_before=2,steps=2,head_group=2,interleave=yes,prologue_end=80,save=all,saved=bf16,bwd.decay_bf16=all,bwd.phases_before=1,bwd.phases_after=1,bwd.steps=2,bwd.head_group=2,bwd.state_delay=3,bwd.head_skew=2"},
	{Name: "tpu-train-long", Doc: "as tpu-train, with the work of four chunks that needs no state interleaved in the forward kernel: for MXUs of 256 rows, eight heads and long sequences",
		Text: "chunk=128,leaf=16,merge=packed,chunks=4,layout=bthd,decay=base2,fuse=kernel,kq=joined,beta=exponent,fold=yes,out=shared,transpose_k=key,prec=bf16x1,scale=output,store=bf16,decay_bf16=operands,mask=words,mergepairs=64,phases_before=1,head_group=1,state_delay=3,save=all,saved=bf16,bwd.decay_bf16=all,bwd.phases_before=1,bwd.phases_after=1,bwd.steps=2,bwd.head_group=2,bwd.state_delay=3,bwd.head_skew=2"},
	{Name: "tpu-train-128", Doc: "as tpu-train-long, with the gradient of the decay summed over lanes by the unit that moves them and decays backwards in float32, for want of vector units for bf16: for MXUs of 128 rows",
		Text: "chunk=128,leaf=16,merge=packed,chunks=4,layout=bthd,decay=base2,fuse=kernel,kq=joined,beta=exponent,fold=yes,out=shared,transpose_k=key,prec=bf16x1,scale=output,store=bf16,decay_bf16=operands,mask=words,mergepairs=64,phases_before=1,head_group=1,state_delay=3,save=all,saved=bf16,grads=lanes,bwd.decay_bf16=rows,decaysums=lanes,bwd.phases_before=1,bwd.phases_after=1,bwd.steps=2,bwd.head_group=2"},
	{Name: "tpu-train-x3", Doc: "for direction=train on correlated keys: three bf16 passes for the inverse, its products, the update of the state and what the gradients of q and gates sum, one for all else",
		Text: "chunk=128,leaf=16,merge=packed,layout=bthd,decay=base2,fuse=kernel,kq=joined,beta=exponent,transpose_k=key,scale=output,precinv=bf16x3,precintra=bf16x1,precstate=bf16x1,precapply=bf16x3,precgrad=bf16x3,precupdate=bf16x3,split_at=def,mask=words,mergepairs=32,phases_before=2,steps=2,head_group=2,interleave=yes,prologue_end=80,save=all,saved=bf16,decaygrad=inverse,grads=lanes,bwd.phases_before=1,bwd.phases_after=1,bwd.steps=2,bwd.head_group=2,bwd.state_delay=6"},
	{Name: "tpu-train-x3-long", Doc: "as tpu-train-x3, with the work of four chunks that needs no state interleaved in the forward kernel: for MXUs of 256 rows, eight heads and long sequences",
		Text: "chunk=128,leaf=16,merge=packed,chunks=4,layout=bthd,decay=base2,fuse=kernel,kq=joined,beta=exponent,transpose_k=key,row_broadcast=transpose,scale=output,precinv=bf16x3,precintra=bf16x1,precstate=bf16x1,precapply=bf16x3,precgrad=bf16x3,precupdate=bf16x3,split_at=def,mask=words,mergepairs=64,phases_before=1,head_group=1,state_delay=3,save=all,saved=bf16,decaygrad=inverse,grads=lanes,bwd.phases_before=1,bwd.phases_after=1,bwd.steps=2,bwd.head_group=2,bwd.state_delay=6"},
	{Name: "neumann", Doc: "a power series over the whole chunk", Text: "solve=neumann", Negative: true},
	{Name: "newton", Doc: "Newton-Schulz over the whole chunk", Text: "solve=newton", Negative: true},
}

// Former lists names that journals and scripts still use. No list shows them, since another named variant is better in every respect.
var Former = []NamedVariant{
	// Slower than tpu-long,fold=no,tail_decay=v,refine=yes, the class fla, on all targets, and less accurate on all classes of inputs.
	{Name: "tpu-f32", Doc: "as tpu, with products of decay in f32: more accurate, and for targets without bf16 in the vector unit",
		Text: "chunk=128,leaf=16,merge=packed,layout=bthd,decay=base2,fuse=kernel,kq=joined,beta=exponent,fold=yes,out=joined,transpose_k=key,prec=bf16x1,store=bf16,mask=words,mergepairs=16,phases_before=2,steps=2,head_group=2,state_delay=6"},
}

// LookupVariant returns the variant with this name in Variants or Former. An unknown name, and an auto text, is an error.
func LookupVariant(name string) (Variant, error) {
	if _, ok := ParseAuto(name); ok {
		return Variant{}, fmt.Errorf("variant: %s is chosen by spec and target, and here is no choice: name a variant", name)
	}
	var names []string
	for _, n := range Variants {
		names = append(names, n.Name)
	}
	for _, n := range slices.Concat(Variants, Former) {
		if n.Name == name {
			return ParseVariant(n.Text)
		}
	}
	return Variant{}, fmt.Errorf("variant: unknown name %q%s (known: %s)", name, suggest.Name(name, names), strings.Join(names, " "))
}

// Changes reports whether the axis affects s: some named variant has two values of it that fit s differently. For example, backward axes do not affect a
// forward spec.
func (a Axis) Changes(s Spec) bool {
	for _, n := range Variants {
		v, err := ParseVariant(n.Text)
		if err != nil {
			continue
		}
		f := v.Fit(s)
		for _, value := range a.Values {
			if w, err := v.With(a.Name, value); err == nil && w.Fit(s) != f {
				return true
			}
		}
	}
	return false
}

// CellAxes returns the names of the axes that Cells iterates for s, outermost first: structural axes of form, inverse, mapping and layout that affect s.
func CellAxes(s Spec) (names []string) {
	for _, a := range Axes {
		switch a.Group {
		case GroupForm, GroupInverse, GroupMapping, GroupLayout:
			if a.Structural() && a.Changes(s) {
				names = append(names, a.Name)
			}
		}
	}
	return names
}

// Cells iterates over the structural cells of s that can be built and are safe, each once. base supplies sizes, precisions and storage.
func Cells(s Spec, base Variant) iter.Seq[Variant] {
	return func(yield func(Variant) bool) {
		seen := map[Variant]bool{}
		var walk func(v Variant, axes []string) bool
		walk = func(v Variant, axes []string) bool {
			if len(axes) == 0 {
				f := v.Fit(s)
				if seen[f] || v.Check(s) != nil || v.Unsafe(s) != "" {
					return true
				}
				seen[f] = true
				return yield(v)
			}
			a := lookupAxis(axes[0])
			if a.Applies != nil && !a.Applies(v) {
				return walk(v, axes[1:])
			}
			for _, value := range a.Values {
				if w, err := v.With(a.Name, value); err == nil && !walk(w, axes[1:]) {
					return false
				}
			}
			return true
		}
		walk(base.Canon(), CellAxes(s))
	}
}
