// Package family has texts about each rule of the family: what files and packages say of it, and the rule in plain JAX and in NumPy.
//
// All rules are one recurrence with different vectors for reading and writing. g is the log decay of the token, or of each key channel:
//
//	S' = exp(g) S;  S = S' + k (w - S'^T r)^T;  o = scale S^T q
//
// The gates of the token are in r and w: beta k and beta v, or (erase k) and (write v); an additive rule has no r, and w is v. So a rule
// is a row of this package's table, and a few lines of rule.py.tmpl that compute r, w and g from its gates.
package family

import (
	_ "embed"
	"strconv"

	"github.com/gdngen/gdngen/gdn"
)

// Templates are the templates of rule.py.tmpl: operands, token, chunk.
//
//go:embed rule.py.tmpl
var Templates string

// Rule is the text about a rule in a generated file: its name, title and formulas.
type Rule struct {
	Function string   // its function in a file; a package adds the prefix chunk_
	Title    string   // for the start of a sentence
	Formula  []string // of one token, line by line
	Chunk    int      // tokens of a chunk in plain JAX; each pair of tokens has a decay, or one per channel
	Source   string   // a citation; may be ""
}

const (
	byHead    = "S' = exp(g_t) S"
	byChannel = "S' = Diag(exp(g_t)) S"
	adds      = "S  = S' + k_t u^T"
	out       = "o_t = scale S^T q_t"
)

var rules = map[string]Rule{
	"gdn":        {"gated_delta_rule", "The gated delta rule", []string{byHead, "u  = beta_t (v_t - S'^T k_t)", adds, out}, 64, "Gated DeltaNet, arXiv 2412.06464"},
	"deltanet":   {"delta_rule", "The delta rule", []string{"u  = beta_t (v_t - S^T k_t)", "S  = S + k_t u^T", out}, 64, "DeltaNet, arXiv 2406.06484"},
	"simple-gla": {"simple_gla", "Simple GLA", []string{byHead, "S  = S' + k_t v_t^T", out}, 64, ""},
	"linear":     {"linear_attention", "Linear attention", []string{"S  = S + k_t v_t^T", out}, 64, "linear transformers, arXiv 2006.16236"},
	"kda":        {"kda", "Kimi Delta Attention", []string{byChannel, "u  = beta_t (v_t - S'^T k_t)", adds, out}, 16, "Kimi Linear, arXiv 2510.26692"},
	"gla":        {"gla", "Gated linear attention", []string{byChannel, "S  = S' + k_t v_t^T", out}, 16, "GLA, arXiv 2312.06635"},
	"gdn2":       {"gdn2", "Gated delta rule 2", []string{byChannel, "u  = write_t v_t - S'^T (erase_t k_t)", adds, out}, 16, "GDN-2, arXiv 2605.22791"},
}

// Of returns the text about a rule; the zero Rule for an unknown one.
func Of(r gdn.Rule) Rule { return rules[r.String()] }

// axes names the axes of arguments after batch and tokens: H and Q are value and key heads.
var axes = map[string]string{"q": "QK", "k": "QK", "v": "HV", "o": "HV", "beta": "H", "erase": "HK", "write": "HV", "w": "HV"}

// Axes returns the axes of an argument or result as letters: B, T, Q and H, K and V, N sequences, E for N+1. Packed sequences may have
// no batch axis B.
func Axes(s gdn.Spec, name string) string {
	tokens, states, decay, own := "BT", "B", "H", axes[name]
	if s.Packed {
		tokens = "T"
	}
	if s.Seqs > 0 {
		states = "N"
	}
	if s.Rule.Channels() {
		decay = "HK"
	}
	switch name {
	case "A_log":
		return "H"
	case "dt_bias":
		return decay
	case "cu_seqlens":
		return "E"
	case "initial_state", "final_state":
		if s.State == gdn.StateVK {
			return states + "HVK"
		}
		return states + "HKV"
	case "g", "a":
		own = decay
	case "b":
		if own = "H"; s.Rule.SplitGates() {
			own = "HK"
		}
	}
	return tokens + own
}

// Doc returns a phrase that says what an argument is.
func Doc(s gdn.Spec, name string) string {
	bounded, apart, bound := s.Bound != 0, s.Rule.SplitGates(), strconv.FormatFloat(s.Bound, 'g', -1, 64)
	switch {
	case name == "A_log" && bounded:
		return "g = " + bound + " sigmoid(exp(A_log) (a + dt_bias))"
	case name == "g" && bounded:
		return "log decay, from " + bound + " to 0"
	case name == "b" && apart:
		return "erase = sigmoid(b)"
	}
	return docs[name]
}

var docs = map[string]string{
	"q":             "queries",
	"k":             "keys",
	"v":             "values",
	"g":             "log decay, not above 0",
	"beta":          "how much of the difference is written, 0 or above",
	"erase":         "how much of a channel is taken back, from 0 to 1",
	"write":         "how much of a channel is written, from 0 to 1",
	"A_log":         "g = -exp(A_log) softplus(a + dt_bias)",
	"a":             "raw decay",
	"dt_bias":       "bias of the raw decay",
	"b":             "beta = sigmoid(b)",
	"w":             "write = sigmoid(w)",
	"initial_state": "states before the first token; None: zeros",
	"cu_seqlens":    "where the sequences begin, and the last ends",
}
