package results

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/gdn/exam/accuracy"
	"github.com/gdngen/gdngen/ir/target"
)

// measured holds the results of tests/peers/run.py.
//
//go:embed peers.json
var measured []byte

// Peer is a published kernel, measured on the spec of the first row, or on another one (Work).
type Peer struct {
	Name     string             `json:"name"`
	Version  string             `json:"version,omitempty"` // of the package that holds it
	Date     string             `json:"date"`
	Compiler string             `json:"compiler"`
	Work     string             `json:"work,omitempty"` // differences from the spec of the first row: rule=kda,direction=train
	Note     string             `json:"note,omitempty"`
	Cycles   map[string]float64 `json:"cycles,omitempty"`  // per token and value head by target: issue cycles
	Wall     map[string]float64 `json:"wall,omitempty"`    // in-order cycles, with waits and transfers
	Refused  map[string]string  `json:"refused,omitempty"` // by target without a figure: the reason
}

// readPeers reads the table of peers; the date and compiler of the run apply to all rows.
func readPeers(table []byte) ([]Peer, error) {
	var t struct {
		Date, Compiler, JAX string
		Peers               []Peer
	}
	d := json.NewDecoder(bytes.NewReader(table))
	d.DisallowUnknownFields()
	if err := d.Decode(&t); err != nil {
		return nil, fmt.Errorf("table of peers: %w", err)
	}
	for i := range t.Peers {
		t.Peers[i].Date, t.Peers[i].Compiler = t.Date, t.Compiler
	}
	return t.Peers, nil
}

// Peers returns the public kernels: first those on the bench spec, then those on other specs, which Work describes.
func Peers() ([]Peer, error) { return readPeers(measured) }

// Arithmetic names the kernel in the table of errors that computes with the same arithmetic; ok is false if it is
// unknown.
func (p *Peer) Arithmetic() (string, bool) {
	if p.Work != "" {
		return "", false
	}
	for _, kernel := range accuracy.Peers() {
		if name, ok := strings.CutPrefix(p.Name, kernel); ok && (name == "" || name[0] == ' ' || name[0] == ',') {
			return kernel, true
		}
	}
	return "", false
}

// Figure returns the cycles per token and value head on a target: in-order, else issue cycles; 0 if there are none.
func (p *Peer) Figure(target string) float64 {
	if w, ok := p.Wall[target]; ok {
		return w
	}
	return p.Cycles[target]
}

// peers writes the public kernels: on the bench spec with their known errors, then on other specs.
func (r *Table) peers(b *bytes.Buffer) {
	var bench, others []Peer
	for _, p := range r.Peers {
		if p.Work == "" {
			bench = append(bench, p)
		} else {
			others = append(others, p)
		}
	}
	if len(bench) > 0 {
		b.WriteString("\n## Public kernels on the bench work\n\nStatic cycles per token and value head of the modules that these projects lower: in order, and in brackets issue cycles, alone where in-order cycles are not known. " +
			"`python3 tests/peers/run.py` measures those with a version again, by the compiler named; the others can not be lowered from a package and keep the figures of their date. " +
			"Errors of outputs and states, times 1000, are those of docs/accuracy.md, where the arithmetic of a kernel is known.\n\n")
		peerTable(b, bench, accuracy.Headline, (*Peer).off)
	}
	if len(others) > 0 {
		b.WriteString("\n## Public kernels of other rules and of training steps\n\nThe same of work that is not bench: the column says where it differs. Of rules with a decay a channel there are 8 heads of q and k too. " +
			"A training step takes the gradient of the outputs, and gives the outputs and the gradients of all inputs. Unknown is what compiles, but has a schedule that gdngen can not read.\n\n")
		peerTable(b, others, []string{"work"}, func(p *Peer, _ string) string { return "`" + p.Work + "`" })
	}
}

// peerTable writes kernels with a column per target that has a figure, and the given columns.
func peerTable(b *bytes.Buffer, peers []Peer, columns []string, cell func(p *Peer, column string) string) {
	var targets []string
	for _, t := range target.All() {
		if slices.ContainsFunc(peers, func(p Peer) bool { return p.Cycles[t.Name] > 0 }) {
			targets = append(targets, t.Name)
		}
	}
	fmt.Fprintf(b, "| kernel | version | compiler | date | %s | remark |\n", strings.Join(slices.Concat(targets, columns), " | "))
	b.WriteString("|---|---|---|---|" + strings.Repeat("---:|", len(targets)+len(columns)) + "---|\n")
	for _, p := range peers {
		if len(p.Cycles) == 0 { // refused on all targets: another row may have an older figure
			continue
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |", p.Name, p.Version, p.Compiler, p.Date)
		for _, t := range targets {
			fmt.Fprintf(b, " %s |", p.cell(t))
		}
		for _, column := range columns {
			fmt.Fprintf(b, " %s |", cell(&p, column))
		}
		fmt.Fprintf(b, " %s |\n", p.Note)
	}
}

// off returns the error of the kernel's arithmetic on a class of inputs.
func (p *Peer) off(column string) string {
	kernel, ok := p.Arithmetic()
	if !ok {
		return "-"
	}
	e, _ := accuracy.Of(kernel, column)
	return e.String()
}

// cell returns the figure for a target, or whether the compiler or the cost model refused.
func (p *Peer) cell(target string) string {
	n, costed := p.Cycles[target]
	w, known := p.Wall[target]
	switch why := p.Refused[target]; {
	case known:
		return fmt.Sprintf("%.1f (%.1f)", w, n)
	case costed:
		return fmt.Sprintf("(%.1f)", n)
	case strings.HasPrefix(why, "compiled"):
		return "unknown"
	case why != "":
		return "refused"
	}
	return "-"
}
