package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gdngen/gdngen/autotune/journal"
)

// Node summarizes a machine whose workers judged candidates.
type Node struct {
	Name    string  `json:"name"`
	Judged  int     `json:"judged"`
	Lost    int     `json:"lost"`    // lost workers
	Seconds float64 `json:"seconds"` // of its gates
}

// nodes sums up the work by machine.
func nodes(s *journal.State) (l []Node) {
	at := func(name string) *Node {
		i := slices.IndexFunc(l, func(n Node) bool { return n.Name == name })
		if i < 0 {
			l = append(l, Node{Name: name})
			i = len(l) - 1
		}
		return &l[i]
	}
	for _, t := range s.Times() {
		if t.Node == "" {
			continue
		}
		n := at(t.Node)
		n.Judged++
		for gate, seconds := range t.Wall {
			if !strings.Contains(gate, "/") { // not a part of another gate
				n.Seconds += seconds
			}
		}
	}
	for _, r := range s.Events() {
		if e, err := r.Event(); err == nil && e.Node != "" {
			at(e.Node).Lost++
		}
	}
	slices.SortFunc(l, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	return l
}

func (p *printer) nodes(l []Node) {
	if len(l) == 0 {
		return
	}
	p.printf("\nworkers\n")
	t := p.table()
	for _, n := range l {
		fmt.Fprintf(t, "  %s\t%d judged\t%d lost\t%.1f s\n", n.Name, n.Judged, n.Lost, n.Seconds)
	}
	p.flush(t)
}
