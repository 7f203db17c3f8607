package results

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/gdngen/gdngen/codegen"
	"github.com/gdngen/gdngen/gdn/exam/accuracy"
)

// measured is what tests/peers/run.py measured.
//
//go:embed peers.json
var measured []byte

// Peer is a published kernel, measured on the work of the first row.
type Peer struct {
	Name     string             `json:"name"`
	Version  string             `json:"version,omitempty"` // of the package that holds it
	Date     string             `json:"date"`
	Compiler string             `json:"compiler"`
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

// Peers lists the public kernels on the bench work.
func Peers() ([]Peer, error) { return readPeers(measured) }

// Arithmetic names the kernel in the table of errors whose arithmetic this one has.
func (p *Peer) Arithmetic() (string, bool) {
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

// peers lists what others published, by the targets that any of them has a figure for.
func (r *Table) peers(b *bytes.Buffer) {
	if len(r.Peers) == 0 {
		return
	}
	b.WriteString("\n## Public kernels on the bench work\n\nStatic cycles per token and value head of the modules that these projects lower: wall, and in brackets throughput, alone where the wall is not known. " +
		"`python3 tests/peers/run.py` measures those with a version again, by the compiler named; the others can not be lowered from a package and keep the figures of their date. " +
		"Errors of outputs and states, times 1000, are those of docs/accuracy.md, where the arithmetic of a kernel is known.\n\n| kernel | version | compiler | date |")
	var targets []string
	for _, t := range codegen.Targets() {
		for _, p := range r.Peers {
			if _, ok := p.Cycles[t.Name]; ok {
				targets = append(targets, t.Name)
				break
			}
		}
	}
	for _, t := range targets {
		fmt.Fprintf(b, " %s |", t)
	}
	for _, column := range accuracy.Headline {
		fmt.Fprintf(b, " %s |", column)
	}
	b.WriteString(" remark |\n|---|---|---|---|" + strings.Repeat("---:|", len(targets)+len(accuracy.Headline)) + "---|\n")
	for _, p := range r.Peers {
		if len(p.Cycles) == 0 { // refused on all targets: an older figure may stand in another row
			continue
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |", p.Name, p.Version, p.Compiler, p.Date)
		for _, t := range targets {
			fmt.Fprintf(b, " %s |", p.cell(t))
		}
		for _, column := range accuracy.Headline {
			fmt.Fprintf(b, " %s |", p.off(column))
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

// cell is the figure for a target.
func (p *Peer) cell(target string) string {
	n, ok := p.Cycles[target]
	if !ok && p.Refused[target] != "" {
		return "refused"
	}
	if !ok {
		return "-"
	}
	if w, ok := p.Wall[target]; ok {
		return fmt.Sprintf("%.1f (%.1f)", w, n)
	}
	return fmt.Sprintf("(%.1f)", n)
}
