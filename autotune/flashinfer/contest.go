package flashinfer

import (
	"crypto/sha1"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The definitions of the contest.
const (
	ContestDecode  = "gdn_decode_qk4_v8_d128_k_last"
	ContestPrefill = "gdn_prefill_qk4_v8_d128_k_last"
)

// contestAxes are the axes of the contest's workloads.
//
//go:embed contest_workloads.json
var contestAxes []byte

var familyName = regexp.MustCompile(`^gdn_(decode|prefill)_qk(\d+)_v(\d+)_d(\d+)_([kv])_last$`)

// Family is the form of the names that Named accepts.
const Family = "gdn_{decode,prefill}_qk<key heads>_v<value heads>_d<width>_{k,v}_last"

// Named returns the definition for a name of the form Family. Tensors, axes and constraints are equal to those of the
// benchmark's definition of this name.
func Named(name string) (*Definition, error) {
	m := familyName.FindStringSubmatch(name)
	if m == nil && strings.HasPrefix(name, "gdn_mtp_") {
		return nil, fmt.Errorf("definition %q: verification of several tokens, which also gives the states after each of them, is not supported: decode (gdn_decode_*) takes such tokens without these states", name)
	}
	if m == nil {
		return nil, fmt.Errorf("unknown definition %q: names have the form %s; others are read from files", name, Family)
	}
	var sizes [3]int
	for i, text := range m[2:5] {
		n, err := strconv.Atoi(text)
		if err != nil || n == 0 {
			return nil, fmt.Errorf("definition %q: %s is not a size", name, text)
		}
		sizes[i] = n
	}
	hk, hv, width := sizes[0], sizes[1], sizes[2]
	f := family{decode: m[1] == "decode", kLast: m[5] == "k"}
	d := &Definition{Name: name, OpType: "gdn", Tags: []string{"stage:" + m[1], "layout:" + m[5] + "-last"},
		Description: fmt.Sprintf("Gated delta rule, %s, raw gates, %d query and key heads, %d value heads; the state is %s.", m[1], hk, hv, f.state()),
		Reference:   f.reference()}
	tokens := f.tokens()
	if f.decode {
		d.Axes = []Axis{{Name: "batch_size", Description: "Sequences that are decoded."}, {Name: "seq_len", Const: true, Value: 1}}
		d.Constraints = []string{"num_v_heads >= num_q_heads", "num_v_heads % num_q_heads == 0", "num_k_heads == num_q_heads"}
	} else {
		d.Axes = []Axis{{Name: "total_seq_len", Description: "Tokens of all sequences."}, {Name: "num_seqs"}}
		d.Constraints = []string{"len_cu_seqlens == num_seqs + 1", "total_seq_len == cu_seqlens[-1].item()"}
	}
	for _, a := range []Axis{{Name: "num_q_heads", Value: hk}, {Name: "num_k_heads", Value: hk}, {Name: "num_v_heads", Value: hv}, {Name: "head_size", Value: width}} {
		a.Const = true
		d.Axes = append(d.Axes, a)
	}
	if !f.decode {
		d.Axes = append(d.Axes, Axis{Name: "len_cu_seqlens", Description: "num_seqs + 1"})
	}
	tensor := func(name, dtype string, shape ...string) Tensor {
		return Tensor{Name: name, DType: dtype, Shape: shape}
	}
	perToken := func(name string, axes ...string) Tensor {
		return tensor(name, "bfloat16", slices.Concat(tokens, axes)...)
	}
	state := tensor("state", "float32", f.sequences(), "num_v_heads", "head_size", "head_size")
	state.Optional, state.Description = true, "Recurrent state "+f.state()+"; zeros if absent."
	d.Inputs = []Tensor{perToken("q", "num_q_heads", "head_size"), perToken("k", "num_k_heads", "head_size"), perToken("v", "num_v_heads", "head_size"),
		state, tensor("A_log", "float32", "num_v_heads"), perToken("a", "num_v_heads"), tensor("dt_bias", "float32", "num_v_heads"), perToken("b", "num_v_heads")}
	if !f.decode {
		d.Inputs = append(d.Inputs, tensor("cu_seqlens", "int64", "len_cu_seqlens"))
	}
	d.Inputs = append(d.Inputs, Tensor{Name: "scale", Scalar: true, DType: "float32", Description: "Multiplies q; 0 means 1/sqrt(head_size)."})
	state.Name, state.Optional, state.Description = "new_state", false, "State after the last token."
	d.Outputs = []Tensor{perToken("output", "num_v_heads", "head_size"), state}
	return d, nil
}

// family distinguishes the definitions of the family.
type family struct{ decode, kLast bool }

func (f family) tokens() []string {
	if f.decode {
		return []string{"batch_size", "seq_len"}
	}
	return []string{"total_seq_len"}
}

func (f family) sequences() string {
	if f.decode {
		return "batch_size"
	}
	return "num_seqs"
}

func (f family) state() string {
	n := "N"
	if f.decode {
		n = "B"
	}
	if f.kLast {
		return "[" + n + ", H, V, K]"
	}
	return "[" + n + ", H, K, V]"
}

// reference returns the definition's reference in PyTorch, token by token.
func (f family) reference() string {
	state, zeros, outer := "kv", "K, V", "k[:, :, None] * u[:, None, :]"
	if f.kLast {
		state, zeros, outer = "vk", "V, K", "u[:, :, None] * k[:, None, :]"
	}
	text := strings.NewReplacer("STATE", state, "ZEROS", zeros, "OUTER", outer).Replace(referenceStep)
	if f.decode {
		return text + referenceDecode
	}
	return text + referencePrefill
}

const (
	referenceStep = `import torch
import torch.nn.functional as F


def gates(a, A_log, dt_bias, b):
    decay = torch.exp(-torch.exp(A_log.float()) * F.softplus(a.float() + dt_bias.float()))
    return decay, torch.sigmoid(b.float())


def grouped(x, heads):
    return x.float().repeat_interleave(heads // x.shape[-2], dim=-2)


def start(heads, K, V, device):
    return torch.zeros(heads, ZEROS, dtype=torch.float32, device=device)


def token(S, q, k, v, decay, beta, scale):
    S = S * decay[:, None, None]
    u = beta[:, None] * (v - torch.einsum("hSTATE,hk->hv", S, k))
    S = S + OUTER
    return S, scale * torch.einsum("hSTATE,hk->hv", S, q)


`
	referenceDecode = `@torch.no_grad()
def run(q, k, v, state, A_log, a, dt_bias, b, scale):
    B, T, _, K = q.shape
    H, V = v.shape[2:]
    scale = scale or K ** -0.5
    decay, beta = gates(a, A_log, dt_bias, b)
    q, k = grouped(q, H), grouped(k, H)
    output, new_state = torch.zeros_like(v), []
    for n in range(B):
        S = start(H, K, V, q.device) if state is None else state[n].float()
        for t in range(T):
            S, o = token(S, q[n, t], k[n, t], v[n, t].float(), decay[n, t], beta[n, t], scale)
            output[n, t] = o.to(output.dtype)
        new_state.append(S)
    return output, torch.stack(new_state)
`
	referencePrefill = `@torch.no_grad()
def run(q, k, v, state, A_log, a, dt_bias, b, cu_seqlens, scale):
    K = q.shape[-1]
    H, V = v.shape[1:]
    scale = scale or K ** -0.5
    decay, beta = gates(a, A_log, dt_bias, b)
    q, k = grouped(q, H), grouped(k, H)
    output, new_state = torch.zeros_like(v), []
    for n in range(len(cu_seqlens) - 1):
        begin, end = int(cu_seqlens[n]), int(cu_seqlens[n + 1])
        S = start(H, K, V, q.device)  # what an empty sequence ends with
        if state is not None and begin < end:
            S = state[n].float()
        for t in range(begin, end):
            S, o = token(S, q[t], k[t], v[t].float(), decay[t], beta[t], scale)
            output[t] = o.to(output.dtype)
        new_state.append(S)
    return output, torch.stack(new_state)
`
)

// ContestWorkloads returns the contest's workloads of a definition: 54 for decode, 100 for prefill. Their inputs are
// random, and the scale is the default. The same workload has the same UUID everywhere.
func ContestWorkloads(d *Definition) ([]*Workload, error) {
	m := familyName.FindStringSubmatch(d.Name)
	if m == nil {
		return nil, fmt.Errorf("the contest has no workloads of %s: give them in a file", d.Name)
	}
	var shapes struct {
		Decode  map[int]int `json:"decode_batch_size_to_count"`
		Prefill [][2]int    `json:"prefill_total_seq_len_num_seqs"`
	}
	if err := json.Unmarshal(contestAxes, &shapes); err != nil {
		return nil, err
	}
	var list []*Workload
	add := func(axes map[string]int) {
		w := &Workload{Axes: axes, Inputs: map[string]Input{}, UUID: uuid(fmt.Sprintf("%s/%d/%v", d.Name, len(list), axes))}
		for _, x := range d.Inputs {
			w.Inputs[x.Name] = Input{Type: Random}
		}
		w.Inputs["scale"] = Input{Type: Scalar, Value: json.Number("0.0")}
		list = append(list, w)
	}
	if m[1] == "decode" {
		for _, batch := range slices.Sorted(maps.Keys(shapes.Decode)) {
			for range shapes.Decode[batch] {
				add(map[string]int{"batch_size": batch})
			}
		}
		return list, nil
	}
	for _, s := range shapes.Prefill {
		add(map[string]int{"total_seq_len": s[0], "num_seqs": s[1], "len_cu_seqlens": s[1] + 1})
	}
	return list, nil
}

// uuid makes a UUID from a name, in the manner of version 5.
func uuid(name string) string {
	h := sha1.Sum([]byte("gdngen/" + name))
	h[6], h[8] = h[6]&0x0f|0x50, h[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", h[:4], h[4:6], h[6:8], h[8:10], h[10:16])
}
