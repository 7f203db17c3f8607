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

// measured is what tests/peers/run.py measured.
//
//go:embed peers.json
var measured []byte

// Peer is a published kernel, measured on the work of the first row, or of another rule.
type Peer struct {
	Name     string             `json:"name"`
	Version  string             `json:"version,omitempty"` // of the package that holds it
	Date     string             `json:"date"`
	Compiler string             `json:"compiler"`
	Work     string             `json:"work,omitempty"` // what differs from the work of the first row, in the words of a spec: rule=kda,direction=train
	Note     string             `json:"note,omitempty"`
	Cycles   map[string]float64 `json:"cycles,omitempty"`  // per token and value head by target: throughput
	Wall     map[string]float64 `json:"wall,omitempty"`    // the same with waits and transfers
	Refused  map[string]string  `json:"refused,omitempty"` // why a target has no figure
}

// readPeers reads the table of peers; all its rows have the date and the compiler of their run.
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

// Peers lists the public kernels: first those on the bench work, then those on other work, which Work describes.
func Peers() ([]Peer, error) { return readPeers(measured) }

// Arithmetic names the kernel in the table of errors that computes with the same arithmetic as this one; empty
// where it is not known.
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

// Figure is the cycles on a target by the best ruler known: wall, else throughput; 0 where there are none.
func (p *Peer) Figure(target string) float64 {
	if w, ok := p.Wall[target]; ok {
		return w
	}
	return p.Cycles[target]
}

// peers lists what others published: kernels on the bench work with what is known of their errors, and then those of other work.
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
		b.WriteString("\n## Public kernels on the bench work\n\nStatic cycles per token and value head of the modules that these projects lower: wall, and in brackets throughput, alone where the wall is not known. " +
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

// peerTable lists kernels by the targets that any of them has a figure for, and by columns of the caller's.
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
		if len(p.Cycles) == 0 { // refused on all targets: an older figure may be in another row
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

// off is the error of the kernel's arithmetic on a class of inputs.
func (p *Peer) off(column string) string {
	kernel, ok := p.Arithmetic()
	if !ok {
		return "-"
	}
	e, _ := accuracy.Of(kernel, column)
	return e.String()
}

// cell is the figure for a target, or whether it is the compiler or the cost model that gives none.
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
