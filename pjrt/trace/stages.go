package trace

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Stages has the static cycles of kernels by stage of the algorithm. A trace shows nothing inside a kernel, so a stage's time is its
// kernel's measured time times the stage's static share: an estimate, and labelled so.
type Stages struct {
	// Kernel, if not nil, matches kernels by name or scope, for traces that name the kernel differently from the report. The shares of the
	// whole report then apply to all matching ops.
	Kernel *regexp.Regexp

	kernels map[string][]share // by name, without the number that XLA adds
	whole   []share            // of the whole report
}

// none is the stage of cycles without a location, such as waits for a first fetch.
const none = "(kernel)"

// ReadStages reads the output of gdngen explain -o json, for one target.
func ReadStages(data []byte, target string) (*Stages, error) {
	var in struct {
		Module  struct{ Spec string }
		Targets []struct {
			Target string
			Report *struct {
				Ops []struct {
					Name          string
					Calls, Cycles int64
					Wall          struct{ Cycles int64 }
					Locations     []struct {
						File         string
						Cycles, Wait int64
					}
				}
			}
		}
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return nil, fmt.Errorf("no JSON of gdngen explain: %w", err)
	}
	var names []string
	for _, t := range in.Targets {
		names = append(names, t.Target)
		if t.Report == nil || target != "" && t.Target != target || target == "" && len(in.Targets) > 1 {
			continue
		}
		s := &Stages{kernels: map[string][]share{}}
		whole := cycles{}
		for _, op := range t.Report.Ops {
			one := cycles{}
			left := max(op.Wall.Cycles, op.Cycles)
			for _, l := range op.Locations {
				stage := l.File
				if in.Module.Spec != "" { // our locations are stage.chunk.head
					stage, _, _ = strings.Cut(stage, ".")
				}
				one.add(cmp.Or(strings.TrimPrefix(stage, "-"), none), l.Cycles+l.Wait)
				left -= l.Cycles + l.Wait
			}
			one.add(none, max(left, 0))
			for stage, n := range one {
				whole.add(stage, n*max(op.Calls, 1))
			}
			if name := unnumbered(op.Name); s.kernels[name] == nil {
				if l := one.shares(name + " / "); l != nil {
					s.kernels[name] = l
				}
			}
		}
		s.whole = whole.shares("kernel / ")
		if len(s.kernels) == 0 {
			return nil, errors.New("no op of the report has locations: explain a kernel of ours")
		}
		return s, nil
	}
	if len(names) == 0 {
		return nil, errors.New("no JSON of gdngen explain: it has no targets")
	}
	return nil, fmt.Errorf("the report is of %s: name one of them as the target", strings.Join(names, ", "))
}

// cycles are the cycles per stage.
type cycles map[string]int64

func (c cycles) add(stage string, n int64) { c[stage] += n }

// shares returns each stage's part of the whole, in order of names; nil if there are no cycles.
func (c cycles) shares(prefix string) (l []share) {
	var sum int64
	for _, n := range c {
		sum += n
	}
	if sum == 0 {
		return nil
	}
	for _, stage := range slices.Sorted(maps.Keys(c)) {
		l = append(l, share{prefix + stage, float64(c[stage]) / float64(sum)})
	}
	return l
}

var numbers = regexp.MustCompile(`(\.\d+)+$`)

func unnumbered(name string) string { return numbers.ReplaceAllString(name, "") }

// shares splits the time of one of our kernels. Kernels are recognized by the instruction's name, or by its scope, where JAX keeps the
// name.
func (s *Stages) shares(o *Op) []share {
	if s.Kernel != nil && (s.Kernel.MatchString(o.Name) || s.Kernel.MatchString(o.Scope)) {
		return s.whole
	}
	if l := s.kernels[unnumbered(o.Name)]; l != nil {
		return l
	}
	for _, part := range strings.Split(o.Scope, "/") {
		if l := s.kernels[part]; l != nil {
			return l
		}
	}
	return []share{{"other ops", 1}}
}
